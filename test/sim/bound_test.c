// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "sim/lab.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static double bound_of(const char *kind)
{
    struct profile profile;
    char error[lab_error_size];
    double rate = -1;
    ASSERT(profile_find("llama-3.1-8b", &profile));
    struct lab_options options = {
        .profile = &profile,
        .backend_count = 1,
        .workload = {.kind = kind, .rate = 10, .requests = 3000, .seed = 1},
        .warm_up = 0.2};
    ASSERT(lab_bound(&options, &rate, error));
    return rate;
}

TEST(prompts_without_a_common_prefix_hit_nothing)
{
    CHECK(bound_of("unique") == 0);
}

TEST(one_hot_prompt_hits_its_share_of_all_tokens)
{
    // 80% of the requests share 4,000 of 4,500 tokens.
    double rate = bound_of("hot");
    CHECK(rate > 0.69);
    CHECK(rate < 0.72);
}

// The simple twin: a set of the keys of all blocks.
enum { twin_places = 1 << 22, twin_keys = 1 << 14 };

static bool twin_add(uint64_t *set, uint64_t key)
{
    uint64_t at = key % twin_places;
    while (set[at] != 0 && set[at] != key) {
        at = (at + 1) % twin_places;
    }
    bool is_new = set[at] == 0;
    set[at] = key;
    return is_new;
}

static double twin_of(const char *kind)
{
    struct workload_options options = {.kind = kind, .rate = 10, .requests = 3000, .seed = 1};
    char error[workload_error_size];
    struct workload *workload = workload_create(&options, error);
    uint64_t *set = calloc(twin_places, sizeof(*set));
    uint64_t *keys = calloc(twin_keys, sizeof(*keys));
    uint64_t at_us;
    double hits = 0;
    double tokens = 0;
    ASSERT(workload != NULL && set != NULL && keys != NULL);
    while (workload_peek(workload, &at_us)) {
        struct work_item item;
        workload_take(workload, &item);
        uint32_t count = content_keys(item.pieces, item.piece_count + 1, 16, keys, twin_keys);
        uint32_t found = 0;
        bool is_found = true;
        for (uint32_t i = 0; i < count; i++) {
            is_found = !twin_add(set, keys[i]) && is_found;
            found += is_found && i < (item.prompt_tokens - 1) / 16;
        }
        hits += item.number >= 600 ? found * 16.0 : 0;
        tokens += item.number >= 600 ? item.prompt_tokens : 0;
        workload_done(workload, &item, at_us);
    }
    workload_destroy(&workload);
    free(set);
    free(keys);
    return hits / tokens;
}

TEST(pieces_and_blocks_say_the_same)
{
    for (uint32_t i = 0; workload_kind_name(i) != NULL; i++) {
        double blocks = twin_of(workload_kind_name(i));
        double pieces = bound_of(workload_kind_name(i));
        CHECK(fabs(pieces - blocks) < 1e-12);
    }
}
