// SPDX-License-Identifier: Apache-2.0

#include "metrics/receipt_ring.h"

#include "base/rng.h"
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static struct receipt_ring *make(void)
{
    size_t size = receipt_ring_block_size();
    void *block = aligned_alloc(64, size);
    memset(block, 0, size);
    return receipt_ring_over(block);
}

// One whose size and parts follow from its number.
static bool put(struct receipt_ring *ring, uint64_t number)
{
    struct decision_party rivals[decision_rival_max];
    uint64_t keys[receipt_sampled_max];
    char text[receipt_text_max];
    struct receipt receipt = {.number = number,
                              .rival_count = (uint32_t)(number % (decision_rival_max + 1)),
                              .sampled_count = (uint32_t)(number % (receipt_sampled_max + 1)),
                              .id_size = (uint16_t)(number % receipt_text_max)};

    memset(rivals, 0, sizeof(rivals));
    for (uint32_t i = 0; i < receipt.rival_count; i++) {
        rivals[i].backend = number + i;
    }
    for (uint32_t i = 0; i < receipt.sampled_count; i++) {
        keys[i] = number * 3 + i;
    }
    memset(text, 'a' + (int)(number % 26), sizeof(text));
    return receipt_ring_put(ring, &receipt,
                            &(struct receipt_parts){.rivals = rivals,
                                                    .sampled = keys,
                                                    .id = slice_of(text, receipt.id_size)});
}

static bool is_whole(const struct receipt *receipt, uint64_t number)
{
    struct receipt_parts parts;
    bool good = receipt->number == number;

    receipt_parts(receipt, &parts);
    for (uint32_t i = 0; i < receipt->rival_count; i++) {
        good = good && parts.rivals[i].backend == number + i;
    }
    for (uint32_t i = 0; i < receipt->sampled_count; i++) {
        good = good && parts.sampled[i] == number * 3 + i;
    }
    for (uint32_t i = 0; i < receipt->id_size; i++) {
        good = good && parts.id.bytes[i] == 'a' + (int)(number % 26);
    }
    return good;
}

// Takes `count` receipts, the first of which has the number `first`.  False: one was damaged.
static bool take_whole(struct receipt_ring *ring, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!is_whole(receipt_ring_peek(ring), first + i)) {
            return false;
        }
        receipt_ring_drop(ring);
    }
    return true;
}

TEST(receipts_come_out_as_they_went_in_over_many_rounds_of_the_ring)
{
    struct receipt_ring *ring = make();
    struct rng rng = {7};
    uint64_t put_count = 0;
    uint64_t taken = 0;

    CHECK(receipt_ring_peek(ring) == NULL);
    while (taken < 60000) {
        for (uint32_t n = rng_below(&rng, 500); n > 0 && put(ring, put_count); n--) {
            put_count++;
        }
        uint64_t count = rng_below(&rng, 500);
        count = count < put_count - taken ? count : put_count - taken;
        CHECK(take_whole(ring, taken, count));
        taken += count;
    }
    free(ring);
}

TEST(only_receipts_without_room_are_lost_and_they_are_counted)
{
    struct receipt_ring *ring = make();
    uint64_t count = 0;

    while (put(ring, count)) {
        count++;
    }
    CHECK(count > receipt_ring_size / receipt_size_max);
    CHECK_EQ(receipt_ring_lost(ring), 1);
    for (uint64_t i = 0; i < count; i++) {
        CHECK(is_whole(receipt_ring_peek(ring), i));
        receipt_ring_drop(ring);
    }
    CHECK(receipt_ring_peek(ring) == NULL);
    CHECK(put(ring, 5));
    CHECK(is_whole(receipt_ring_peek(ring), 5));
    free(ring);
}

enum { passed_count = 200000 };

static void *put_all(void *argument)
{
    struct receipt_ring *ring = argument;
    for (uint64_t i = 0; i < passed_count; i++) {
        while (!put(ring, i)) {
            sched_yield();
        }
    }
    return NULL;
}

TEST(two_threads_pass_receipts_in_order)
{
    struct receipt_ring *ring = make();
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, put_all, ring), 0);
    for (uint64_t i = 0; i < passed_count;) {
        const struct receipt *receipt = receipt_ring_peek(ring);
        if (receipt == NULL) {
            sched_yield();
            continue;
        }
        CHECK(is_whole(receipt, i));
        receipt_ring_drop(ring);
        i++;
    }
    pthread_join(thread, NULL);
    free(ring);
}
