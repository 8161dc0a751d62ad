// SPDX-License-Identifier: Apache-2.0

#include "keeper/members.h"

#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "test.h"

static struct reclaim reclaim;
static struct fleet *fleet;

static struct backend *add(const char *url)
{
    return fleet_add(
        fleet, &(struct fleet_spec){.url = url, .host = "127.0.0.1", .port = 80, .weight = 1});
}

TEST(only_backends_that_a_rotation_would_include_are_usable)
{
    struct chronicle_member members[8];
    reclaim_init(&reclaim, 1);
    fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 8, .pool_count = 2}, &reclaim);
    struct backend *well = add("http://a");
    struct backend *down = add("http://b");
    struct backend *drained = add("http://c");
    backend_set_probe(down, BACKEND_PROBE_DOWN, 1);
    fleet_set_draining(fleet, drained, true);
    load_report(
        &well->load,
        &(struct load_report){
            .running = -1, .waiting = -1, .kv_usage = -1, .cache_tokens = 4096, .block_tokens = -1},
        1);

    CHECK_EQ(members_of(fleet, 2, members, 8), 3);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQ(members[i].is_usable, members[i].id == well->id);
        CHECK_EQ(members[i].cache_tokens, members[i].id == well->id ? 4096 : 0);
        CHECK(members[i].token_ms > 0);
    }
    CHECK_EQ(members_of(fleet, 2, members, 2), 2);
    reclaim_leave(&reclaim, 0);
    fleet_destroy(&fleet);
}
