// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "template/value/value_fixture.h"
#include "template/value/value_internal.h"

// Sorts random keys, some of which are equal.
static bool sorts(struct rng *rng, uint32_t count, bool reverse)
{
    static struct value keys[200];
    const struct value *sorted[200];
    fresh_room();
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = value_int((int64_t)rng_below(rng, 20));
        sorted[i] = &keys[i];
    }
    value_sort(&fixture_room, sorted, count, reverse);
    bool is_sorted = fixture_room.status == STATUS_OK && fixture_arena.used == 0;
    for (uint32_t i = 1; i < count && is_sorted; i++) {
        int64_t rise = sorted[i]->integer - sorted[i - 1]->integer;
        is_sorted = rise == 0 ? sorted[i] > sorted[i - 1] : (rise < 0) == reverse;
    }
    return is_sorted;
}

TEST(equal_keys_keep_their_order_either_way_round)
{
    struct rng rng = {.state = 7};
    for (uint32_t count = 0; count < 200; count++) {
        CHECK(sorts(&rng, count, false));
        CHECK(sorts(&rng, count, true));
    }
}

TEST(keys_without_an_order_fail)
{
    fresh_room();
    struct value keys[3] = {value_int(1), value_int(2), str("a")};
    const struct value *sorted[3] = {&keys[0], &keys[1], &keys[2]};
    value_sort(&fixture_room, sorted, 3, false);
    CHECK_EQ(fixture_room.status, STATUS_MALFORMED);
}
