// SPDX-License-Identifier: Apache-2.0

#include "sim/lab_router.h"

#include "base/base.h"
#include "base/reclaim.h"
#include "base/slice.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "replica/replica.h"
#include "test.h"

enum { backend_count = 2, key_count = 3, begin_us = 5000000 };

static const uint64_t keys[key_count] = {0x11, 0x22, 0x33};

static struct reclaim reclaim;

static struct lab_router start_alone(uint32_t number)
{
    struct lab_router router;
    bool is_open = lab_router_open(&router, &(struct lab_router_options){
                                                .policy = &policy_warm,
                                                .number = number,
                                                .backend_max = backend_count,
                                                .block_tokens = 64,
                                                .seed = 1,
                                                .reclaim = &reclaim,
                                            });
    ASSERT(is_open);
    lab_router_set_now(&router, begin_us);
    for (uint32_t i = 0; i < backend_count; i++) {
        is_open = is_open && lab_router_join(&router);
    }
    is_open = is_open && lab_router_publish(&router);
    ASSERT(is_open);
    return router;
}

// A router keeps its address, because its replica has it.
struct pair {
    struct lab_router a;
    struct lab_router b;
};

static void pair_start(struct pair *pair)
{
    struct lab_router_options options = {.policy = &policy_warm,
                                         .backend_max = backend_count,
                                         .block_tokens = 64,
                                         .is_sharing = true,
                                         .reclaim = &reclaim};
    reclaim_init(&reclaim, 1);
    for (uint32_t i = 0; i < 2; i++) {
        struct lab_router *router = i == 0 ? &pair->a : &pair->b;
        options.number = i;
        bool is_open = lab_router_open(router, &options);
        lab_router_set_now(router, begin_us);
        is_open = is_open && lab_router_join(router) && lab_router_join(router) &&
                  lab_router_publish(router);
        ASSERT(is_open);
    }
    replica_peer_came(pair->a.replica, pair->b.id);
    replica_peer_came(pair->b.replica, pair->a.id);
}

static void pair_end(struct pair *pair)
{
    lab_router_close(&pair->a);
    lab_router_close(&pair->b);
}

static uint32_t pass(struct lab_router *from, struct lab_router *to)
{
    uint32_t count = from->outbox.frame_count;
    for (uint32_t i = 0; i < count; i++) {
        lab_router_take(to, from->id, lab_router_frame(from, i));
    }
    lab_router_clear(from);
    return count;
}

static void believe(struct lab_router *router, uint32_t slot)
{
    knowledge_store(router->knowledge, 0, router->backends[slot],
                    &(struct prefix_update){.residency = PREFIX_CONFIRMED,
                                            .keys = keys,
                                            .key_count = key_count,
                                            .block_tokens = 64,
                                            .now_s = 5});
}

static uint32_t blocks_at(const struct lab_router *router, uint32_t slot)
{
    struct prefix_hit hits[backend_count];
    uint32_t count = prefix_index_match(knowledge_index(router->knowledge), keys, key_count, 5,
                                        hits, backend_count);
    for (uint32_t i = 0; i < count; i++) {
        if (hits[i].backend == slot) {
            return hits[i].blocks;
        }
    }
    return 0;
}

TEST(a_router_alone_has_no_replica_and_no_tap)
{
    reclaim_init(&reclaim, 1);
    struct lab_router router = start_alone(0);
    CHECK(router.replica == NULL);
    CHECK(knowledge_tap(router.knowledge) == NULL);
    CHECK_EQ(router.backend_count, backend_count);
    CHECK_EQ(router.view->member_count, backend_count);
    lab_router_close(&router);
}

TEST(routers_know_an_engine_by_the_same_identity)
{
    reclaim_init(&reclaim, 1);
    struct lab_router one = start_alone(0);
    struct lab_router other = start_alone(1);
    CHECK(one.id != 0 && one.id != other.id);
    for (uint32_t i = 0; i < backend_count; i++) {
        CHECK(one.backends[i] != other.backends[i]);
        CHECK(one.backends[i]->identity == other.backends[i]->identity);
    }
    lab_router_close(&one);
    lab_router_close(&other);
}

TEST(the_other_router_knows_a_block_once_it_has_the_frames)
{
    static struct pair pair;
    pair_start(&pair);
    believe(&pair.a, 1);
    CHECK_EQ(blocks_at(&pair.a, 1), key_count);
    lab_router_pump(&pair.a);
    CHECK_EQ(blocks_at(&pair.b, 1), 0);
    CHECK(pass(&pair.a, &pair.b) > 0);
    CHECK_EQ(blocks_at(&pair.b, 1), key_count);
    CHECK_EQ(blocks_at(&pair.b, 0), 0);
    lab_router_pump(&pair.a);
    (void)pass(&pair.a, &pair.b);
    lab_router_pump(&pair.a);
    CHECK_EQ(pass(&pair.a, &pair.b), 0); // nothing new
    pair_end(&pair);
}

TEST(the_other_router_adds_the_load_of_this_one)
{
    static struct pair pair;
    struct load_request request = {.prompt_tokens = 500, .uncached_tokens = 300};
    struct load_view view;
    pair_start(&pair);
    lab_router_pump(&pair.a);
    (void)pass(&pair.a, &pair.b);
    load_begin(&pair.a.backends[0]->load, &request, begin_us);
    lab_router_pump(&pair.a);
    (void)pass(&pair.a, &pair.b);
    load_read(&pair.b.backends[0]->load, begin_us / 1000, &view);
    CHECK_EQ(view.requests, 1);
    CHECK_EQ(view.queued_tokens, 300);
    load_read(&pair.a.backends[0]->load, begin_us / 1000, &view);
    CHECK_EQ(view.requests, 1); // its own is not told back to it
    load_end(&pair.a.backends[0]->load, &request);
    lab_router_pump(&pair.a);
    (void)pass(&pair.a, &pair.b);
    load_read(&pair.b.backends[0]->load, begin_us / 1000, &view);
    CHECK_EQ(view.requests, 0);
    pair_end(&pair);
}

TEST(the_other_router_adds_the_arrivals_of_this_one)
{
    static struct pair pair;
    struct traffic_view view;
    pair_start(&pair);
    for (uint32_t i = 0; i < 10; i++) {
        traffic_arrive(knowledge_traffic(pair.a.knowledge, 0), begin_us + i * 1000);
    }
    for (uint32_t i = 0; i < 2; i++) {
        lab_router_set_now(&pair.a, begin_us + 10000 + i);
        lab_router_pump(&pair.a);
        (void)pass(&pair.a, &pair.b);
    }
    traffic_read(knowledge_traffic(pair.b.knowledge, 0), begin_us + 10000, &view);
    CHECK(view.arrivals_per_ms > 0.8F && view.arrivals_per_ms < 1.1F);
    pair_end(&pair);
}

TEST(a_backend_that_has_left_is_no_longer_told_of)
{
    static struct pair pair;
    pair_start(&pair);
    lab_router_leave(&pair.a, 1);
    lab_router_leave(&pair.b, 1);
    CHECK(lab_router_publish(&pair.a) && lab_router_publish(&pair.b));
    CHECK_EQ(pair.a.view->member_count, 1);
    believe(&pair.a, 1);
    believe(&pair.a, 0);
    lab_router_pump(&pair.a);
    (void)pass(&pair.a, &pair.b);
    CHECK_EQ(blocks_at(&pair.b, 1), 0);
    CHECK_EQ(blocks_at(&pair.b, 0), key_count);
    pair_end(&pair);
}
