// SPDX-License-Identifier: Apache-2.0
//
// The model finds what a cache with all blocks finds.

#include "chronicle/shadow_cache.h"

#include "cache_twin.h"
#include "metrics/receipt_fixture.h"
#include "test.h"

#include <math.h>

static struct fixture_prompt prompt;

static double use(struct shadow_cache *caches, uint32_t cache, uint32_t other_tokens)
{
    struct fixture_receipt made;
    struct receipt_parts parts;
    const struct receipt *receipt =
        receipt_make(&made, (struct receipt){0}, &prompt, (struct receipt_parts){0});

    receipt_parts(receipt, &parts);
    return shadow_cache_use(caches, cache,
                            &(struct shadow_prompt){.sampled = parts.sampled,
                                                    .sampled_count = receipt->sampled_count,
                                                    .depths = parts.depths,
                                                    .depth_count = receipt->depth_count,
                                                    .block_count = prompt.block_count,
                                                    .block_tokens = fixture_block_tokens,
                                                    .other_tokens = other_tokens});
}

static void make_prompt(uint64_t document, uint32_t shared, uint64_t own, uint32_t tail)
{
    prompt_clear(&prompt);
    for (uint32_t i = 0; i < shared; i++) {
        prompt_add(&prompt, document * 100000 + i);
    }
    for (uint32_t i = 0; i < tail; i++) {
        prompt_add(&prompt, (own << 32) + i);
    }
}

TEST(the_found_length_is_within_the_bounds_of_depths)
{
    struct shadow_cache *caches = shadow_cache_create(1);
    double off = 0;
    double count = 0;

    shadow_cache_expect(caches, 100000000);
    shadow_cache_set_size(caches, 0, 100000000);
    for (uint32_t shared = 0; shared < 3000; shared += 1 + shared / 20) {
        uint32_t tail = 1 + shared / 4;
        make_prompt(shared, shared, 2 * shared + 1, tail);
        CHECK_EQ(use(caches, 0, 0), 0);
        make_prompt(shared, shared, 2 * shared + 2, tail);
        double length = use(caches, 0, 0) * prompt.block_count;
        CHECK(shared > 0 || length == 0);
        // At least the depth below it, and less than twice that.
        CHECK(length <= 2.0 * shared && length >= 0.5 * shared);
        off += shared > 0 ? (length - shared) / shared : 0;
        count++;
    }
    // And on average it is right.
    CHECK(fabs(off / count) < 0.05);
    shadow_cache_destroy(&caches);
}

TEST(a_prompt_that_comes_again_is_found_and_another_cache_has_nothing)
{
    struct shadow_cache *caches = shadow_cache_create(2);

    shadow_cache_set_size(caches, 0, 1000000);
    shadow_cache_set_size(caches, 1, 1000000);
    make_prompt(1, 700, 1, 0);
    CHECK_EQ(use(caches, 0, 0), 0);
    CHECK_EQ(use(caches, 0, 0), 1);
    CHECK_EQ(use(caches, 1, 0), 0);
    shadow_cache_clear(caches, 0);
    CHECK_EQ(use(caches, 0, 0), 0);
    CHECK_EQ(use(caches, 1, 0), 1);
    shadow_cache_destroy(&caches);
}

TEST(a_prompt_without_keys_is_not_found_and_takes_room)
{
    struct shadow_cache *caches = shadow_cache_create(1);

    shadow_cache_set_size(caches, 0, 100000);
    make_prompt(1, 1000, 1, 0);
    use(caches, 0, 0);
    CHECK_EQ(use(caches, 0, 0), 1);
    prompt_clear(&prompt);
    for (uint32_t i = 0; i < 40; i++) {
        CHECK_EQ(use(caches, 0, 4000), 0);
    }
    make_prompt(1, 1000, 1, 0);
    CHECK_EQ(use(caches, 0, 0), 0);
    shadow_cache_destroy(&caches);
}

// Uses a working set over and over, with rare visits elsewhere: generations must not run out.
TEST(the_least_recently_used_blocks_are_evicted)
{
    struct shadow_cache *caches = shadow_cache_create(1);
    struct cache_twin twin;
    struct rng rng = {4};
    double found = 0;
    double exact = 0;
    double blocks = 0;
    uint32_t lost = 0;

    shadow_cache_set_size(caches, 0, 400000);
    twin_init(&twin, 400000, fixture_block_tokens);
    for (uint32_t i = 0; i < 6000; i++) {
        // 10 hot ones take 48,000 tokens; 300 others, 2.4 million.
        uint32_t document =
            rng_below(&rng, 3) > 0 ? rng_below(&rng, 10) : 10 + rng_below(&rng, 300);
        make_prompt(document, document < 10 ? 300 : 500, 0, 0);
        double share = use(caches, 0, 0);
        lost += document < 10 && i > 200 && share < 1;
        if (document >= 10 && i > 1000) {
            found += share * prompt.block_count;
            blocks += prompt.block_count;
            exact += twin_compute(&twin, prompt.keys, prompt.block_count);
        } else {
            twin_compute(&twin, prompt.keys, prompt.block_count);
        }
    }
    printf("# others: found %.3f, exactly %.3f\n", found / blocks, exact / blocks);
    CHECK(fabs(found - exact) / blocks < 0.03);
    CHECK(lost < 40); // of 4,000: entries that found no room in their set
    twin_fini(&twin);
    shadow_cache_destroy(&caches);
}

TEST(a_table_that_is_too_small_finds_less_and_never_more)
{
    enum { cache_count = 300 };
    struct shadow_cache *caches = shadow_cache_create(cache_count);
    double found = 0;

    shadow_cache_expect(caches, UINT64_MAX);
    for (uint32_t cache = 0; cache < cache_count; cache++) {
        shadow_cache_set_size(caches, cache, 100000000);
    }
    for (uint32_t i = 0; i < 80 * cache_count; i++) {
        uint32_t document = i % (40 * cache_count);
        make_prompt(document, 1000, 0, 0);
        double share = use(caches, document % cache_count, 0);
        CHECK(document != i || share == 0);
        found += share;
    }
    CHECK(found <= 40 * cache_count);
    CHECK(found > 20 * cache_count);
    shadow_cache_destroy(&caches);
}
