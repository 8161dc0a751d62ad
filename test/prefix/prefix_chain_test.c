// SPDX-License-Identifier: Apache-2.0
//
// The vectors first, which other programs can compute too; then a twin that copies the whole prompt
// and hashes it block by block.

#include "prefix/prefix_chain.h"

#include "base/hash.h"
#include "base/rng.h"
#include "prefix/chain_token.h"
#include "test.h"

enum { text_max = 4096 };

static struct prefix_space space_of(const char *model, const char *adapter, const char *salt)
{
    return (struct prefix_space){
        .model = slice_str(model), .adapter = slice_str(adapter), .salt = slice_str(salt)};
}

// The vectors' prompt: 1 to 16, 1000 to 1015, 100000 to 100015.
static void add_vector_tokens(struct prefix_chain *chain)
{
    static const uint32_t begins[] = {1, 1000, 100000};
    for (size_t i = 0; i < ARRAY_COUNT(begins); i++) {
        for (uint32_t token = begins[i]; token < begins[i] + 16; token++) {
            chain_add_token(chain, token);
        }
    }
}

TEST(token_keys_are_those_that_other_programs_compute)
{
    static const struct {
        const char *adapter;
        const char *salt;
        uint64_t seed;
        uint64_t keys[3];
    } vectors[] = {
        {"", "", 0x8568783968f62b92, {0x7b478ae41f20f6da, 0x0532cbbe11bf0bae, 0xc0ac22bcb39b02bf}},
        {"lora-a",
         "",
         0x6f13cb37560363a2,
         {0x50fbe3c9afb681c7, 0x6f73cf559b20d65c, 0x37f7dd7dedf7632c}},
        {"",
         "salt",
         0x41ef3667902a6f01,
         {0x7d94f2a781bdb4ee, 0x0b3f9bd8c5a85788, 0x685dec746df664c5}},
    };

    for (size_t i = 0; i < ARRAY_COUNT(vectors); i++) {
        struct prefix_space space = space_of("m", vectors[i].adapter, vectors[i].salt);
        uint64_t keys[4];
        struct prefix_chain chain;
        CHECK_EQ(prefix_seed(&space), vectors[i].seed);
        prefix_chain_begin(&chain, prefix_seed(&space), 64, keys, 4);
        add_vector_tokens(&chain);
        CHECK_EQ(chain.key_count, 3);
        CHECK_EQ(chain.size, 3 * 64);
        CHECK(memcmp(keys, vectors[i].keys, sizeof(vectors[i].keys)) == 0);
    }
}

static bool all_differ(const uint64_t *seeds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (seeds[i] == seeds[k]) {
                return false;
            }
        }
    }
    return true;
}

TEST(tokens_text_and_secrets_are_worlds_of_their_own)
{
    struct prefix_space space = space_of("m", "", "");
    uint64_t seeds[4] = {prefix_seed(&space), prefix_text_seed(&space)};
    space.secret = 7;
    seeds[2] = prefix_seed(&space);
    seeds[3] = prefix_text_seed(&space);
    CHECK(all_differ(seeds, 4));
}

TEST(different_salts_share_no_key_for_any_names)
{
    static const struct {
        struct slice model, adapter, salt;
    } spaces[] = {
#define BYTES(text) {(const uint8_t *)(text), sizeof(text) - 1}
        {BYTES("m"), BYTES(""), BYTES("")},     {BYTES("m"), BYTES("a"), BYTES("")},
        {BYTES("m"), BYTES(""), BYTES("a")},    {BYTES("ma"), BYTES(""), BYTES("")},
        {BYTES(""), BYTES("m"), BYTES("a")},    {BYTES("m"), BYTES("a"), BYTES("b\0")},
        {BYTES("m"), BYTES("a\0b"), BYTES("")}, {BYTES("m\0a"), BYTES("b"), BYTES("")},
        {BYTES("m"), BYTES("a"), BYTES("b")},   {BYTES("m\0a\0b"), BYTES(""), BYTES("")},
        {BYTES("\0"), BYTES(""), BYTES("")},    {BYTES(""), BYTES("\0"), BYTES("")},
        {BYTES(""), BYTES(""), BYTES("")},
    };
    uint64_t seeds[2 * ARRAY_COUNT(spaces)];
    for (size_t i = 0; i < ARRAY_COUNT(spaces); i++) {
        struct prefix_space space = {spaces[i].model, spaces[i].adapter, spaces[i].salt, 0};
        seeds[2 * i] = prefix_seed(&space);
        seeds[2 * i + 1] = prefix_text_seed(&space);
    }
    CHECK(all_differ(seeds, ARRAY_COUNT(seeds)));
}

TEST(names_of_any_length_have_a_seed)
{
    static char name[3000];
    memset(name, 'x', sizeof(name));
    uint64_t before = 0;

    for (size_t size = 1000; size < 1050; size++) {
        struct prefix_space space = {.model = slice_of(name, size), .salt = slice_of(name, 4)};
        CHECK(prefix_seed(&space) != before);
        CHECK_EQ(prefix_seed(&space), prefix_seed(&space));
        before = prefix_seed(&space);
    }
    struct prefix_space one = {.model = slice_of(name, 2999)};
    struct prefix_space other = {.model = slice_of(name, 2999), .salt = slice_of(name, 1)};
    CHECK(prefix_seed(&one) != prefix_seed(&other));
}

static void fill(struct rng *rng, uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)rng_next(rng);
    }
}

// The twin: block by block from the beginning.
static bool names_blocks(const uint64_t *keys, const uint8_t *bytes, uint32_t count, uint32_t block,
                         uint64_t last)
{
    for (uint32_t i = 0; i < count; i++) {
        last = hash_bytes(slice_of(bytes + (size_t)i * block, block), last);
        if (keys[i] != last) {
            return false;
        }
    }
    return true;
}

TEST(keys_do_not_depend_on_how_the_bytes_are_cut)
{
    static uint8_t bytes[text_max];
    static uint8_t copy[text_max];
    static uint64_t keys[text_max];
    struct rng rng = {.state = 1};

    for (int round = 0; round < 500; round++) {
        uint32_t size = rng_below(&rng, text_max + 1);
        uint32_t block = 1 + rng_below(&rng, round % 2 == 0 ? 80 : prefix_block_size_max);
        uint64_t last = rng_next(&rng);
        uint32_t cut_max = 1 + rng_below(&rng, 3 * block);
        struct prefix_chain chain;
        fill(&rng, bytes, size);
        prefix_chain_begin(&chain, last, block, keys, text_max);
        chain.copy = round % 3 == 0 ? copy : NULL;

        for (uint32_t at = 0; at < size;) {
            uint32_t piece = rng_below(&rng, cut_max + 1);
            piece = piece < size - at ? piece : size - at;
            prefix_chain_add(&chain, slice_of(bytes + at, piece));
            at += piece;
        }
        CHECK_EQ(chain.size, size);
        CHECK_EQ(chain.key_count, size / block);
        CHECK_EQ(chain.pending, size % block);
        CHECK(names_blocks(keys, bytes, size / block, block, last));
        CHECK(chain.copy == NULL || memcmp(copy, bytes, (size_t)(size / block) * block) == 0);
    }
}

TEST(keys_beyond_the_room_are_counted_in_size_only)
{
    uint8_t bytes[1000];
    uint8_t copy[4 * 16] = {0};
    uint64_t few[4] = {0, 0, 0, 99};
    uint64_t all[100];
    struct prefix_chain small;
    struct prefix_chain large;
    struct rng rng = {.state = 2};
    fill(&rng, bytes, sizeof(bytes));

    prefix_chain_begin(&small, 5, 16, few, 3);
    small.copy = copy;
    prefix_chain_begin(&large, 5, 16, all, 100);
    for (size_t at = 0; at < sizeof(bytes); at += 50) {
        prefix_chain_add(&small, slice_of(bytes + at, 50));
        prefix_chain_add(&large, slice_of(bytes + at, 50));
    }
    CHECK_EQ(small.key_count, 3);
    CHECK_EQ(few[3], 99);
    const size_t whole = (size_t)3 * 16;
    CHECK(memcmp(copy, bytes, whole) == 0 && copy[whole] == 0);
    CHECK_EQ(small.size, large.size);
    CHECK(memcmp(few, all, 3 * sizeof(few[0])) == 0);

    struct prefix_chain none;
    prefix_chain_begin(&none, 5, 16, NULL, 0);
    prefix_chain_add(&none, slice_of(bytes, sizeof(bytes)));
    CHECK_EQ(none.key_count, 0);
    CHECK_EQ(none.size, sizeof(bytes));
}

TEST(a_copy_goes_on_where_the_chain_was)
{
    uint8_t bytes[200];
    uint64_t first[20];
    uint64_t second[20];
    uint64_t whole[20];
    struct prefix_chain begun;
    struct prefix_chain copied;
    struct prefix_chain stayed;
    struct rng rng = {.state = 3};
    fill(&rng, bytes, sizeof(bytes));

    prefix_chain_begin(&begun, 5, 16, first, 20);
    prefix_chain_begin(&stayed, 5, 16, whole, 20);
    prefix_chain_add(&stayed, slice_of(bytes, sizeof(bytes)));
    prefix_chain_add(&begun, slice_of(bytes, 77));
    prefix_chain_copy(&begun, second, 20, &copied);
    memset(first, 0, sizeof(first));
    memset(&begun, 0, sizeof(begun));
    prefix_chain_add(&copied, slice_of(bytes + 77, sizeof(bytes) - 77));
    CHECK_EQ(copied.key_count, 12);
    CHECK_EQ(copied.size, stayed.size);
    CHECK(memcmp(second, whole, 12 * sizeof(whole[0])) == 0);
}

TEST(a_copy_of_a_chain_that_lost_bytes_is_not_continued)
{
    uint8_t bytes[64] = {0};
    uint64_t few[2];
    uint64_t many[8];
    struct prefix_chain chain;
    struct prefix_chain copied;

    prefix_chain_begin(&chain, 5, 16, few, 2);
    prefix_chain_add(&chain, slice_of(bytes, 40));
    prefix_chain_copy(&chain, many, 8, &copied);
    prefix_chain_add(&copied, slice_of(bytes, 64));
    CHECK_EQ(copied.key_count, 2);

    // With exactly what fits nothing was lost.
    prefix_chain_begin(&chain, 5, 16, few, 2);
    prefix_chain_add(&chain, slice_of(bytes, 32));
    prefix_chain_copy(&chain, many, 8, &copied);
    prefix_chain_add(&copied, slice_of(bytes, 32));
    CHECK_EQ(copied.key_count, 4);
}
