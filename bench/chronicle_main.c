// SPDX-License-Identifier: Apache-2.0
//
// bench_chronicle -- what it costs to note a receipt in the chronicle; one figure a line.
//
//     $ bench_chronicle --rate 45000 --rounds 301
//     {"case":"chronicle","metric":"p50_ns","value":180,"unit":"ns"}
//
// Receipts come as the scribe finds them: what a worker ended in 20 ms at once, and in between the
// worker has used the processor's caches for something else.  Requests are those of the observe
// benchmark: the next message in one of 8,192 conversations of eight applications, 16 blocks each,
// on eight backends; a thousand decisions are kept.  Time is that of the thread on its core.

#include "base/base.h"
#include "base/hash.h"
#include "base/rng.h"
#include "chronicle/chronicle.h"
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    round_max = 9999,
    batch_max = 2000,
    look_ms = 20,
    application_count = 8,
    conversation_count = 8192,
    block_count = 16,
    system_blocks = 6, // those of one application begin with so many alike
    block_tokens = 64,
    member_count = 8,
    // Memory that the worker uses meanwhile: more than the cache of a core.
    other_size = 8 << 20,
};

struct slot {
    _Alignas(8) uint8_t bytes[receipt_size_max];
};

static struct slot slots[batch_max];
static uint8_t other[other_size];
static struct rng rng = {7};
static uint64_t wall_ms = 1700000000000;
static uint64_t number;

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

// The last block is new in each request.
static void make_keys(uint32_t conversation, uint64_t keys[block_count])
{
    uint64_t key = conversation % application_count + 1;
    for (uint32_t i = 0; i < block_count; i++) {
        uint64_t own = i < system_blocks     ? 1
                       : i + 1 < block_count ? conversation + 2
                                             : number << 32;
        key = rng_mix(key * 3 + rng_mix(own));
        keys[i] = key;
    }
}

static struct receipt a_receipt(uint32_t conversation)
{
    uint32_t rival_count = member_count - 1;
    rival_count = rival_count < decision_rival_max ? rival_count : decision_rival_max;
    uint32_t cached = (block_count - 1) * block_tokens;
    return (struct receipt){
        .number = ++number,
        .wall_us = wall_ms * 1000,
        .decision.chosen.backend = 1 + rng_mix(conversation) % member_count,
        .outcome = RECEIPT_OK,
        .status = 200,
        .decision.policy = &policy_warm,
        .attempts = 1,
        .first_us = 300 + rng_below(&rng, 4096),
        .last_us = 5000,
        .end_us = 5100,
        .prompt_tokens = block_count * block_tokens + 10,
        .decision.chosen.expected_tokens = cached,
        .cached_tokens = cached,
        .output_tokens = 20,
        .block_tokens = block_tokens,
        .has_cached_tokens = true,
        .saved_us = (uint64_t)cached * 50,
        .token_ms = 0.05F,
        .decision.candidate_count = member_count,
        .rival_count = rival_count,
    };
}

static void make_receipt(struct slot *slot)
{
    uint32_t conversation = rng_below(&rng, conversation_count);
    struct receipt receipt = a_receipt(conversation);
    struct decision_party rivals[decision_rival_max] = {0};
    uint64_t keys[block_count];
    uint64_t sampled[block_count];
    uint64_t depths[receipt_depth_max];
    char id[256];

    receipt.decision.chosen.slot = (uint32_t)receipt.decision.chosen.backend - 1;
    make_keys(conversation, keys);
    for (uint32_t i = 0; i < block_count; i++) {
        sampled[receipt.sampled_count] = keys[i];
        receipt.sampled_count += keys[i] % receipt_sample == 0;
    }
    while (1U << receipt.depth_count <= block_count) {
        depths[receipt.depth_count] = keys[(1U << receipt.depth_count) - 1];
        receipt.depth_count++;
    }
    for (uint32_t i = 0; i < receipt.rival_count; i++) {
        rivals[i].backend = 1 + (receipt.decision.chosen.backend + i) % member_count;
        rivals[i].slot = (uint32_t)rivals[i].backend - 1;
        rivals[i].expected_tokens = system_blocks * block_tokens;
    }
    int id_size = snprintf(id, sizeof(id), "%032llx", (unsigned long long)rng_next(&rng));
    struct receipt_parts parts = {
        .rivals = rivals,
        .sampled = sampled,
        .depths = depths,
        .id = slice_of(id, (size_t)id_size),
        .model = slice_str("meta-llama/Llama-3.1-8B-Instruct"),
        .url = slice_str("http://10.0.0.17:8000"),
        .path = slice_str("/v1/chat/completions"),
    };
    receipt.id_hash = hash_bytes(parts.id, 0);
    receipt.id_size = (uint16_t)parts.id.size;
    receipt.model_size = (uint16_t)parts.model.size;
    receipt.url_size = (uint16_t)parts.url.size;
    receipt.path_size = (uint16_t)parts.path.size;
    receipt_write(&receipt, &parts, slot->bytes);
}

static struct chronicle *make_chronicle(void)
{
    struct chronicle_member members[member_count];
    struct chronicle *chronicle = chronicle_create(&(struct chronicle_options){
        .decision_max = 1000, .member_max = 1024, .hot_max = 1024, .seed = 5});

    ASSERT(chronicle != NULL);
    for (uint32_t i = 0; i < member_count; i++) {
        members[i] = (struct chronicle_member){
            .id = 1 + i, .slot = i, .is_usable = true, .cache_tokens = 1000000, .token_ms = 0.05F};
    }
    chronicle_set_members(chronicle, members, member_count);
    return chronicle;
}

// Returns nanoseconds for each receipt.
static double take_batch(struct chronicle *chronicle, uint32_t count)
{
    for (uint32_t i = 0; i < other_size; i += 64) {
        other[i]++;
    }
    for (uint32_t i = 0; i < count; i++) {
        make_receipt(&slots[i]);
    }
    uint64_t begin = clock_ns();
    for (uint32_t i = 0; i < count; i++) {
        chronicle_note(chronicle, (const struct receipt *)slots[i].bytes);
    }
    uint64_t spent = clock_ns() - begin;
    wall_ms += look_ms;
    if (wall_ms % 1000 < look_ms) {
        chronicle_tick(chronicle, wall_ms);
    }
    return (double)spent / count;
}

static void measure(const char *name, uint64_t rate, uint32_t rounds)
{
    static double times[round_max];
    struct chronicle *chronicle = make_chronicle();
    uint32_t count = (uint32_t)(rate * look_ms / 1000);

    chronicle_tick(chronicle, wall_ms);
    // Until caches are full, and whatever depends on the rate has seen it.
    for (uint32_t i = 0; i < 3 * 1000 / look_ms; i++) {
        take_batch(chronicle, count);
    }
    for (uint32_t i = 0; i < rounds; i++) {
        times[i] = take_batch(chronicle, count);
    }
    qsort(times, rounds, sizeof(*times), compare);
    printf("{\"case\":\"%s\",\"metric\":\"p50_ns\",\"value\":%.4g,\"unit\":\"ns\"}\n", name,
           times[rounds / 2]);
    chronicle_destroy(&chronicle);
}

int main(int argc, char **argv)
{
    uint64_t rate = 45000;
    uint64_t rounds = 301;
    const struct flag flags[] = {{.name = "rate", .number = &rate},
                                 {.name = "rounds", .number = &rounds}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    if (rate < 1000 || rate > batch_max * 1000 / look_ms || rounds == 0 || rounds > round_max) {
        fprintf(stderr, "rate: 1000 to %d; rounds: 1 to %d\n", batch_max * 1000 / look_ms,
                round_max);
        return 2;
    }
    measure("chronicle", rate, (uint32_t)rounds);
    measure("chronicle_slow", 1000, (uint32_t)rounds);
    return 0;
}
