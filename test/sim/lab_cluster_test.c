// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_cluster.h"

#include "base/base.h"
#include "base/reclaim.h"
#include "fleet/fleet.h"
#include "sim/workload/workload.h"
#include "test.h"

enum { begin_us = 1000000, router_count = 3, draw_count = 3000 };

static struct reclaim reclaim;

static void start(struct lab_cluster *cluster, const struct lab_sharing *sharing)
{
    struct lab_router_options options = {.policy = &policy_warm,
                                         .backend_max = 2,
                                         .block_tokens = 64,
                                         .seed = 9,
                                         .reclaim = &reclaim};
    reclaim_init(&reclaim, 1);
    bool is_open = lab_cluster_open(cluster, sharing, &options, begin_us) &&
                   lab_cluster_join(cluster) && lab_cluster_publish(cluster);
    ASSERT(is_open);
}

// A request begins at router 0.
static struct load_request begin(struct lab_cluster *cluster)
{
    struct load_request request = {.prompt_tokens = 100, .uncached_tokens = 100};
    load_begin(&cluster->routers[0].backends[0]->load, &request, begin_us);
    return request;
}

static uint32_t requests_seen(const struct lab_cluster *cluster, uint32_t router)
{
    struct load_view view;
    load_read(&cluster->routers[router].backends[0]->load, begin_us / 1000, &view);
    return view.requests;
}

TEST(without_options_there_is_one_router_that_shares_nothing)
{
    struct lab_cluster cluster;
    start(&cluster, &(struct lab_sharing){0});
    struct work_item item = {.number = 7, .client = 8};
    CHECK_EQ(cluster.router_count, 1);
    CHECK(!cluster.is_sharing);
    CHECK(cluster.next_us == UINT64_MAX);
    CHECK(lab_cluster_pick(&cluster, &item) == &cluster.routers[0]);
    lab_cluster_close(&cluster);
}

TEST(turns_are_spread_over_a_sync)
{
    struct lab_cluster cluster;
    start(&cluster, &(struct lab_sharing){.router_count = router_count, .sync_ms = 30});
    for (uint32_t turn = 1; turn < 8; turn++) {
        CHECK_EQ(cluster.next_us, begin_us + turn * 10000);
        lab_cluster_follow(&cluster, cluster.next_us);
    }
    lab_cluster_close(&cluster);
}

TEST(a_router_learns_at_the_turn_of_another)
{
    struct lab_cluster cluster;
    start(&cluster, &(struct lab_sharing){.router_count = router_count, .sync_ms = 30});
    struct load_request request = begin(&cluster);
    lab_cluster_follow(&cluster, begin_us + 9999);
    CHECK_EQ(requests_seen(&cluster, 1), 0);
    lab_cluster_follow(&cluster, begin_us + 10000);
    CHECK_EQ(requests_seen(&cluster, 1), 1);
    CHECK_EQ(requests_seen(&cluster, 2), 1);
    load_end(&cluster.routers[0].backends[0]->load, &request);
    lab_cluster_close(&cluster);
}

TEST(with_a_sync_of_0_it_learns_after_the_event)
{
    struct lab_cluster cluster;
    start(&cluster, &(struct lab_sharing){.router_count = router_count});
    struct load_request request = begin(&cluster);
    CHECK(cluster.next_us == UINT64_MAX);
    lab_cluster_follow(&cluster, begin_us);
    CHECK_EQ(requests_seen(&cluster, 0), 1);
    CHECK_EQ(requests_seen(&cluster, 1), 1);
    load_end(&cluster.routers[0].backends[0]->load, &request);
    lab_cluster_follow(&cluster, begin_us);
    CHECK_EQ(requests_seen(&cluster, 2), 0);
    lab_cluster_close(&cluster);
}

TEST(routers_that_never_share_or_lose_all_learn_nothing)
{
    static const struct lab_sharing sharings[] = {
        {.router_count = router_count, .sync_ms = lab_sync_never_ms},
        {.router_count = router_count, .sync_ms = 0, .loss = 1}};
    for (uint32_t i = 0; i < ARRAY_COUNT(sharings); i++) {
        struct lab_cluster cluster;
        start(&cluster, &sharings[i]);
        struct load_request request = begin(&cluster);
        for (uint32_t turn = 0; turn < 100; turn++) {
            lab_cluster_follow(&cluster, begin_us + turn * 10000);
        }
        CHECK_EQ(requests_seen(&cluster, 0), 1);
        CHECK_EQ(requests_seen(&cluster, 1), 0);
        load_end(&cluster.routers[0].backends[0]->load, &request);
        lab_cluster_close(&cluster);
    }
}

TEST(a_client_stays_with_its_router_and_random_requests_are_spread)
{
    static const enum lab_spread spreads[] = {LAB_SPREAD_RANDOM, LAB_SPREAD_CLIENT};
    for (uint32_t s = 0; s < ARRAY_COUNT(spreads); s++) {
        struct lab_cluster cluster;
        start(&cluster, &(struct lab_sharing){.router_count = router_count,
                                              .sync_ms = lab_sync_never_ms,
                                              .spread = spreads[s]});
        uint32_t of_client[router_count] = {0};
        uint32_t of_all[router_count] = {0};
        for (uint32_t i = 0; i < draw_count; i++) {
            struct work_item one = {.number = i, .client = 5};
            struct work_item another = {.number = i, .client = i};
            of_client[lab_cluster_pick(&cluster, &one) - cluster.routers]++;
            of_all[lab_cluster_pick(&cluster, &another) - cluster.routers]++;
        }
        bool has_stayed = false;
        for (uint32_t i = 0; i < router_count; i++) {
            has_stayed |= of_client[i] == draw_count;
            CHECK(of_all[i] > draw_count / router_count - 150);
        }
        CHECK_EQ(has_stayed, spreads[s] == LAB_SPREAD_CLIENT);
        lab_cluster_close(&cluster);
    }
}

TEST(fleets_of_all_routers_change_alike)
{
    struct lab_cluster cluster;
    start(&cluster, &(struct lab_sharing){.router_count = router_count, .sync_ms = 30});
    CHECK(lab_cluster_join(&cluster));
    lab_cluster_leave(&cluster, 0);
    CHECK(lab_cluster_publish(&cluster));
    for (uint32_t i = 0; i < router_count; i++) {
        CHECK_EQ(cluster.routers[i].view->member_count, 1);
        CHECK_EQ(cluster.routers[i].view->members[0].slot, 1);
    }
    lab_cluster_close(&cluster);
}
