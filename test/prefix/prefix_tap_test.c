// SPDX-License-Identifier: Apache-2.0

#include "prefix/prefix_tap.h"

#include "base/base.h"
#include "base/rng.h"
#include "sys/thread.h"
#include "test.h"

#include <stdlib.h>

static uint64_t long_keys[prefix_tap_keys_max + 10];

static struct prefix_note note_of(uint64_t number, uint32_t key_count)
{
    for (uint32_t i = 0; i < key_count; i++) {
        long_keys[i] = rng_mix(number) + i;
    }
    return (struct prefix_note){.kind = PREFIX_NOTE_CONFIRM,
                                .backend = number * 3,
                                .prediction = number,
                                .lives = (uint32_t)number,
                                .block_tokens = 16,
                                .age = 7,
                                .keys = long_keys,
                                .key_count = key_count};
}

static bool is_note(const struct prefix_note *note, uint64_t number, uint32_t key_count)
{
    bool is_right = note->kind == PREFIX_NOTE_CONFIRM && note->backend == number * 3 &&
                    note->prediction == number && note->lives == (uint32_t)number &&
                    note->block_tokens == 16 && note->age == 7 && note->key_count == key_count;
    for (uint32_t i = 0; is_right && i < key_count; i++) {
        is_right = note->keys[i] == rng_mix(number) + i;
    }
    return is_right;
}

TEST(an_empty_tap_gives_nothing)
{
    struct prefix_tap *tap = prefix_tap_create(3);
    struct prefix_note note;
    CHECK(!prefix_tap_take(tap, &note));
    CHECK(!prefix_tap_take(tap, &note));
    CHECK_EQ(prefix_tap_dropped(tap), 0);
    prefix_tap_destroy(&tap);
    CHECK(tap == NULL);
    prefix_tap_destroy(&tap);
}

TEST(a_note_comes_as_it_was_put_with_its_keys_copied)
{
    struct prefix_tap *tap = prefix_tap_create(1);
    struct prefix_note note = note_of(5, 40);
    prefix_tap_put(tap, 0, &note);
    memset(long_keys, 0, sizeof(long_keys));
    CHECK(prefix_tap_take(tap, &note));
    CHECK(note.keys != long_keys);
    CHECK(is_note(&note, 5, 40));
    CHECK(!prefix_tap_take(tap, &note));
    prefix_tap_destroy(&tap);
}

TEST(a_note_without_keys_comes_as_well)
{
    struct prefix_tap *tap = prefix_tap_create(1);
    struct prefix_note note = {.kind = PREFIX_NOTE_WITHDRAW, .prediction = 9};
    prefix_tap_put(tap, 0, &note);
    CHECK(prefix_tap_take(tap, &note));
    CHECK_EQ(note.kind, PREFIX_NOTE_WITHDRAW);
    CHECK_EQ(note.prediction, 9);
    CHECK_EQ(note.key_count, 0);
    prefix_tap_destroy(&tap);
}

TEST(notes_of_one_sender_stay_in_order_and_none_is_lost)
{
    struct prefix_tap *tap = prefix_tap_create(3);
    uint64_t last[3] = {0};
    struct prefix_note note;
    uint32_t count = 0;
    for (uint64_t i = 1; i <= 300; i++) {
        note = note_of(i, (uint32_t)(i % 50));
        prefix_tap_put(tap, (uint32_t)(i % 3), &note);
    }
    while (prefix_tap_take(tap, &note)) {
        CHECK(note.prediction > last[note.prediction % 3]);
        CHECK(is_note(&note, note.prediction, (uint32_t)(note.prediction % 50)));
        last[note.prediction % 3] = note.prediction;
        count++;
    }
    CHECK_EQ(count, 300);
    prefix_tap_destroy(&tap);
}

TEST(further_keys_than_a_note_takes_are_left_out)
{
    struct prefix_tap *tap = prefix_tap_create(1);
    struct prefix_note note = note_of(4, prefix_tap_keys_max + 10);
    prefix_tap_put(tap, 0, &note);
    CHECK(prefix_tap_take(tap, &note));
    CHECK(is_note(&note, 4, prefix_tap_keys_max));
    prefix_tap_destroy(&tap);
}

TEST(a_full_ring_drops_and_counts_and_goes_on_when_it_is_read)
{
    struct prefix_tap *tap = prefix_tap_create(2);
    struct prefix_note note = note_of(1, prefix_tap_keys_max);
    uint32_t put = 0;
    while (prefix_tap_dropped(tap) == 0) {
        prefix_tap_put(tap, 0, &note);
        put++;
    }
    CHECK(put > 2);
    struct prefix_note other = note_of(2, 3); // of another sender, which has room
    prefix_tap_put(tap, 1, &other);
    CHECK_EQ(prefix_tap_dropped(tap), 1);
    uint32_t taken = 0;
    while (prefix_tap_take(tap, &note)) {
        taken++;
    }
    CHECK_EQ(taken, put);
    other = note_of(3, prefix_tap_keys_max);
    prefix_tap_put(tap, 0, &other);
    CHECK(prefix_tap_take(tap, &note));
    CHECK(is_note(&note, 3, prefix_tap_keys_max));
    CHECK_EQ(prefix_tap_dropped(tap), 1);
    prefix_tap_destroy(&tap);
}

TEST(a_note_that_was_taken_stays_until_the_next_take)
{
    struct prefix_tap *tap = prefix_tap_create(1);
    struct prefix_note note = note_of(1, 100);
    struct prefix_note taken;
    prefix_tap_put(tap, 0, &note);
    CHECK(prefix_tap_take(tap, &taken));
    for (uint64_t i = 2; prefix_tap_dropped(tap) == 0; i++) {
        note = note_of(i, 1000);
        prefix_tap_put(tap, 0, &note);
    }
    CHECK(is_note(&taken, 1, 100));
    prefix_tap_destroy(&tap);
}

TEST(no_number_comes_twice_and_none_is_zero)
{
    enum { senders = 3, each = 1000 };
    static bool is_used[senders * (each + 2)];
    struct prefix_tap *tap = prefix_tap_create(senders);
    for (uint32_t i = 0; i < senders * each; i++) {
        uint64_t number = prefix_tap_number(tap, i % senders);
        CHECK(number != 0 && number < ARRAY_COUNT(is_used));
        CHECK(!is_used[number]);
        is_used[number] = true;
    }
    prefix_tap_destroy(&tap);
}

// False: it was dropped.
static bool put_sized(struct prefix_tap *tap, uint64_t number, uint32_t size)
{
    uint64_t dropped = prefix_tap_dropped(tap);
    struct prefix_note note = note_of(number, size);
    prefix_tap_put(tap, 0, &note);
    return prefix_tap_dropped(tap) == dropped;
}

TEST(any_sizes_come_round_the_ring_unharmed)
{
    struct prefix_tap *tap = prefix_tap_create(1);
    struct rng rng = {.state = 1};
    uint32_t sizes[64] = {0};
    uint64_t put = 0;
    uint64_t taken = 0;
    struct prefix_note note;
    while (taken < 3000) {
        if (put - taken < 20 && rng_below(&rng, 2) == 0) {
            bool is_long = rng_below(&rng, 10) == 0;
            sizes[put % 64] = rng_below(&rng, is_long ? prefix_tap_keys_max : 200);
            put += put_sized(tap, put, sizes[put % 64]);
        } else if (prefix_tap_take(tap, &note)) {
            CHECK(is_note(&note, taken, sizes[taken % 64]));
            taken++;
        }
    }
    prefix_tap_destroy(&tap);
}

// Senders put while a reader takes.
enum { sender_count = 3, notes_each = 20000, notes_total = sender_count * notes_each };

struct pouring {
    struct prefix_tap *tap;
    uint32_t sender;
};

static uint32_t size_of(uint64_t number)
{
    return (uint32_t)(number % 97 == 0 ? 3000 : number % 40);
}

static void pour(void *owner)
{
    const struct pouring *pouring = owner;
    static _Thread_local uint64_t keys[3000];
    for (uint64_t i = 0; i < notes_each; i++) {
        uint64_t number = i * sender_count + pouring->sender;
        for (uint32_t k = 0; k < size_of(number); k++) {
            keys[k] = rng_mix(number) + k;
        }
        prefix_tap_put(pouring->tap, pouring->sender,
                       &(struct prefix_note){.kind = PREFIX_NOTE_PREDICT,
                                             .prediction = number,
                                             .keys = keys,
                                             .key_count = size_of(number)});
        if (i % 64 == 0) {
            thread_yield();
        }
    }
}

static const char *check_poured(const struct prefix_note *note, int64_t *last)
{
    uint32_t sender = (uint32_t)(note->prediction % sender_count);
    if ((int64_t)note->prediction <= last[sender]) {
        return "out of order";
    }
    last[sender] = (int64_t)note->prediction;
    if (note->key_count != size_of(note->prediction)) {
        return "another size";
    }
    for (uint32_t i = 0; i < note->key_count; i++) {
        if (note->keys[i] != rng_mix(note->prediction) + i) {
            return "another key";
        }
    }
    return "";
}

TEST(notes_that_three_threads_put_come_whole_to_a_fourth)
{
    struct prefix_tap *tap = prefix_tap_create(sender_count);
    struct pouring pourings[sender_count];
    struct thread *threads[sender_count];
    int64_t last[sender_count] = {-1, -1, -1};
    uint64_t taken = 0;
    struct prefix_note note;
    for (uint32_t i = 0; i < sender_count; i++) {
        pourings[i] = (struct pouring){.tap = tap, .sender = i};
        CHECK_EQ(thread_start("pour", pour, &pourings[i], &threads[i]), STATUS_OK);
    }
    const char *why = "";
    while (why[0] == '\0' && taken + prefix_tap_dropped(tap) < notes_total) {
        if (prefix_tap_take(tap, &note)) {
            why = check_poured(&note, last);
            taken++;
        } else {
            thread_yield();
        }
    }
    for (uint32_t i = 0; i < sender_count; i++) {
        thread_join(&threads[i]);
    }
    CHECK_STR(why, "");
    CHECK_EQ(taken + prefix_tap_dropped(tap), notes_total);
    CHECK(taken > 100);
    CHECK(!prefix_tap_take(tap, &note));
    prefix_tap_destroy(&tap);
}
