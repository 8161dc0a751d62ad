// SPDX-License-Identifier: Apache-2.0
//
// The vectors against their scalar twin, which msgpack_test.c compares with another library.
// Bytes end at an unmapped page, so that reading one byte too many is a crash.

#include "base/base.h"
#include "base/rng.h"
#include "kvevent/msgpack_vector_internal.h"
#include "test.h"

#include <string.h>
#include <sys/mman.h>

static const size_t page_size = 4096;

// The end of a page with nothing behind it, or NULL where there are no vectors to test.
static uint8_t *guarded_end(void)
{
    if (!msgpack_vector_is_supported()) {
        return NULL;
    }
    uint8_t *pages =
        mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(pages != MAP_FAILED);
    ASSERT(mprotect(pages + page_size, page_size, PROT_NONE) == 0);
    return pages + page_size;
}

static void free_guarded(uint8_t *end)
{
    if (end != NULL) {
        ASSERT(munmap(end - page_size, 2 * page_size) == 0);
    }
}

enum { id_max = 256 };

// The vectors stop earlier; where they do, the twin goes on, and comes to where it comes alone.
static bool agrees(const uint8_t *at, const uint8_t *end, uint32_t count)
{
    uint32_t together[id_max];
    uint32_t alone[id_max];
    struct msgpack_id_run a = {.at = at, .end = end, .out = together, .count = count};
    struct msgpack_id_run b = {.at = at, .end = end, .out = alone, .count = count};

    msgpack_vector_ids(&a);
    msgpack_scalar_ids(&a);
    msgpack_scalar_ids(&b);
    return a.at == b.at && a.count == b.count &&
           memcmp(together, alone, (count - a.count) * sizeof(uint32_t)) == 0;
}

static size_t put(uint8_t *out, uint32_t id, uint32_t size)
{
    static const uint8_t tags[] = {0, 0, 0xcc, 0xcd, 0, 0xce};
    out[0] = size == 1 ? (uint8_t)id : tags[size];
    for (uint32_t i = 1; i < size; i++) {
        out[i] = (uint8_t)(id >> (8 * (size - 1 - i)));
    }
    return size;
}

TEST(every_order_of_four_sizes_gives_its_ids)
{
    static const uint32_t sizes[] = {1, 2, 3, 5};
    static const uint32_t ids[] = {0x7f, 0xfe, 0xcdce, 0xcecdcc7f};
    uint8_t *end = guarded_end();

    for (uint32_t order = 0; end != NULL && order < 256; order++) {
        uint8_t bytes[64] = {0};
        uint32_t expected[4];
        uint32_t got[4];
        size_t size = msgpack_id_lead;
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t which = order >> (2 * i) & 3;
            expected[i] = ids[which];
            size += put(bytes + size, ids[which], sizes[which]);
        }
        // Room behind them, so that all four are the vectors' own.
        struct msgpack_id_run run = {
            .at = bytes + msgpack_id_lead, .end = bytes + sizeof(bytes), .out = got, .count = 4};
        msgpack_vector_ids(&run);
        CHECK_EQ(run.count, 0);
        CHECK(run.at == bytes + size);
        CHECK(memcmp(got, expected, sizeof(got)) == 0);
    }
    free_guarded(end);
}

TEST(a_value_that_is_not_an_id_stops_both_at_the_same_byte)
{
    uint8_t *end = guarded_end();

    for (uint32_t i = 0; end != NULL && i < 256 * 8; i++) {
        uint8_t *at = end - 40;
        memset(at - msgpack_id_lead, 1, 40 + msgpack_id_lead);
        at[i % 8] = (uint8_t)(i / 8);
        CHECK(agrees(at, end, 24));
    }
    free_guarded(end);
}

TEST(random_runs_agree_up_to_the_end_of_memory)
{
    static const uint32_t sizes[] = {1, 2, 3, 5};
    struct rng rng = {.state = 1};
    uint8_t *end = guarded_end();

    for (uint32_t round = 0; end != NULL && round < 20000; round++) {
        uint8_t bytes[id_max * msgpack_id_size + msgpack_id_lead] = {0};
        uint32_t count = rng_below(&rng, 48);
        size_t size = msgpack_id_lead;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t which = rng_below(&rng, 4);
            uint32_t id = (uint32_t)rng_next(&rng) & msgpack_id_masks[sizes[which]];
            size += put(bytes + size, which == 0 ? id & 0x7f : id, sizes[which]);
        }
        for (uint32_t i = rng_below(&rng, 3); i == 1 && size > msgpack_id_lead; i--) {
            bytes[msgpack_id_lead + rng_below(&rng, (uint32_t)size - msgpack_id_lead)] =
                (uint8_t)rng_next(&rng);
        }
        uint8_t *start = end - size;
        memcpy(start, bytes, size);
        CHECK(agrees(start + msgpack_id_lead, end, rng_below(&rng, id_max)));
        CHECK(agrees(start + msgpack_id_lead, end, count));
    }
    free_guarded(end);
}
