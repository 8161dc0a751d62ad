// SPDX-License-Identifier: Apache-2.0

#include "feed/kv/kv_source.h"

#include "feed/engine_peer.h"
#include "feed/kv/kv_board.h"
#include "fleet/backend.h"
#include "kvevent/kv_json.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "test.h"

enum { patience = 2000 }; // turns of 5 ms

// One engine, and one backend that listens to it; time can be made to jump.
struct scene {
    struct backend backend; // the widest first: it is aligned to cache lines
    struct loop *loop;
    struct kv_sockets *sockets;
    struct prefix_ledger *ledger;
    struct kv_names_budget budget;
    struct kv_reader *reader;
    struct kv_source *source;
    struct engine_peer engine;
    uint64_t skew_ms;
    bool is_ready;
};

static void note_ready(void *owner)
{
    struct scene *scene = owner;
    scene->is_ready = true;
}

static uint64_t now(const struct scene *scene)
{
    return loop_now_ms(scene->loop) + scene->skew_ms;
}

static struct scene *scene_open(const char *topic)
{
    static struct scene scene;
    static char url[] = "http://127.0.0.1:8000";

    log_set_level(LOG_LEVEL_ERROR);
    memset(&scene, 0, sizeof(scene));
    scene.budget.limit = 16 << 20;
    scene.reader = kv_reader_create();
    scene.ledger = prefix_ledger_create(
        &(struct prefix_ledger_limits){.memory = 16 << 20, .backend_count_max = 8});
    ASSERT(scene.ledger != NULL && scene.reader != NULL);
    ASSERT(loop_create(&scene.loop) == STATUS_OK);
    ASSERT(kv_sockets_create(scene.loop, &scene.sockets) == STATUS_OK);
    engine_open(&scene.engine, topic);
    scene.backend.id = 77;
    scene.backend.slot = 5;
    scene.backend.url = url;
    scene.backend.rank_count = 1;
    load_init(&scene.backend.load);
    return &scene;
}

// With the engine's sockets, or with none.
static void listen(struct scene *scene, bool has_live, bool has_replay)
{
    scene->backend.events = has_live ? scene->engine.live.address : NULL;
    scene->backend.events_replay = has_replay ? scene->engine.replay.address : NULL;
    scene->source = kv_source_open(&(struct kv_source_options){
        .backend = &scene->backend,
        .sockets = scene->sockets,
        .holdings = {.ledger = scene->ledger, .budget = &scene->budget},
        .reader = scene->reader,
        .ready = note_ready,
        .owner = scene,
    });
    ASSERT(scene->source != NULL);
}

static void scene_close(struct scene *scene)
{
    kv_source_close(&scene->source);
    ASSERT(scene->source == NULL);
    engine_close(&scene->engine);
    kv_sockets_destroy(&scene->sockets);
    loop_destroy(&scene->loop);
    kv_reader_destroy(&scene->reader);
    prefix_ledger_destroy(&scene->ledger);
}

static void turn(struct scene *scene)
{
    loop_turn(scene->loop, 5);
    engine_answer(&scene->engine);
    kv_source_look(scene->source, now(scene));
    if (scene->is_ready) {
        scene->is_ready = false;
        scene->is_ready |= kv_source_work(scene->source, now(scene));
    }
}

static void pass(struct scene *scene, uint64_t ms)
{
    scene->skew_ms += ms;
    turn(scene);
}

static struct kv_feed_status status_of(const struct scene *scene)
{
    struct kv_feed_status status;
    kv_source_status(scene->source, now(scene), &status);
    return status;
}

static uint64_t next_number(const struct scene *scene)
{
    return status_of(scene).next_number;
}

static struct kv_follower_counts counts(const struct scene *scene)
{
    return status_of(scene).follower;
}

static unsigned events_of(const struct scene *scene)
{
    return atomic_load(&scene->backend.shared.events);
}

// Turns until the source is where the engine is, and says so.
static bool comes_to(struct scene *scene, enum backend_events events)
{
    for (uint32_t i = 0; i < patience; i++) {
        if (next_number(scene) == scene->engine.next && events_of(scene) == events) {
            return true;
        }
        turn(scene);
    }
    printf("# at %" PRIu64 " of %" PRIu64 ", events %u\n", next_number(scene), scene->engine.next,
           events_of(scene));
    return false;
}

// Turns until the engine has a subscriber and the source knows of the connection.
static bool is_subscribed(struct scene *scene)
{
    bool is_there = false;
    for (uint32_t i = 0; i < patience; i++) {
        turn(scene);
        is_there = is_there || engine_has_subscriber(&scene->engine);
        if (is_there && status_of(scene).is_connected) {
            return true;
        }
    }
    return false;
}

// Exactly messages first to last, of the first 30.
static bool holds_only(const struct scene *scene, uint64_t first, uint64_t last)
{
    for (uint64_t i = 0; i < 30; i++) {
        uint64_t key = batch_key(i + 1, 0);
        bool is_held = batch_match(scene->ledger, scene->backend.slot, &key, 1) == 1;
        if (is_held != (i >= first && i <= last)) {
            printf("# message %" PRIu64 " is %s\n", i, is_held ? "known" : "missing");
            return false;
        }
    }
    return true;
}

TEST(published_blocks_are_in_the_ledger)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, true);
    CHECK_EQ(status_of(scene).last_ms, UINT64_MAX);
    CHECK(is_subscribed(scene));
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_NONE);
    engine_publish(&scene->engine, 5);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 4));
    // Whatever its metrics say later.
    load_report(&scene->backend.load, &(struct load_report){.block_tokens = 999}, 1);
    CHECK_EQ(load_block_tokens(&scene->backend.load), batch_block_tokens);
    CHECK(status_of(scene).last_ms < 60000);
    kv_source_close(&scene->source);
    CHECK(holds_only(scene, 1, 0)); // nothing
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_NONE);
    scene_close(scene);
}

static void join_late(enum engine_layout layout)
{
    struct scene *scene = scene_open("kv");
    scene->engine.layout = layout;
    engine_lose(&scene->engine, 20);
    listen(scene, true, true);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE)); // before it says anything
    CHECK(holds_only(scene, 0, 19));
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 2);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 21));
    CHECK_EQ(counts(scene).malformed, 0);
    CHECK_EQ(counts(scene).purges, 0);
    scene_close(scene);
}

TEST(a_late_subscriber_gets_all_batches_by_replay)
{
    join_late(REPLAY_WITHOUT_TOPIC);
}

TEST(a_replay_with_topics_is_read_the_same_way)
{
    join_late(REPLAY_WITH_TOPIC);
}

TEST(a_subscriber_too_late_for_some_batches_is_learning)
{
    struct scene *scene = scene_open("kv");
    engine_lose(&scene->engine, 20);
    scene->engine.oldest = 12;
    listen(scene, true, true);
    CHECK(comes_to(scene, BACKEND_EVENTS_LEARNING));
    CHECK(holds_only(scene, 12, 19));
    // The blocks stored since fill its cache: nothing older is left.
    atomic_store(&scene->backend.load.cache_tokens, 8ULL * batch_block_tokens);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    scene_close(scene);
}

TEST(lost_messages_are_requested_again)
{
    struct scene *scene = scene_open("");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    engine_lose(&scene->engine, 4);
    engine_publish(&scene->engine, 3);
    for (uint32_t i = 0; i < patience && counts(scene).gaps == 0; i++) {
        turn(scene);
    }
    pass(scene, kv_replay_pause_ms);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 9));
    CHECK_EQ(counts(scene).lost, 4);
    CHECK_EQ(counts(scene).purges, 0);
    scene_close(scene);
}

TEST(a_last_message_that_was_lost_is_found_after_a_silence)
{
    struct scene *scene = scene_open("");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    engine_lose(&scene->engine, 1);
    pass(scene, kv_quiet_ms);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 3));
    scene_close(scene);
}

TEST(without_a_replay_a_loss_makes_it_learn_anew)
{
    struct scene *scene = scene_open("");
    listen(scene, true, false);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    engine_lose(&scene->engine, 1);
    engine_publish(&scene->engine, 2);
    CHECK(comes_to(scene, BACKEND_EVENTS_LEARNING));
    CHECK(holds_only(scene, 4, 5));
    CHECK_EQ(scene->engine.asked, 0);
    scene_close(scene);
}

TEST(a_restarted_engine_is_followed_from_its_first_message)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 9);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    engine_restart(&scene->engine);
    engine_lose(&scene->engine, 2); // before we are back
    CHECK(is_subscribed(scene));
    pass(scene, kv_replay_pause_ms);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 1));
    CHECK_EQ(counts(scene).restarts, 1);
    engine_publish(&scene->engine, 1);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK(holds_only(scene, 0, 2));
    scene_close(scene);
}

TEST(a_lost_connection_is_not_live)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    engine_close(&scene->engine);
    for (uint32_t i = 0; i < patience && status_of(scene).is_connected; i++) {
        loop_turn(scene->loop, 5);
        kv_source_work(scene->source, now(scene));
    }
    CHECK(!status_of(scene).is_connected);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LEARNING);
    CHECK(holds_only(scene, 0, 2));
    engine_open(&scene->engine, "kv"); // for scene_close
    scene_close(scene);
}

TEST(malformed_messages_are_counted_and_ignored)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    const struct slice frames[] = {slice_str("kv"), slice_str("12345678"), slice_str("payload"),
                                   slice_str("surplus")};
    const struct slice short_number[] = {slice_str("kv"), slice_str("1234567"),
                                         slice_str("payload")};
    peer_send(&scene->engine.live, frames, 1);
    peer_send(&scene->engine.live, frames, 2);
    peer_send(&scene->engine.live, frames, 4);
    peer_send(&scene->engine.live, short_number, 3);
    engine_publish(&scene->engine, 2);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    CHECK_EQ(counts(scene).malformed, 4);
    CHECK(holds_only(scene, 0, 1));
    scene_close(scene);
}

TEST(an_engine_without_a_replay_response_is_learnt_from_live_messages)
{
    struct scene *scene = scene_open("kv");
    scene->engine.is_mute = true;
    engine_lose(&scene->engine, 5);
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 2);
    for (uint32_t i = 0; i < 60 && events_of(scene) == BACKEND_EVENTS_NONE; i++) {
        pass(scene, 500);
    }
    CHECK(comes_to(scene, BACKEND_EVENTS_LEARNING));
    CHECK(holds_only(scene, 5, 6));
    CHECK_EQ(scene->engine.asked, kv_replay_attempts);
    scene_close(scene);
}

TEST(a_slow_server_keeps_its_record_while_its_connection_holds)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, false);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    for (int i = 0; i < 3; i++) {
        atomic_fetch_add(&scene->backend.shared.lives, 1);
        turn(scene);
    }
    CHECK_EQ(counts(scene).restarts, 0);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LIVE);
    CHECK(holds_only(scene, 0, 2));
    scene_close(scene);
}

static void feed(struct scene *scene, uint64_t number)
{
    struct batch batch;
    uint64_t big_endian = __builtin_bswap64(number);
    struct kv_frames message = {
        .frames = {slice_str("kv"), slice_of(&big_endian, sizeof(big_endian)),
                   batch_write(&batch, KV_EVENT_STORED, number + 1, 0)},
        .count = 3,
    };
    kv_source_take(scene->source, &message, now(scene));
}

TEST(a_restart_seen_by_probes_counts_without_a_connection)
{
    struct scene *scene = scene_open("kv");
    listen(scene, false, false);
    atomic_fetch_add(&scene->backend.shared.lives, 1);
    turn(scene);
    CHECK_EQ(counts(scene).restarts, 0); // there is nothing to forget
    feed(scene, 0);
    turn(scene);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LIVE);
    atomic_fetch_add(&scene->backend.shared.lives, 1);
    turn(scene);
    CHECK_EQ(counts(scene).restarts, 1);
    atomic_fetch_add(&scene->backend.shared.lives, 1); // each refused connection is one
    turn(scene);
    CHECK_EQ(counts(scene).restarts, 1);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LEARNING);
    CHECK(holds_only(scene, 1, 0)); // nothing
    scene_close(scene);
}

TEST(a_contradicted_source_learns_anew_at_most_once_in_a_while)
{
    struct scene *scene = scene_open("kv");
    listen(scene, true, true);
    CHECK(is_subscribed(scene));
    engine_publish(&scene->engine, 3);
    CHECK(comes_to(scene, BACKEND_EVENTS_LIVE));
    atomic_fetch_add(&scene->backend.shared.events_wrong, 1);
    turn(scene);
    CHECK_EQ(counts(scene).purges, 1);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LEARNING);
    atomic_fetch_add(&scene->backend.shared.events_wrong, 1);
    pass(scene, kv_source_distrust_ms / 2);
    CHECK_EQ(counts(scene).purges, 1);
    pass(scene, kv_source_distrust_ms);
    CHECK_EQ(counts(scene).purges, 1); // responses predicted before are not further proof
    atomic_fetch_add(&scene->backend.shared.events_wrong, 1);
    turn(scene);
    CHECK_EQ(counts(scene).purges, 2);
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LEARNING);
    scene_close(scene);
}

TEST(a_source_without_a_socket_is_fed_by_others)
{
    struct scene *scene = scene_open("kv");
    listen(scene, false, false);
    feed(scene, 0);
    CHECK(!kv_source_work(scene->source, now(scene)));
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LIVE);
    CHECK(holds_only(scene, 0, 0));
    scene_close(scene);
}

TEST(documents_are_applied_and_their_numbers_followed)
{
    struct scene *scene = scene_open("kv");
    struct kv_json *reader = kv_json_create();
    const char *const stored =
        "{\"events\":[{\"type\":\"BlockStored\",\"block_hashes\":[1],\"parent_block_hash\":null,"
        "\"token_ids\":[4,5,6,7],\"block_size\":4}]}";
    const char *const removed =
        "[{\"event_id\":9,\"data\":{\"type\":\"removed\",\"block_hashes\":[1]}}]";
    listen(scene, false, false);
    kv_source_push(scene->source, reader, slice_str(stored), now(scene));
    kv_source_work(scene->source, now(scene));
    CHECK(holds_only(scene, 0, 0));
    CHECK_EQ(events_of(scene), BACKEND_EVENTS_LEARNING);
    kv_source_push(scene->source, reader, slice_str(removed), now(scene));
    CHECK(holds_only(scene, 1, 0));
    CHECK_EQ(next_number(scene), 10);
    kv_source_push(scene->source, reader, slice_str("nonsense"), now(scene));
    CHECK_EQ(counts(scene).malformed, 1);
    kv_json_destroy(&reader);
    scene_close(scene);
}
