// SPDX-License-Identifier: Apache-2.0
//
// The ring against a twin that keeps everything and looks through all of it.

#include "chronicle/decision_ring.h"

#include "metrics/receipt_fixture.h"
#include "test.h"

enum { place_count = 64, step_count = 20000, list_max = 100 };

struct note {
    uint64_t serial;
    uint64_t number;
    uint32_t worker;
    uint32_t id;
    uint32_t cached; // by the shadow
    bool is_running;
};

// In the order of serials, the oldest first.
static struct note notes[place_count + 1];
static uint32_t note_count;
static uint64_t twin_serial;

static void take_out(uint32_t index)
{
    note_count--;
    memmove(&notes[index], &notes[index + 1], (note_count - index) * sizeof(notes[0]));
}

static void twin_put(struct note note)
{
    for (uint32_t i = 0; i < note_count; i++) {
        if (notes[i].worker == note.worker && notes[i].number == note.number) {
            if (note.is_running && !notes[i].is_running) {
                return;
            }
            take_out(i);
            break;
        }
    }
    note.serial = ++twin_serial;
    notes[note_count++] = note;
    if (note_count > place_count) {
        take_out(0);
    }
}

static struct slice id_text(uint32_t id, char text[32])
{
    int size = snprintf(text, 32, "request-%u", id);
    return slice_of(text, (size_t)size);
}

static void ring_put(struct decision_ring *ring, const struct note *note)
{
    struct decision_party rivals[decision_rival_max];
    struct fixture_receipt made;
    char text[32];
    struct receipt receipt = {.worker = note->worker,
                              .number = note->number,
                              .outcome = note->is_running ? RECEIPT_RUNNING : RECEIPT_OK,
                              .rival_count = (uint32_t)note->number % (decision_rival_max + 1)};

    memset(rivals, 0, sizeof(rivals));
    rivals[0].backend = note->number * 7;
    decision_ring_put(
        ring,
        receipt_make(&made, receipt, NULL,
                     (struct receipt_parts){.rivals = rivals, .id = id_text(note->id, text)}),
        &(struct chronicle_decision){.shadow_cached_tokens = note->cached});
}

static bool is_same(const struct chronicle_decision *decision, const struct note *note)
{
    struct receipt_parts parts;
    char text[32];
    receipt_parts(decision->receipt, &parts);
    return decision->serial == note->serial && decision->receipt->worker == note->worker &&
           decision->receipt->number == note->number &&
           decision->shadow_cached_tokens == note->cached &&
           (decision->receipt->outcome == RECEIPT_RUNNING) == note->is_running &&
           slice_equal(parts.id, id_text(note->id, text)) &&
           (decision->receipt->rival_count == 0 || parts.rivals[0].backend == note->number * 7);
}

static bool lists_are_same(const struct decision_ring *ring, uint64_t since, uint32_t most)
{
    struct chronicle_decision listed[list_max];
    uint32_t count = decision_ring_list(ring, since, listed, most);
    uint32_t expected = 0;

    for (uint32_t i = note_count; i > 0 && notes[i - 1].serial > since && expected < most; i--) {
        if (expected >= count || !is_same(&listed[expected], &notes[i - 1])) {
            return false;
        }
        expected++;
    }
    return count == expected;
}

static bool finds_are_same(const struct decision_ring *ring, uint32_t id)
{
    struct chronicle_decision found;
    char text[32];
    bool is_found = decision_ring_find(ring, id_text(id, text), &found);

    for (uint32_t i = note_count; i > 0; i--) {
        if (notes[i - 1].id == id) {
            return is_found && is_same(&found, &notes[i - 1]);
        }
    }
    return !is_found;
}

TEST(the_ring_and_the_twin_have_the_same_decisions_after_every_change)
{
    struct decision_ring *ring = decision_ring_create(place_count);
    struct rng rng = {3};

    for (uint32_t step = 0; step < step_count; step++) {
        // Requests are noted again after a while; ids are given twice now and then.
        uint32_t number = step / 3 - rng_below(&rng, 40) % (step / 3 + 1);
        struct note note = {.worker = rng_below(&rng, 3),
                            .number = number,
                            .id = number * 3 / 4,
                            .is_running = rng_below(&rng, 2) == 0,
                            .cached = step};
        twin_put(note);
        ring_put(ring, &note);
        uint64_t since = twin_serial - rng_below(&rng, 80) % (twin_serial + 1);
        CHECK(lists_are_same(ring, since, 1 + rng_below(&rng, list_max)));
        CHECK(finds_are_same(ring, number * 3 / 4));
        CHECK(finds_are_same(ring, rng_below(&rng, number + 100)));
    }
    CHECK(lists_are_same(ring, 0, list_max));
    decision_ring_destroy(&ring);
}

TEST(the_end_of_a_request_replaces_its_announcement_as_the_newest)
{
    struct decision_ring *ring = decision_ring_create(2);
    struct chronicle_decision listed[4];

    ring_put(ring, &(struct note){.worker = 1, .number = 8, .id = 1, .is_running = true});
    ring_put(ring, &(struct note){.worker = 2, .number = 8, .id = 2, .is_running = true});
    ring_put(ring, &(struct note){.worker = 1, .number = 8, .id = 1});
    CHECK_EQ(decision_ring_list(ring, 0, listed, 4), 2);
    CHECK_EQ(listed[0].serial, 3);
    CHECK_EQ(listed[0].receipt->worker, 1);
    CHECK_EQ(listed[0].receipt->outcome, RECEIPT_OK);
    CHECK_EQ(listed[1].receipt->worker, 2);
    CHECK_EQ(decision_ring_list(ring, 2, listed, 4), 1);
    CHECK_EQ(decision_ring_list(ring, 3, listed, 4), 0);
    decision_ring_destroy(&ring);
}

TEST(an_id_that_was_cut_is_found_by_its_beginning)
{
    struct decision_ring *ring = decision_ring_create(4);
    struct fixture_receipt made;
    struct chronicle_decision found;
    char text[receipt_text_max + 20];

    memset(text, 'x', sizeof(text));
    decision_ring_put(ring,
                      receipt_make(&made, (struct receipt){.number = 1}, NULL,
                                   (struct receipt_parts){.id = slice_of(text, receipt_text_max)}),
                      &(struct chronicle_decision){0});
    CHECK(decision_ring_find(ring, slice_of(text, sizeof(text)), &found));
    CHECK(!decision_ring_find(ring, slice_of(text, receipt_text_max - 1), &found));
    CHECK(!decision_ring_find(ring, slice_of(text, 0), &found));
    decision_ring_destroy(&ring);
}

TEST(a_ring_of_no_places_keeps_nothing)
{
    struct decision_ring *ring = decision_ring_create(0);
    struct chronicle_decision listed[1];

    ring_put(ring, &(struct note){.number = 1, .id = 1});
    CHECK_EQ(decision_ring_list(ring, 0, listed, 1), 0);
    CHECK(!decision_ring_find(ring, slice_str("request-1"), listed));
    decision_ring_destroy(&ring);
}
