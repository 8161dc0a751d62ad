// SPDX-License-Identifier: Apache-2.0

#include "worker/poison_table.h"

#include "sys/thread.h"
#include "test.h"

static struct poison_table table;
static uint32_t other;

// Prompts that share a set: only the upper bits differ.
static uint64_t prompt(uint64_t number)
{
    return (number << 40) + 7;
}

static enum poison_verdict died(uint64_t number, uint64_t server, uint64_t now_s)
{
    struct poison_death death = {
        .prompt = prompt(number), .server = server, .epoch = poison_epoch(&table)};
    other = 0;
    return poison_note_death(&table, &death, now_s * 1000, &other);
}

static void begin(void)
{
    memset(&table, 0, sizeof(table));
}

TEST(a_prompt_is_poison_when_two_servers_died_of_it)
{
    begin();
    CHECK_EQ(died(1, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(1, 5, 101), POISON_UNPROVEN); // as often as it likes
    CHECK_EQ(died(2, 6, 102), POISON_UNPROVEN); // another prompt
    CHECK_EQ(died(1, 6, 103), POISON_PROVEN);
    CHECK_EQ(other, 5);
    CHECK_EQ(died(1, 5, 104), POISON_KNOWN);
    CHECK_EQ(died(1, 6, 105), POISON_KNOWN);
    CHECK_EQ(died(2, 6, 106), POISON_UNPROVEN);
}

TEST(a_request_that_died_twice_proves_it_alone)
{
    struct poison_death death = {.prompt = prompt(1), .server = 6, .earlier = 5};
    begin();
    CHECK_EQ(poison_note_death(&table, &death, 1000, &other), POISON_PROVEN);
    CHECK_EQ(other, 5);
    CHECK_EQ(died(1, 7, 1), POISON_KNOWN);

    // Two ranks of one server are one process.
    begin();
    death.earlier = 6;
    CHECK_EQ(poison_note_death(&table, &death, 1000, &other), POISON_UNPROVEN);
}

TEST(requests_that_are_older_than_the_proof_do_not_suffer_from_it)
{
    struct poison_death old = {.prompt = prompt(1), .server = 6, .epoch = 0};
    begin();
    CHECK_EQ(died(1, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(1, 6, 100), POISON_PROVEN);
    CHECK_EQ(poison_epoch(&table), 1);
    CHECK_EQ(poison_note_death(&table, &old, 100000, &other), POISON_UNPROVEN);
    CHECK_EQ(died(2, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(2, 6, 100), POISON_PROVEN);
    CHECK_EQ(poison_note_death(&table, &old, 100000, &other), POISON_UNPROVEN);
    old.epoch = 1;
    CHECK_EQ(poison_note_death(&table, &old, 100000, &other), POISON_KNOWN);

    // The epoch comes round.
    begin();
    atomic_store(&table.epoch, UINT32_MAX);
    CHECK_EQ(died(1, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(1, 6, 100), POISON_PROVEN);
    CHECK_EQ(died(1, 5, 100), POISON_KNOWN);
    old.epoch = UINT32_MAX;
    CHECK_EQ(poison_note_death(&table, &old, 100000, &other), POISON_UNPROVEN);
}

TEST(a_response_shows_that_a_prompt_is_harmless)
{
    begin();
    CHECK(!poison_awaits_response(&table, 100000));
    CHECK_EQ(died(1, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(2, 5, 100), POISON_UNPROVEN);
    CHECK(poison_awaits_response(&table, 99000));
    CHECK(poison_awaits_response(&table, 160000));
    CHECK(!poison_awaits_response(&table, 170000));
    poison_note_response(&table, prompt(1), 101000);
    CHECK_EQ(died(1, 6, 102), POISON_UNPROVEN);
    CHECK_EQ(died(1, 5, 103), POISON_UNPROVEN);
    CHECK_EQ(died(2, 6, 104), POISON_PROVEN);
    poison_note_response(&table, prompt(2), 105000);
    CHECK_EQ(died(2, 5, 106), POISON_UNPROVEN);
    CHECK_EQ(died(2, 6, 106), POISON_UNPROVEN);
    // Each response begins the minute anew; deaths do not.
    poison_note_response(&table, prompt(1), 150000);
    CHECK_EQ(died(1, 6, 200), POISON_UNPROVEN);
    CHECK_EQ(died(1, 5, 205), POISON_UNPROVEN);
    CHECK_EQ(died(1, 5, 212), POISON_UNPROVEN);
    CHECK_EQ(died(1, 6, 213), POISON_PROVEN);
    // Prompts without a death are not noted.
    poison_note_response(&table, prompt(3), 213000);
    CHECK_EQ(died(3, 5, 213), POISON_UNPROVEN);
    CHECK_EQ(died(3, 6, 213), POISON_PROVEN);
}

TEST(records_fade_when_nothing_dies_for_a_minute)
{
    begin();
    CHECK_EQ(died(1, 5, 1000), POISON_UNPROVEN);
    CHECK_EQ(died(1, 6, 1061), POISON_UNPROVEN);
    CHECK_EQ(died(1, 5, 1121), POISON_PROVEN);
    CHECK_EQ(died(1, 5, 1181), POISON_KNOWN);
    CHECK_EQ(died(1, 5, 1241), POISON_KNOWN); // each death begins the minute anew
    CHECK_EQ(died(1, 5, 1302), POISON_UNPROVEN);
}

TEST(a_clock_that_is_a_little_behind_and_the_end_of_its_range_change_nothing)
{
    static const uint64_t starts[] = {1, 32767, 32768, 3ULL << 30};
    for (size_t i = 0; i < ARRAY_COUNT(starts); i++) {
        begin();
        CHECK_EQ(died(1, 5, starts[i]), POISON_UNPROVEN);
        CHECK_EQ(died(1, 6, starts[i] - 1), POISON_PROVEN);
        CHECK_EQ(died(1, 6, starts[i] + 50), POISON_KNOWN);
    }
}

TEST(a_full_set_forgets_suspects_before_poison_and_old_ones_first)
{
    begin();
    CHECK_EQ(died(1, 5, 100), POISON_UNPROVEN);
    CHECK_EQ(died(1, 6, 100), POISON_PROVEN);
    for (uint64_t i = 2; i <= 5; i++) { // the last one takes the place of the first of these
        CHECK_EQ(died(i, 5, 100 + i), POISON_UNPROVEN);
    }
    CHECK_EQ(died(1, 5, 110), POISON_KNOWN);
    CHECK_EQ(died(4, 6, 110), POISON_PROVEN);
    CHECK_EQ(died(5, 6, 110), POISON_PROVEN);
    CHECK_EQ(died(3, 6, 110), POISON_PROVEN);
    // All four are poison: the oldest goes.
    CHECK_EQ(died(1, 5, 111), POISON_KNOWN);
    CHECK_EQ(died(4, 5, 112), POISON_KNOWN);
    CHECK_EQ(died(5, 5, 112), POISON_KNOWN);
    CHECK_EQ(died(2, 6, 113), POISON_UNPROVEN);
    CHECK_EQ(died(3, 6, 113), POISON_UNPROVEN);
}

TEST(sets_are_independent)
{
    begin();
    for (uint64_t i = 0; i < 256; i++) {
        struct poison_death death = {.prompt = (9ULL << 40) + i, .server = 5};
        CHECK_EQ(poison_note_death(&table, &death, 1000, &other), POISON_UNPROVEN);
    }
    for (uint64_t i = 0; i < 256; i++) {
        struct poison_death death = {.prompt = (9ULL << 40) + i, .server = 6};
        CHECK_EQ(poison_note_death(&table, &death, 1000, &other), POISON_PROVEN);
    }
}

enum { racer_count = 4, race_prompts = 200 };
static atomic_uint proofs[race_prompts];
static atomic_uint racers_ready;

// Every racer is a worker whose server, of two, dies of all prompts.
static void race(void *owner)
{
    uint64_t server = *(const uint64_t *)owner;
    atomic_fetch_add(&racers_ready, 1);
    while (atomic_load(&racers_ready) < racer_count) {
    }
    for (uint64_t i = 0; i < race_prompts; i++) {
        // Four to a set at the most, so that none is forgotten.
        struct poison_death death = {.prompt = ((i / 64 + 1) << 40) + i % 64, .server = server};
        uint32_t first = 0;
        if (poison_note_death(&table, &death, 1000, &first) == POISON_PROVEN) {
            atomic_fetch_add(&proofs[i], first == 3 - server ? 1 : 100);
        }
    }
}

TEST(of_deaths_at_the_same_time_exactly_one_proves_a_prompt)
{
    static uint64_t servers[] = {1, 2};
    struct thread *threads[racer_count];
    begin();
    for (uint32_t i = 0; i < racer_count; i++) {
        CHECK_EQ(thread_start("racer", race, &servers[i % 2], &threads[i]), STATUS_OK);
    }
    for (uint32_t i = 0; i < racer_count; i++) {
        thread_join(&threads[i]);
    }
    for (uint32_t i = 0; i < race_prompts; i++) {
        CHECK_EQ(atomic_load(&proofs[i]), 1);
    }
}
