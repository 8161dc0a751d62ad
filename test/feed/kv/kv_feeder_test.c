// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_feeder.h"

#include "base/reclaim.h"
#include "feed/engine_peer.h"
#include "fleet/fleet.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "test.h"

enum { engine_count = 3, backend_max = 8 };

// The test is the keeper, and all the engines.
struct scene {
    struct reclaim reclaim;
    struct fleet *fleet;
    struct prefix_ledger *ledger;
    struct kv_feeder *feeder;
    struct engine_peer engines[engine_count];
    char error[kv_feeder_error_size];
};

static struct scene *scene_open(const char *bind)
{
    static struct scene scene;
    static const char *addresses[1];

    log_set_level(LOG_LEVEL_ERROR);
    memset(&scene, 0, sizeof(scene));
    addresses[0] = bind;
    reclaim_init(&scene.reclaim, 1);
    scene.fleet = fleet_create(
        &(struct fleet_limits){.backend_count_max = backend_max, .pool_count = 1}, &scene.reclaim);
    scene.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 16 << 20, .backend_count_max = backend_max});
    ASSERT(scene.fleet != NULL && scene.ledger != NULL && fleet_publish(scene.fleet));
    enum status status = kv_feeder_start(&(struct kv_feeder_options){.fleet = scene.fleet,
                                                                     .reclaim = &scene.reclaim,
                                                                     .ledger = scene.ledger,
                                                                     .names_memory = 16 << 20,
                                                                     .bind = addresses,
                                                                     .bind_count = bind != NULL},
                                         &scene.feeder, scene.error);
    ASSERT((status == STATUS_OK) == (scene.feeder != NULL));
    return &scene;
}

static void scene_close(struct scene *scene)
{
    kv_feeder_stop(&scene->feeder);
    ASSERT(scene->feeder == NULL);
    for (uint32_t i = 0; i < engine_count; i++) {
        engine_close(&scene->engines[i]);
    }
    reclaim_leave(&scene->reclaim, 0);
    fleet_destroy(&scene->fleet);
    prefix_ledger_destroy(&scene->ledger);
}

static void publish_fleet(struct scene *scene)
{
    ASSERT(fleet_publish(scene->fleet));
    fleet_reclaim(scene->fleet);
    kv_feeder_wake(scene->feeder);
}

static struct backend *add_at(struct scene *scene, uint16_t port, const struct fleet_spec *events)
{
    char url[64];
    struct fleet_spec spec = *events;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    spec.url = url;
    spec.host = "127.0.0.1";
    spec.port = port;
    spec.weight = 1;
    struct backend *backend = fleet_add(scene->fleet, &spec);
    ASSERT(backend != NULL);
    publish_fleet(scene);
    return backend;
}

// One that publishes, or that connects to us with such a topic.
static struct backend *add(struct scene *scene, uint16_t port, const struct engine_peer *engine,
                           const char *topic)
{
    return add_at(scene, port,
                  &(struct fleet_spec){
                      .events = engine != NULL ? engine->live.address : NULL,
                      .events_replay = engine != NULL ? engine->replay.address : NULL,
                      .events_topic = topic,
                  });
}

// Lets the engines answer; false when ten seconds are over.
static bool waits(struct scene *scene, uint64_t since_ns)
{
    zmq_pollitem_t items[engine_count];
    int count = 0;

    for (uint32_t i = 0; i < engine_count; i++) {
        if (scene->engines[i].replay.socket != NULL) {
            engine_answer(&scene->engines[i]);
            items[count++] =
                (zmq_pollitem_t){.socket = scene->engines[i].replay.socket, .events = ZMQ_POLLIN};
        }
    }
    (void)zmq_poll(items, count, 2);
    return clock_monotonic_ns() - since_ns < 10000000000;
}

static unsigned events_of(const struct backend *backend)
{
    return atomic_load_explicit(&backend->shared.events, memory_order_acquire);
}

static bool becomes(struct scene *scene, const struct backend *backend, enum backend_events events)
{
    uint64_t since_ns = clock_monotonic_ns();
    while (events_of(backend) != events) {
        if (!waits(scene, since_ns)) {
            return false;
        }
    }
    return true;
}

static bool holds(const struct scene *scene, uint32_t slot, uint64_t number)
{
    uint64_t key = batch_key(number + 1, 0);
    return batch_match(scene->ledger, slot, &key, 1) == 1;
}

static bool comes_to_hold(struct scene *scene, uint32_t slot, uint64_t number, bool is_held)
{
    uint64_t since_ns = clock_monotonic_ns();
    while (holds(scene, slot, number) != is_held) {
        if (!waits(scene, since_ns)) {
            return false;
        }
    }
    return true;
}

static bool is_subscribed(struct scene *scene, struct engine_peer *engine)
{
    uint64_t since_ns = clock_monotonic_ns();
    while (!engine_has_subscriber(engine)) {
        if (!waits(scene, since_ns)) {
            return false;
        }
    }
    return true;
}

TEST(backends_of_the_fleet_are_followed_and_removed_ones_are_purged)
{
    struct scene *scene = scene_open(NULL);
    struct engine_peer *first = &scene->engines[0];
    struct engine_peer *second = &scene->engines[1];
    engine_open(first, "kv");
    engine_open(second, "kv");
    struct backend *a = add(scene, 8000, first, NULL);
    struct backend *b = add(scene, 8001, second, NULL);
    uint32_t slot = a->slot;
    CHECK(is_subscribed(scene, first));
    CHECK(is_subscribed(scene, second));
    engine_publish(first, 3);
    engine_publish(second, 5);
    CHECK(comes_to_hold(scene, slot, 2, true));
    CHECK(comes_to_hold(scene, b->slot, 4, true));
    CHECK(becomes(scene, a, BACKEND_EVENTS_LIVE));
    CHECK(!holds(scene, slot, 3));
    fleet_remove(scene->fleet, a);
    publish_fleet(scene);
    CHECK(comes_to_hold(scene, slot, 0, false));
    CHECK(!holds(scene, slot, 2));
    CHECK(holds(scene, b->slot, 0));
    scene_close(scene);
}

TEST(a_backend_that_reuses_a_slot_has_no_block_of_the_old_one)
{
    struct scene *scene = scene_open(NULL);
    struct engine_peer *first = &scene->engines[0];
    struct engine_peer *second = &scene->engines[1];
    engine_open(first, "kv");
    engine_open(second, "kv");
    struct backend *a = add(scene, 8000, first, NULL);
    uint32_t slot = a->slot;
    CHECK(is_subscribed(scene, first));
    engine_publish(first, 9);
    CHECK(comes_to_hold(scene, slot, 8, true));
    fleet_remove(scene->fleet, a);
    publish_fleet(scene);
    struct backend *b = NULL;
    uint64_t since_ns = clock_monotonic_ns();
    // The slot is free when no reader can see its old owner.
    for (b = add(scene, 8001, second, NULL); b->slot != slot; b = add(scene, 8001, second, NULL)) {
        fleet_remove(scene->fleet, b);
        publish_fleet(scene);
        CHECK(waits(scene, since_ns));
    }
    engine_lose(second, 2);
    CHECK(becomes(scene, b, BACKEND_EVENTS_LIVE));
    CHECK(holds(scene, slot, 1));
    CHECK(!holds(scene, slot, 2));
    CHECK(!holds(scene, slot, 8));
    scene_close(scene);
}

static bool lets_go(struct scene *scene)
{
    uint64_t since_ns = clock_monotonic_ns();
    uint64_t ticket = reclaim_ticket(&scene->reclaim);
    while (!reclaim_is_past(&scene->reclaim, ticket)) {
        if (!waits(scene, since_ns)) {
            return false;
        }
    }
    return true;
}

TEST(the_feeder_releases_a_view_without_being_woken)
{
    struct scene *scene = scene_open(NULL);
    CHECK(lets_go(scene));
    CHECK(lets_go(scene));
    scene_close(scene);
}

TEST(an_engine_that_restarts_is_followed_by_itself)
{
    struct scene *scene = scene_open(NULL);
    struct engine_peer *engine = &scene->engines[0];
    engine_open(engine, "kv");
    struct backend *backend = add(scene, 8000, engine, NULL);
    CHECK(is_subscribed(scene, engine));
    engine_publish(engine, 6);
    CHECK(comes_to_hold(scene, backend->slot, 5, true));
    engine_restart(engine);
    engine_lose(engine, 2);
    CHECK(comes_to_hold(scene, backend->slot, 5, false));
    CHECK(comes_to_hold(scene, backend->slot, 1, true));
    CHECK(becomes(scene, backend, BACKEND_EVENTS_LIVE));
    CHECK(!holds(scene, backend->slot, 2));
    scene_close(scene);
}

// An engine that connects to us.
static void engine_connect(struct scene *scene, struct engine_peer *engine, const char *topic)
{
    *engine = (struct engine_peer){.topic = topic};
    peer_connect(&engine->live, ZMQ_XPUB, kv_feeder_address(scene->feeder, 0));
}

TEST(engines_that_connect_to_us_are_told_apart_by_their_topics)
{
    struct scene *scene = scene_open("tcp://127.0.0.1:*");
    struct backend *a = add(scene, 8000, NULL, "kv-a");
    struct backend *ab = add(scene, 8001, NULL, "kv-ab");
    struct backend *c = add(scene, 8002, NULL, NULL);
    const char *const topics[] = {"kv-a.x", "kv-abc", "kv@127.0.0.1:8002@model"};
    for (uint32_t i = 0; i < engine_count; i++) {
        engine_connect(scene, &scene->engines[i], topics[i]);
        CHECK(is_subscribed(scene, &scene->engines[i]));
        engine_publish(&scene->engines[i], i + 1);
    }
    CHECK(comes_to_hold(scene, a->slot, 0, true));
    CHECK(comes_to_hold(scene, ab->slot, 1, true));
    CHECK(comes_to_hold(scene, c->slot, 2, true));
    CHECK(!holds(scene, a->slot, 1));
    CHECK(!holds(scene, ab->slot, 2));
    CHECK(becomes(scene, c, BACKEND_EVENTS_LIVE));
    CHECK_EQ(kv_feeder_stray_count(scene->feeder), 0);
    engine_send(&scene->engines[0].live, "kv", 1);
    engine_send(&scene->engines[0].live, "kv@127.0.0.1:9999@model", 1);
    uint64_t since_ns = clock_monotonic_ns();
    while (kv_feeder_stray_count(scene->feeder) < 2) {
        CHECK(waits(scene, since_ns));
    }
    scene_close(scene);
}

static void send_as_rank(struct zmq_peer *peer, int32_t rank, uint64_t name)
{
    struct batch batch;
    const uint64_t number = 0;

    batch_begin(&batch);
    batch.rank = rank;
    batch_add(&batch, KV_EVENT_STORED, name, 0);
    const struct slice frames[] = {slice_str("kv"), slice_of(&number, sizeof(number)),
                                   batch_end(&batch)};
    peer_send(peer, frames, 3);
}

TEST(ranks_that_share_a_topic_are_told_apart_by_their_batches)
{
    struct scene *scene = scene_open("tcp://127.0.0.1:*");
    struct backend *ranks[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct fleet_spec spec = {.events_topic = "kv", .rank = i, .rank_count = 3};
        spec.server = i > 0 ? ranks[0]->id : 0;
        ranks[i] = add_at(scene, 8000, &spec);
    }
    struct backend *other = add(scene, 8001, NULL, "k");
    engine_connect(scene, &scene->engines[0], "kv");
    CHECK(is_subscribed(scene, &scene->engines[0]));
    for (int32_t i = 2; i >= 0; i--) {
        send_as_rank(&scene->engines[0].live, i, (uint64_t)i + 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(comes_to_hold(scene, ranks[i]->slot, i, true));
        CHECK(becomes(scene, ranks[i], BACKEND_EVENTS_LIVE));
        CHECK(!holds(scene, ranks[i]->slot, (i + 1) % 3));
    }
    send_as_rank(&scene->engines[0].live, 3, 9); // it has no such rank
    uint64_t since_ns = clock_monotonic_ns();
    while (kv_feeder_stray_count(scene->feeder) < 1) {
        CHECK(waits(scene, since_ns));
    }
    CHECK_EQ(events_of(other), BACKEND_EVENTS_NONE);
    scene_close(scene);
}

TEST(an_address_that_cannot_be_bound_is_an_error_with_a_reason)
{
    struct scene *scene = scene_open("tcp://127.0.0.1:nonsense");
    CHECK(scene->feeder == NULL);
    CHECK_STR(scene->error, "tcp://127.0.0.1:nonsense: Invalid argument");
    scene_close(scene);
}

TEST(pushed_events_are_applied)
{
    struct scene *scene = scene_open(NULL);
    struct backend *backend = add(scene, 8000, NULL, NULL);
    const struct slice document =
        slice_str("{\"events\":[{\"type\":\"BlockStored\",\"block_hashes\":[1],"
                  "\"parent_block_hash\":null,\"token_ids\":[4,5,6,7],\"block_size\":4}]}");
    CHECK_EQ(kv_feeder_push(scene->feeder, backend->id + 1000, document), STATUS_CLOSED);
    CHECK_EQ(kv_feeder_push(scene->feeder, backend->id, document), STATUS_OK);
    CHECK(comes_to_hold(scene, backend->slot, 0, true));
    CHECK(becomes(scene, backend, BACKEND_EVENTS_LEARNING));
    scene_close(scene);
}

TEST(a_polled_backend_is_not_subscribed_to)
{
    struct scene *scene = scene_open(NULL);
    struct kv_feed_status status = {0};
    struct backend *backend = add_at(scene, 8000, &(struct fleet_spec){.events = "poll"});
    struct slice document =
        slice_str("[{\"event_id\":0,\"data\":{\"type\":\"stored\",\"parent_hash\":null,\"blocks\":"
                  "[{\"type\":\"stored_block\",\"block_hash\":1,\"tokens\":[{\"token_id\":4},"
                  "{\"token_id\":5},{\"token_id\":6},{\"token_id\":7}],\"cache_level\":0}]}}]");
    CHECK_EQ(kv_feeder_push(scene->feeder, backend->id, document), STATUS_OK);
    CHECK(comes_to_hold(scene, backend->slot, 0, true));
    CHECK(becomes(scene, backend, BACKEND_EVENTS_LIVE)); // the first event was among them
    uint64_t since_ns = clock_monotonic_ns();
    while (!kv_feeder_status(scene->feeder, backend->id, &status) || status.next_number != 1) {
        CHECK(waits(scene, since_ns));
    }
    CHECK(!status.is_connected);
    scene_close(scene);
}

TEST(its_status_can_be_read)
{
    struct scene *scene = scene_open(NULL);
    struct engine_peer *engine = &scene->engines[0];
    struct kv_feed_status status = {0};
    engine_open(engine, "kv");
    struct backend *backend = add(scene, 8000, engine, NULL);
    CHECK(!kv_feeder_status(scene->feeder, backend->id + 1000, &status));
    CHECK(is_subscribed(scene, engine));
    engine_publish(engine, 4);
    uint64_t since_ns = clock_monotonic_ns();
    while (!kv_feeder_status(scene->feeder, backend->id, &status) || status.next_number < 4) {
        CHECK(waits(scene, since_ns));
    }
    CHECK_EQ(status.state, KV_LIVE);
    CHECK(status.is_connected);
    CHECK_EQ(status.block_count, 4);
    CHECK_EQ(status.block_tokens, batch_block_tokens);
    CHECK_EQ(status.follower.messages, 4);
    CHECK_EQ(status.holdings.stored, 4);
    CHECK(status.last_ms < 60000);
    scene_close(scene);
}
