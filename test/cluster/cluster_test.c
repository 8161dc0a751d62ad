// SPDX-License-Identifier: Apache-2.0
//
// Two routers of one process over loopback: the thread of each, with a fleet and knowledge of its
// own.

#include "cluster/cluster.h"

#include "base/reclaim.h"
#include "config/config.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

enum { engine_count = 2, key_count = 40, worker = 0, cluster_number = 1, patience_ms = 30000 };

struct side {
    struct config config;
    struct config_pool pool;
    struct reclaim reclaim;
    struct fleet *fleet;
    struct knowledge *knowledge;
    struct cluster *cluster;
    struct backend *engines[engine_count];
    char listen[32];
    char peer[32];
    const char *peers[1];
    char error[cluster_error_size];
};

static struct side *left;
static struct side *right;
static uint64_t keys[key_count];

static uint64_t now_ms(void)
{
    return clock_monotonic_ns() / 1000000;
}

// A loopback address that is of this process alone.
static void own_address(uint32_t number, char out[32])
{
    uint32_t host = (uint32_t)getpid() * 2 + number;
    snprintf(out, 32, "127.%u.%u.%u:7947", host >> 16 & 255, host >> 8 & 255, host & 255);
}

// Side 0 or 1, which dials the other one.
static struct side *side_new(uint32_t number)
{
    struct side *side = aligned_alloc(64, (sizeof(*side) + 63) / 64 * 64);
    ASSERT(side != NULL);
    memset((void *)side, 0, sizeof(*side));
    own_address(number, side->listen);
    own_address(1 - number, side->peer);
    side->peers[0] = side->peer;
    side->pool.name = "default";
    side->config.pools = &side->pool;
    side->config.pool_count = 1;
    side->config.prefix.block_size = 256;
    side->config.cluster.listen = side->listen;
    side->config.cluster.peers = (struct config_list){.items = side->peers, .count = 1};
    side->config.cluster.secret = "sixteen or more characters";
    side->config.cluster.name = "test";
    side->config.cluster.interval = 5;
    side->config.cluster.memory = 16 << 20;
    reclaim_init(&side->reclaim, 2);
    reclaim_leave(&side->reclaim, worker);
    side->fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 8, .pool_count = 1},
                               &side->reclaim);
    side->knowledge = knowledge_create(&(struct knowledge_options){
        .memory = 4 << 20, .backend_count_max = 8, .sender_count = 2, .is_tapped = true});
    ASSERT(side->fleet != NULL && side->knowledge != NULL);
    return side;
}

static void side_add_engine(struct side *side, uint32_t i)
{
    char url[64];
    snprintf(url, sizeof(url), "http://10.0.0.%u:8000", i + 1);
    side->engines[i] =
        fleet_add(side->fleet,
                  &(struct fleet_spec){.url = url, .host = "10.0.0.1", .port = 8000, .weight = 1});
    ASSERT(side->engines[i] != NULL);
}

static enum status side_start(struct side *side)
{
    return cluster_start(&(struct cluster_options){.config = &side->config,
                                                   .fleet = side->fleet,
                                                   .reclaim = &side->reclaim,
                                                   .reader = 1,
                                                   .knowledge = side->knowledge,
                                                   .sender = cluster_number},
                         &side->cluster, side->error);
}

static void side_free(struct side **side)
{
    if (*side != NULL) {
        cluster_stop(&(*side)->cluster);
        reclaim_leave(&(*side)->reclaim, 1);
        fleet_destroy(&(*side)->fleet);
        knowledge_destroy(&(*side)->knowledge);
        free(*side);
        *side = NULL;
    }
}

static void tear_down(void)
{
    side_free(&left);
    side_free(&right);
}

// The slots of an engine differ from router to router: identities do not.
static void make_sides(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    left = side_new(0);
    right = side_new(1);
    side_add_engine(left, 0);
    side_add_engine(left, 1);
    side_add_engine(right, 1);
    side_add_engine(right, 0);
    for (uint64_t i = 0; i < key_count; i++) {
        keys[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    ASSERT(fleet_publish(left->fleet) && fleet_publish(right->fleet));
}

static void set_up(void)
{
    make_sides();
    ASSERT(side_start(left) == STATUS_OK && side_start(right) == STATUS_OK);
}

// Waits until the condition holds; the test fails if it never does.
#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        uint64_t end_ms = now_ms() + patience_ms;                                                  \
        while (!(condition) && now_ms() < end_ms) {                                                \
            usleep(1000);                                                                          \
        }                                                                                          \
        CHECK(condition);                                                                          \
    } while (0)

static struct cluster_status status_of(const struct side *side)
{
    static struct cluster_status status;
    cluster_read_status(side->cluster, &status);
    return status;
}

static bool is_joined(const struct side *side)
{
    struct cluster_status status = status_of(side);
    return status.replica.peer_count == 1 && status.replica.peers[0].is_there &&
           status.replica.peers[0].batches > 0;
}

static struct prefix_hit hit_of(const struct side *side, uint32_t engine)
{
    struct prefix_hit hits[8];
    uint32_t count = prefix_index_match(knowledge_index(side->knowledge), keys, key_count,
                                        (uint32_t)(now_ms() / 1000), hits, 8);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == side->engines[engine]->slot) {
            return hits[i];
        }
    }
    return (struct prefix_hit){0};
}

static void store(struct side *side, uint32_t engine, enum prefix_residency residency,
                  uint64_t prediction)
{
    (void)knowledge_owns(side->knowledge, worker, side->engines[engine]);
    knowledge_store(side->knowledge, worker, side->engines[engine],
                    &(struct prefix_update){.residency = residency,
                                            .keys = keys,
                                            .key_count = key_count,
                                            .block_tokens = 16,
                                            .prediction = prediction,
                                            .now_s = (uint32_t)(now_ms() / 1000)});
}

TEST(a_store_at_one_router_is_a_match_at_the_other)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    store(left, 1, PREFIX_CONFIRMED, 0);
    UNTIL(hit_of(right, 1).confirmed == key_count);
    CHECK_EQ(hit_of(right, 0).blocks, 0);
    tear_down();
}

TEST(a_prediction_comes_and_goes)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    uint64_t number = knowledge_number(right->knowledge, worker);
    store(right, 0, PREFIX_PREDICTED, number);
    UNTIL(hit_of(left, 0).blocks == key_count);
    CHECK_EQ(hit_of(left, 0).confirmed, 0);
    knowledge_withdraw(
        right->knowledge, worker, right->engines[0],
        &(struct prefix_update){.keys = keys, .key_count = key_count, .prediction = number});
    UNTIL(hit_of(left, 0).blocks == 0);
    tear_down();
}

TEST(blocks_stored_before_they_met_come_by_a_snapshot)
{
    make_sides();
    CHECK_EQ(side_start(left), STATUS_OK);
    store(left, 0, PREFIX_CONFIRMED, 0);
    UNTIL(status_of(left).replica.notes > 0);
    CHECK_EQ(side_start(right), STATUS_OK);
    UNTIL(hit_of(right, 0).confirmed == key_count);
    UNTIL(status_of(right).replica.snapshots_taken > 0);
    tear_down();
}

static bool has_others(const struct side *side, uint32_t engine, uint32_t requests)
{
    struct load_view view;
    load_read(&side->engines[engine]->load, now_ms(), &view);
    return view.requests == requests;
}

TEST(requests_in_flight_at_one_router_are_load_at_the_other_until_it_leaves)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    struct load_request request = {.prompt_tokens = 100, .uncached_tokens = 50};
    load_begin(&left->engines[0]->load, &request, now_ms() * 1000);
    UNTIL(has_others(right, 0, 1));
    CHECK(has_others(right, 1, 0));
    CHECK(has_others(left, 0, 1));
    cluster_stop(&left->cluster);
    UNTIL(has_others(right, 0, 0));
    load_end(&left->engines[0]->load, &request);
    tear_down();
}

static float arrivals_at(const struct side *side)
{
    struct traffic_view view;
    traffic_read(knowledge_traffic(side->knowledge, 0), now_ms() * 1000, &view);
    return view.arrivals_per_ms;
}

TEST(arrivals_of_the_others_are_not_those_of_a_pool_that_has_another_name_now)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    for (uint64_t i = 0; i < 200; i++) {
        traffic_arrive(knowledge_traffic(left->knowledge, 0), (now_ms() - 200 + i) * 1000);
    }
    UNTIL(arrivals_at(right) > 0);
    right->pool.name = "other";
    cluster_set_config(right->cluster, &right->config);
    UNTIL(arrivals_at(right) == 0);
    tear_down();
}

TEST(an_engine_that_joins_the_fleet_later_is_shared_too)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    fleet_remove(left->fleet, left->engines[0]);
    CHECK(fleet_publish(left->fleet));
    cluster_wake(left->cluster);
    store(right, 0, PREFIX_CONFIRMED, 0);
    store(right, 1, PREFIX_CONFIRMED, 0);
    UNTIL(hit_of(left, 1).confirmed == key_count);
    side_add_engine(left, 0);
    CHECK(fleet_publish(left->fleet));
    cluster_wake(left->cluster);
    UNTIL(hit_of(left, 0).confirmed == key_count);
    tear_down();
}

TEST(the_status_names_the_router_and_its_peers)
{
    set_up();
    UNTIL(is_joined(left) && is_joined(right));
    UNTIL(status_of(left).link.peer_count == 1 && status_of(left).link.peers[0].is_there);
    struct cluster_status status = status_of(left);
    CHECK(status.router != 0);
    CHECK(status.router != status_of(right).router);
    CHECK(strchr(status.name, '/') != NULL);
    CHECK_STR(status.link.kind, "mesh");
    CHECK_EQ(status.link.peers[0].router, status_of(right).router);
    CHECK_EQ(status.notes_dropped, 0);
    CHECK(status.now_ms > 0);
    tear_down();
}

static void stop_after(bool has_joined)
{
    set_up();
    store(left, 0, PREFIX_CONFIRMED, 0);
    if (has_joined) {
        UNTIL(is_joined(left));
    }
    cluster_stop(&left->cluster);
    CHECK(left->cluster == NULL);
    cluster_stop(&left->cluster);
    CHECK(reclaim_is_past(&left->reclaim, 1000)); // it has left
    tear_down();
}

TEST(stop_ends_the_thread_whatever_it_does)
{
    for (uint32_t i = 0; i < 5; i++) {
        stop_after(i % 2 == 0);
    }
}

TEST(an_error_says_which_option_is_wrong)
{
    make_sides();
    left->config.cluster.secret = NULL;
    left->config.cluster.certificate = "/nowhere/certificate.pem";
    left->config.cluster.key = "/nowhere/key.pem";
    left->config.cluster.ca = "/nowhere/ca.pem";
    CHECK_EQ(side_start(left), STATUS_IO);
    CHECK(left->cluster == NULL);
    CHECK(strstr(left->error, "/nowhere/") != NULL);
    left->config.cluster.secret = "sixteen or more characters";
    left->config.cluster.certificate = left->config.cluster.key = left->config.cluster.ca = NULL;
    left->config.cluster.listen = "no address";
    CHECK_EQ(side_start(left), STATUS_IO);
    CHECK(strstr(left->error, "no address") != NULL);
    left->config.cluster.listen = left->listen;
    CHECK_EQ(side_start(left), STATUS_OK);
    right->config.cluster.listen = left->listen; // which is taken
    CHECK_EQ(side_start(right), STATUS_IO);
    CHECK(strstr(right->error, left->listen) != NULL);
    tear_down();
}

TEST(routers_with_different_secrets_or_block_sizes_share_nothing)
{
    make_sides();
    right->config.prefix.block_size = 512;
    CHECK_EQ(side_start(left), STATUS_OK);
    CHECK_EQ(side_start(right), STATUS_OK);
    store(left, 0, PREFIX_CONFIRMED, 0);
    UNTIL(status_of(right).replica.foreign > 0);
    CHECK_EQ(hit_of(right, 0).blocks, 0);
    cluster_stop(&right->cluster);
    right->config.prefix.block_size = 256;
    right->config.cluster.secret = "another secret of that size";
    CHECK_EQ(side_start(right), STATUS_OK);
    UNTIL(status_of(right).link.peer_count == 1 && status_of(right).link.peers[0].why[0] != '\0');
    CHECK(!status_of(right).link.peers[0].is_there);
    CHECK_EQ(hit_of(right, 0).blocks, 0);
    tear_down();
}
