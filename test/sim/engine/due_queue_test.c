// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/due_queue.h"

#include "base/rng.h"
#include "test.h"

TEST(an_empty_one_has_no_first)
{
    struct due_queue queue = {0};
    CHECK(due_queue_first(&queue) == NULL);
    due_queue_push(&queue, (struct due){.at_us = 5});
    CHECK_EQ(due_queue_first(&queue)->at_us, 5);
    CHECK_EQ(due_queue_pop(&queue).at_us, 5);
    CHECK(due_queue_first(&queue) == NULL);
    due_queue_fini(&queue);
}

TEST(comes_out_by_time_and_then_by_order_whatever_went_in_first)
{
    struct due_queue queue = {0};
    struct rng rng = {.state = 11};
    struct due last = {0};
    uint32_t inside = 0;

    for (uint64_t i = 0; i < 20000; i++) {
        // Many are due at the same time, and all after the last that came out.
        struct due due = {.at_us = last.at_us + 1 + rng_below(&rng, 20), .order = i * 7919 % 20000};
        due_queue_push(&queue, due);
        inside++;
        if (rng_below(&rng, 3) > 0) {
            continue;
        }
        last = due_queue_pop(&queue);
        inside--;
    }
    CHECK_EQ(queue.count, inside);
    last = due_queue_pop(&queue);
    while (queue.count > 0) {
        struct due next = due_queue_pop(&queue);
        CHECK(next.at_us > last.at_us || (next.at_us == last.at_us && next.order > last.order));
        last = next;
    }
    due_queue_fini(&queue);
}

static bool all_are_later(const struct due_queue *queue, uint64_t at_us)
{
    for (uint32_t i = 0; i < queue->count; i++) {
        if (queue->heap[i].at_us < at_us) {
            return false;
        }
    }
    return true;
}

TEST(the_earliest_entry_comes_out_first)
{
    struct due_queue queue = {0};
    struct rng rng = {.state = 12};
    for (uint64_t i = 0; i < 2000; i++) {
        due_queue_push(&queue, (struct due){.at_us = rng_below(&rng, 1000), .order = i});
        CHECK(i % 3 != 2 || all_are_later(&queue, due_queue_pop(&queue).at_us));
    }
    due_queue_fini(&queue);
}
