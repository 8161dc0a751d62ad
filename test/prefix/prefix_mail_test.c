// SPDX-License-Identifier: Apache-2.0

#include "prefix/chains.h"
#include "prefix/prefix_mail_internal.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

struct scene {
    struct prefix_index *index;
    struct prefix_mail *mail;
};

static struct scene make(uint32_t sender_count)
{
    struct scene scene;
    scene.index =
        prefix_index_create(&(struct prefix_limits){.memory = 64 << 20, .backend_count_max = 64});
    scene.mail = prefix_mail_create(scene.index, sender_count);
    return scene;
}

static void unmake(struct scene *scene)
{
    prefix_mail_destroy(&scene->mail);
    prefix_index_destroy(&scene->index);
}

TEST(letters_do_what_they_say)
{
    struct scene scene = make(2);
    struct chain a = chain_make(NULL, 0, 1, 40);
    struct prefix_letter letter = {
        .verb = PREFIX_STORE, .backend = 5, .now_s = 9, .key_count = 40, .keys = a.keys};
    CHECK(prefix_mail_send(scene.mail, 0, &letter));
    CHECK_EQ(chain_match(scene.index, 5, &a), 40);
    letter = (struct prefix_letter){.verb = PREFIX_STORE,
                                    .residency = PREFIX_CONFIRMED,
                                    .backend = 5,
                                    .key_count = 30,
                                    .keys = a.keys};
    CHECK(prefix_mail_send(scene.mail, 1, &letter));
    letter = (struct prefix_letter){
        .verb = PREFIX_DROP, .backend = 5, .from = 20, .key_count = 40, .keys = a.keys};
    CHECK(prefix_mail_send(scene.mail, 0, &letter));
    CHECK_EQ(chain_match(scene.index, 5, &a), 30); // 20 to 29 were confirmed
    letter.residency = PREFIX_CONFIRMED;
    CHECK(prefix_mail_send(scene.mail, 0, &letter));
    CHECK_EQ(chain_match(scene.index, 5, &a), 20);
    letter = (struct prefix_letter){.verb = PREFIX_FORGET_OLDER, .backend = 5, .age = 10};
    CHECK(prefix_mail_send(scene.mail, 0, &letter));
    CHECK_EQ(chain_match(scene.index, 5, &a), 16); // the run that begins at 16 has that age
    letter = (struct prefix_letter){.verb = PREFIX_FORGET, .backend = 5};
    CHECK(prefix_mail_send(scene.mail, 0, &letter));
    CHECK_EQ(chain_match(scene.index, 5, &a), 0);
    CHECK_EQ(prefix_mail_lost(scene.mail), 0);
    unmake(&scene);
    CHECK(scene.mail == NULL);
    prefix_mail_destroy(&scene.mail);
}

// Letters wait in the ring while somebody else has the role.
static void send_while_role_is_taken(struct scene *scene, const struct prefix_letter *letters,
                                     uint32_t count)
{
    struct prefix_hit hit;
    CHECK(prefix_mail_take_role(scene->mail));
    for (uint32_t i = 0; i < count; i++) {
        CHECK(prefix_mail_send(scene->mail, 0, &letters[i]));
        CHECK_EQ(
            prefix_index_match(scene->index, letters[i].keys, letters[i].key_count, 0, &hit, 1), 0);
    }
    prefix_mail_give_role(scene->mail);
}

enum { together = 3 };
static uint64_t many_keys[together][prefix_letter_keys_max];

static void fill_letters(struct rng *rng, uint32_t round, struct prefix_letter letters[together])
{
    for (uint32_t i = 0; i < together; i++) {
        uint32_t count = round % 10 == i ? prefix_letter_keys_max : 1 + rng_below(rng, 3000);
        for (uint32_t k = 0; k < count; k++) {
            many_keys[i][k] = rng_next(rng);
        }
        letters[i] = (struct prefix_letter){.verb = PREFIX_STORE,
                                            .backend = (round + i) % 64,
                                            .key_count = count,
                                            .keys = many_keys[i]};
    }
}

static void check_delivered(const struct scene *scene, const struct prefix_letter *letter)
{
    struct prefix_hit hit;
    CHECK_EQ(prefix_index_match(scene->index, letter->keys, letter->key_count, 0, &hit, 1), 1);
    CHECK_EQ(hit.backend, letter->backend);
    CHECK_EQ(hit.blocks, letter->key_count);
}

TEST(letters_of_every_length_go_round_the_ring)
{
    struct scene scene = make(1);
    struct rng rng = {.state = 1};
    for (uint32_t round = 0; round < 200; round++) {
        struct prefix_letter letters[together];
        fill_letters(&rng, round, letters);
        send_while_role_is_taken(&scene, letters, together);
        for (uint32_t i = 0; i < together; i++) {
            check_delivered(&scene, &letters[i]);
        }
    }
    unmake(&scene);
}

TEST(a_letter_does_not_overtake_those_of_its_sender)
{
    struct scene scene = make(2);
    struct prefix_hit hit;
    struct chain chain = chain_make(NULL, 0, 1, 30);
    struct prefix_letter store = {
        .verb = PREFIX_STORE, .backend = 5, .key_count = chain.count, .keys = chain.keys};
    struct prefix_letter forget = {.verb = PREFIX_FORGET, .backend = 5};

    CHECK(prefix_mail_take_role(scene.mail));
    CHECK(prefix_mail_send(scene.mail, 1, &store));
    CHECK(prefix_mail_send(scene.mail, 1, &forget));
    prefix_mail_give_role(scene.mail);
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 0);

    CHECK(prefix_mail_take_role(scene.mail));
    CHECK(prefix_mail_send(scene.mail, 1, &forget));
    CHECK(prefix_mail_send(scene.mail, 1, &store));
    prefix_mail_give_role(scene.mail);
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 1);
    CHECK(prefix_mail_send(scene.mail, 1, &forget));
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, chain.count, 0, &hit, 1), 0);
    unmake(&scene);
}

#ifdef __SANITIZE_THREAD__
enum { letter_count = 3000 };
#else
enum { letter_count = 20000 };
#endif

enum { sender_count = 4 };

struct sending {
    struct prefix_mail *mail;
    uint32_t sender;
    uint32_t lost;
    bool was_sent[letter_count];
};

static struct chain chain_of(uint32_t sender, uint32_t letter)
{
    return chain_make(NULL, 0, 1 + sender * letter_count + letter, 1 + letter % 40);
}

static void *send_all(void *owner)
{
    struct sending *sending = owner;
    for (uint32_t i = 0; i < letter_count; i++) {
        struct chain chain = chain_of(sending->sender, i);
        struct prefix_letter letter = {.verb = PREFIX_STORE,
                                       .backend = sending->sender,
                                       .key_count = chain.count,
                                       .keys = chain.keys};
        sending->was_sent[i] = prefix_mail_send(sending->mail, sending->sender, &letter);
        sending->lost += !sending->was_sent[i];
    }
    return NULL;
}

TEST(when_all_senders_are_done_all_letters_are_delivered)
{
    static struct sending sendings[sender_count];
    struct scene scene = make(sender_count);
    pthread_t threads[sender_count];
    for (uint32_t i = 0; i < sender_count; i++) {
        sendings[i] = (struct sending){.mail = scene.mail, .sender = i};
        CHECK_EQ(pthread_create(&threads[i], NULL, send_all, &sendings[i]), 0);
    }
    uint64_t lost = 0;
    for (uint32_t i = 0; i < sender_count; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        lost += sendings[i].lost;
    }
    for (uint32_t i = 0; i < sender_count * letter_count; i++) {
        const struct sending *sending = &sendings[i / letter_count];
        struct chain chain = chain_of(sending->sender, i % letter_count);
        uint32_t want = sending->was_sent[i % letter_count] ? chain.count : 0;
        CHECK_EQ(chain_match(scene.index, sending->sender, &chain), want);
    }
    CHECK_EQ(prefix_mail_lost(scene.mail), lost);
    unmake(&scene);
}

// Two threads, one letter each, and then nobody sends: the smallest race there is, many times.
struct duel {
    struct prefix_mail *mail;
    _Atomic uint32_t round;
    _Atomic uint32_t done;
};

enum { duel_rounds = letter_count };

static struct chain duel_chain(uint32_t round, uint32_t sender)
{
    return chain_make(NULL, 0, 1 + round * 2 + sender, 3);
}

static void duel_send(struct duel *duel, uint32_t round, uint32_t sender)
{
    struct chain chain = duel_chain(round, sender);
    struct prefix_letter letter = {
        .verb = PREFIX_STORE, .backend = sender, .key_count = 3, .keys = chain.keys};
    prefix_mail_send(duel->mail, sender, &letter);
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

TEST(no_letter_stays_behind_when_nobody_sends_after_it)
{
    struct scene scene = make(2);
    static struct duel duel;
    duel.mail = scene.mail;
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

TEST(a_ring_that_is_full_loses_letters_and_counts_them)
{
    static uint64_t keys[prefix_letter_keys_max];
    struct scene scene = make(2);
    struct prefix_hit hit;
    struct rng rng = {.state = 3};
    uint32_t sent = 0;
    uint32_t lost = 0;
    CHECK(prefix_mail_take_role(scene.mail));
    for (uint32_t i = 0; i < 10; i++) {
        keys[0] = rng_next(&rng);
        struct prefix_letter letter = {
            .verb = PREFIX_STORE, .key_count = prefix_letter_keys_max, .keys = keys};
        bool is_sent = prefix_mail_send(scene.mail, 1, &letter);
        sent += is_sent;
        lost += !is_sent;
    }
    CHECK(sent > 0);
    CHECK(lost > 0);
    CHECK_EQ(prefix_mail_lost(scene.mail), lost);
    prefix_mail_give_role(scene.mail);

    // There is room again, and the other one never lacked it.
    struct chain chain = chain_make(NULL, 0, 1, 1000);
    for (uint32_t sender = 0; sender < 2; sender++) {
        struct prefix_letter letter = {
            .verb = PREFIX_STORE, .backend = sender, .key_count = 1000, .keys = chain.keys};
        CHECK(prefix_mail_send(scene.mail, sender, &letter));
    }
    CHECK_EQ(prefix_index_match(scene.index, chain.keys, 1000, 0, &hit, 1), 1);
    CHECK_EQ(prefix_mail_lost(scene.mail), lost);
    unmake(&scene);
}
