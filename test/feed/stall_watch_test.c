// SPDX-License-Identifier: Apache-2.0

#include "feed/stall_watch.h"

#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "test.h"

enum { limit_ms = 10000 };

static const struct progress_request new_stream = {.is_streamed = true};

static struct reclaim reclaim;
static struct fleet *fleet;

static struct backend *fleet_of_one(void)
{
    reclaim_init(&reclaim, 1);
    fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 4, .pool_count = 1}, &reclaim);
    return fleet_add(
        fleet, &(struct fleet_spec){.url = "http://a:1", .host = "a", .port = 1, .weight = 1});
}

static void fleet_gone(void)
{
    fleet_destroy(&fleet);
}

static void look_twice(uint64_t now_ms)
{
    stall_watch_look(fleet, limit_ms, now_ms - 100);
    stall_watch_look(fleet, limit_ms, now_ms);
}

TEST(a_backend_without_output_is_taken_out_at_the_second_look)
{
    struct backend *backend = fleet_of_one();
    progress_begin(&backend->progress, new_stream, 1000);
    stall_watch_look(fleet, limit_ms, 12000);
    CHECK_EQ(backend_tier(backend, 12000), BACKEND_READY);
    stall_watch_look(fleet, limit_ms, 12100);
    CHECK_EQ(backend_tier(backend, 12100), BACKEND_DOWN);
    CHECK_STR(backend_state(backend, 12100), "stalled");
    progress_end(&backend->progress, new_stream);
    fleet_gone();
}

TEST(output_between_two_looks_clears_it)
{
    struct backend *backend = fleet_of_one();
    progress_begin(&backend->progress, new_stream, 1000);
    stall_watch_look(fleet, limit_ms, 12000);
    progress_output(&backend->progress, 12050);
    stall_watch_look(fleet, limit_ms, 12100);
    CHECK_STR(backend_state(backend, 12100), "up");
    progress_end(&backend->progress, new_stream);
    fleet_gone();
}

TEST(a_stalled_backend_without_requests_gets_one_at_a_time_until_it_moves)
{
    struct backend *backend = fleet_of_one();
    progress_begin(&backend->progress, new_stream, 1000);
    look_twice(12000);
    progress_end(&backend->progress, new_stream);
    look_twice(13000);
    CHECK_EQ(backend_tier(backend, 13000), BACKEND_READY);
    progress_begin(&backend->progress, new_stream, 13000);
    CHECK_EQ(backend_tier(backend, 13000), BACKEND_DOWN);
    progress_output(&backend->progress, 13100);
    backend_moved(backend);
    CHECK_EQ(backend_tier(backend, 13100), BACKEND_READY);
    progress_end(&backend->progress, new_stream);
    fleet_gone();
}

TEST(turned_off_it_lets_all_back_in)
{
    struct backend *backend = fleet_of_one();
    progress_begin(&backend->progress, new_stream, 1000);
    look_twice(12000);
    CHECK_EQ(backend_tier(backend, 12000), BACKEND_DOWN);
    stall_watch_look(fleet, 0, 12100);
    CHECK_EQ(backend_tier(backend, 12100), BACKEND_READY);
    progress_end(&backend->progress, new_stream);
    fleet_gone();
}
