// SPDX-License-Identifier: Apache-2.0

#include "base/rng.h"
#include "template/value/value_fixture.h"
#include "template/value/value_internal.h"

// As many random keys, of which some are equal, sorted.
static bool sorts(struct rng *rng, uint32_t count, bool reverse)
{
    static struct value keys[200];
    fresh_room();
    struct value_sort_entry *entries = value_sort_entries_new(&fixture_room, count);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = value_int((int64_t)rng_below(rng, 20));
        entries[i] = (struct value_sort_entry){.key = &keys[i], .index = i};
    }
    bool sorted = value_sort(&fixture_room, entries, count, reverse);
    for (uint32_t i = 1; i < count && sorted; i++) {
        int64_t rise = entries[i].key->integer - entries[i - 1].key->integer;
        sorted = rise == 0 ? entries[i].index > entries[i - 1].index : (rise < 0) == reverse;
    }
    return sorted;
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
    struct value_sort_entry entries[3] = {{&keys[0], 0}, {&keys[1], 1}, {&keys[2], 2}};
    CHECK(!value_sort(&fixture_room, entries, 3, false));
    CHECK_EQ(fixture_room.status, STATUS_MALFORMED);
}
