// SPDX-License-Identifier: Apache-2.0

#include "prefix/chains.h"
#include "prefix/prefix_updates_internal.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

struct scene {
    struct prefix_index *index;
    struct prefix_updates *updates;
};

static struct scene make(uint32_t sender_count)
{
    struct scene scene;
    scene.index =
        prefix_index_create(&(struct prefix_limits){.memory = 64 << 20, .backend_count_max = 64});
    scene.updates = prefix_updates_create(scene.index, sender_count);
    return scene;
}

static void unmake(struct scene *scene)
{
    prefix_updates_destroy(&scene->updates);
    prefix_index_destroy(&scene->index);
}

TEST(each_verb_changes_the_index)
{
    struct scene scene = make(2);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct prefix_update update = {
        .verb = PREFIX_STORE, .backend = 5, .now_s = 9, .key_count = 40, .keys = a.keys};
    CHECK(prefix_updates_send(scene.updates, 0, &update));
    CHECK_EQ(chain_match(scene.index, 5, &a), 40);
    update = (struct prefix_update){.verb = PREFIX_STORE,
                                    .residency = PREFIX_CONFIRMED,
                                    .backend = 5,
                                    .key_count = 30,
                                    .keys = a.keys};
    CHECK(prefix_updates_send(scene.updates, 1, &update));
    update = (struct prefix_update){
        .verb = PREFIX_DROP, .backend = 5, .from = 20, .key_count = 40, .keys = a.keys};
    CHECK(prefix_updates_send(scene.updates, 0, &update));
    CHECK_EQ(chain_match(scene.index, 5, &a), 30); // 20 to 29 were confirmed
    update.residency = PREFIX_CONFIRMED;
    CHECK(prefix_updates_send(scene.updates, 0, &update));
    CHECK_EQ(chain_match(scene.index, 5, &a), 20);
    update = (struct prefix_update){.verb = PREFIX_FORGET_OLDER, .backend = 5, .age = 10};
    CHECK(prefix_updates_send(scene.updates, 0, &update));
    CHECK_EQ(chain_match(scene.index, 5, &a), 16); // the run that begins at 16 has that age
    update = (struct prefix_update){.verb = PREFIX_FORGET, .backend = 5};
    CHECK(prefix_updates_send(scene.updates, 0, &update));
    CHECK_EQ(chain_match(scene.index, 5, &a), 0);
    CHECK_EQ(prefix_updates_dropped(scene.updates), 0);
    unmake(&scene);
    CHECK(scene.updates == NULL);
    prefix_updates_destroy(&scene.updates);
}

// Updates wait in the ring while another thread has the role.
static void send_while_role_is_taken(struct scene *scene, const struct prefix_update *updates,
                                     uint32_t count)
{
    struct prefix_hit hit;
    CHECK(prefix_updates_take_role(scene->updates));
    for (uint32_t i = 0; i < count; i++) {
        CHECK(prefix_updates_send(scene->updates, 0, &updates[i]));
        CHECK_EQ(
            prefix_index_match(scene->index, updates[i].keys, updates[i].key_count, 0, &hit, 1), 0);
    }
    prefix_updates_give_role(scene->updates);
}

enum { together = 3 };
static uint64_t many_keys[together][prefix_update_keys_max];

static void fill_updates(struct rng *rng, uint32_t round, struct prefix_update updates[together])
{
    for (uint32_t i = 0; i < together; i++) {
        uint32_t count = round % 10 == i ? prefix_update_keys_max : 1 + rng_below(rng, 3000);
        for (uint32_t k = 0; k < count; k++) {
            many_keys[i][k] = rng_next(rng);
        }
        updates[i] = (struct prefix_update){.verb = PREFIX_STORE,
                                            .backend = (round + i) % 64,
                                            .key_count = count,
                                            .keys = many_keys[i]};
    }
}

static void check_applied(const struct scene *scene, const struct prefix_update *update)
{
    struct prefix_hit hit;
    CHECK_EQ(prefix_index_match(scene->index, update->keys, update->key_count, 0, &hit, 1), 1);
    CHECK_EQ(hit.backend, update->backend);
    CHECK_EQ(hit.blocks, update->key_count);
}

TEST(updates_of_every_length_go_round_the_ring)
{
    struct scene scene = make(1);
    struct rng rng = {.state = 1};
    for (uint32_t round = 0; round < 200; round++) {
        struct prefix_update updates[together];
        fill_updates(&rng, round, updates);
        send_while_role_is_taken(&scene, updates, together);
        for (uint32_t i = 0; i < together; i++) {
            check_applied(&scene, &updates[i]);
        }
    }
    unmake(&scene);
}

TEST(an_update_does_not_overtake_those_of_its_sender)
{
    struct scene scene = make(2);
    struct prefix_hit hit;
    struct chain chain = chain_make(NULL, 0, 1, 30);
    struct prefix_update store = {
        .verb = PREFIX_STORE, .backend = 5, .key_count = chain.count, .keys = chain.keys};
    struct prefix_update forget = {.verb = PREFIX_FORGET, .backend = 5};

    CHECK(prefix_updates_take_role(scene.updates));
    CHECK(prefix_updates_send(scene.updates, 1, &store));
    CHECK(prefix_updates_send(scene.updates, 1, &forget));
    prefix_updates_give_role(scene.updates);
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 0);

    CHECK(prefix_updates_take_role(scene.updates));
    CHECK(prefix_updates_send(scene.updates, 1, &forget));
    CHECK(prefix_updates_send(scene.updates, 1, &store));
    prefix_updates_give_role(scene.updates);
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 1);
    CHECK(prefix_updates_send(scene.updates, 1, &forget));
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 0);
    unmake(&scene);
}

#ifdef __SANITIZE_THREAD__
enum { update_count = 3000 };
#else
enum { update_count = 20000 };
#endif

enum { sender_count = 4 };

struct sending {
    struct prefix_updates *updates;
    uint32_t sender;
    uint32_t dropped;
    bool was_sent[update_count];
};

static struct chain chain_of(uint32_t sender, uint32_t update)
{
    return chain_make(NULL, 0, 1 + sender * update_count + update, 1 + update % 40);
}

static void *send_all(void *owner)
{
    struct sending *sending = owner;
    for (uint32_t i = 0; i < update_count; i++) {
        struct chain chain = chain_of(sending->sender, i);
        struct prefix_update update = {.verb = PREFIX_STORE,
                                       .backend = sending->sender,
                                       .key_count = chain.count,
                                       .keys = chain.keys};
        sending->was_sent[i] = prefix_updates_send(sending->updates, sending->sender, &update);
        sending->dropped += !sending->was_sent[i];
    }
    return NULL;
}

TEST(when_all_senders_are_done_all_updates_are_applied)
{
    static struct sending sendings[sender_count];
    struct scene scene = make(sender_count);
    pthread_t threads[sender_count];
    for (uint32_t i = 0; i < sender_count; i++) {
        sendings[i] = (struct sending){.updates = scene.updates, .sender = i};
        CHECK_EQ(pthread_create(&threads[i], NULL, send_all, &sendings[i]), 0);
    }
    uint64_t dropped = 0;
    for (uint32_t i = 0; i < sender_count; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        dropped += sendings[i].dropped;
    }
    for (uint32_t i = 0; i < sender_count * update_count; i++) {
        const struct sending *sending = &sendings[i / update_count];
        struct chain chain = chain_of(sending->sender, i % update_count);
        uint32_t want = sending->was_sent[i % update_count] ? chain.count : 0;
        CHECK_EQ(chain_match(scene.index, sending->sender, &chain), want);
    }
    CHECK_EQ(prefix_updates_dropped(scene.updates), dropped);
    unmake(&scene);
}

// Two threads, one update each, and no update after them: the smallest race, many times.
struct duel {
    struct prefix_updates *updates;
    _Atomic uint32_t round;
    _Atomic uint32_t done;
};

enum { duel_rounds = update_count };

static struct chain duel_chain(uint32_t round, uint32_t sender)
{
    return chain_make(NULL, 0, 1 + round * 2 + sender, 3);
}

static void duel_send(struct duel *duel, uint32_t round, uint32_t sender)
{
    struct chain chain = duel_chain(round, sender);
    struct prefix_update update = {
        .verb = PREFIX_STORE, .backend = sender, .key_count = 3, .keys = chain.keys};
    prefix_updates_send(duel->updates, sender, &update);
}

static void *duel_run(void *owner)
{
    struct duel *duel = owner;
    for (uint32_t round = 1; round <= duel_rounds; round++) {
        while (atomic_load(&duel->round) < round) {
            sched_yield();
        }
        duel_send(duel, round, 1);
        atomic_store(&duel->done, round);
    }
    return NULL;
}

TEST(an_update_is_applied_even_if_no_other_follows)
{
    struct scene scene = make(2);
    static struct duel duel;
    duel.updates = scene.updates;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, duel_run, &duel), 0);
    bool all_there = true;
    for (uint32_t round = 1; round <= duel_rounds; round++) {
        atomic_store(&duel.round, round);
        duel_send(&duel, round, 0);
        while (atomic_load(&duel.done) < round) {
            sched_yield();
        }
        for (uint32_t sender = 0; sender < 2; sender++) {
            struct chain chain = duel_chain(round, sender);
            all_there = all_there && chain_match(scene.index, sender, &chain) == 3;
        }
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK(all_there);
    unmake(&scene);
}

TEST(a_full_ring_drops_updates_and_counts_them)
{
    static uint64_t keys[prefix_update_keys_max];
    struct scene scene = make(2);
    struct prefix_hit hit;
    struct rng rng = {.state = 3};
    uint32_t sent = 0;
    uint32_t dropped = 0;
    CHECK(prefix_updates_take_role(scene.updates));
    for (uint32_t i = 0; i < 10; i++) {
        keys[0] = rng_next(&rng);
        struct prefix_update update = {
            .verb = PREFIX_STORE, .key_count = prefix_update_keys_max, .keys = keys};
        bool is_sent = prefix_updates_send(scene.updates, 1, &update);
        sent += is_sent;
        dropped += !is_sent;
    }
    CHECK(sent > 0);
    CHECK(dropped > 0);
    CHECK_EQ(prefix_updates_dropped(scene.updates), dropped);
    prefix_updates_give_role(scene.updates);

    // There is room again, and the other one never lacked it.
    struct chain chain = chain_make(NULL, 0, 1, 1000);
    for (uint32_t sender = 0; sender < 2; sender++) {
        struct prefix_update update = {
            .verb = PREFIX_STORE, .backend = sender, .key_count = 1000, .keys = chain.keys};
        CHECK(prefix_updates_send(scene.updates, sender, &update));
    }
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, 1000, 0, &hit, 1), 1);
    CHECK_EQ(prefix_updates_dropped(scene.updates), dropped);
    unmake(&scene);
}

TEST(a_try_applies_at_once_or_not_at_all)
{
    struct scene scene = make(1);
    struct chain chain = chain_make(NULL, 0, 1, 30);
    struct prefix_update store = {
        .verb = PREFIX_STORE, .backend = 5, .key_count = chain.count, .keys = chain.keys};
    CHECK(prefix_updates_take_role(scene.updates));
    CHECK(!prefix_updates_try(scene.updates, &store));
    prefix_updates_give_role(scene.updates);
    CHECK_EQ(chain_match(scene.index, 5, &chain), 0);
    CHECK(prefix_updates_try(scene.updates, &store));
    CHECK_EQ(chain_match(scene.index, 5, &chain), 30);
    CHECK_EQ(prefix_updates_dropped(scene.updates), 0);
    // The role was given back.
    CHECK(prefix_updates_take_role(scene.updates));
    prefix_updates_give_role(scene.updates);
    unmake(&scene);
}

TEST(a_merge_is_an_update)
{
    struct scene scene = make(1);
    struct chain chain = chain_make(NULL, 0, 1, 30);
    struct prefix_update merge = {.verb = PREFIX_MERGE,
                                  .residency = PREFIX_CONFIRMED,
                                  .backend = 5,
                                  .age = 12,
                                  .age_s = 3,
                                  .now_s = 100,
                                  .key_count = chain.count,
                                  .keys = chain.keys};
    CHECK(prefix_updates_send(scene.updates, 0, &merge));
    CHECK_EQ(chain_hit(scene.index, 5, &chain, 100).confirmed, 30);
    CHECK_EQ(chain_hit(scene.index, 5, &chain, 100).age, 12);
    unmake(&scene);
}
