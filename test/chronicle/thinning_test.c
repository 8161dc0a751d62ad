// SPDX-License-Identifier: Apache-2.0

#include "chronicle/thinning.h"

#include "test.h"

static uint64_t now_ms;

// So many seconds of so many receipts each.
static void pass(struct thinning *thinning, uint32_t seconds, uint32_t rate)
{
    for (uint32_t i = 0; i < seconds; i++) {
        for (uint32_t k = 0; k < rate; k++) {
            thinning_count(thinning);
        }
        now_ms += 1000;
        thinning_tick(thinning, now_ms);
    }
}

static struct thinning begin(void)
{
    struct thinning thinning = {0};
    now_ms = 1700000000000;
    thinning_tick(&thinning, now_ms);
    return thinning;
}

TEST(as_many_keys_are_left_out_as_the_last_second_needs_and_at_once)
{
    static const struct {
        uint32_t rate;
        uint32_t shift;
    } cases[] = {{0, 0}, {2000, 0}, {2001, 2}, {8000, 2}, {8001, 4}, {200000, 4}};

    for (uint32_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct thinning thinning = begin();
        pass(&thinning, 1, cases[i].rate);
        CHECK_EQ(thinning.keep_shift, cases[i].shift);
        CHECK_EQ(thinning.judge_shift, cases[i].shift);
    }
}

TEST(they_are_followed_again_after_a_minute_below_half_and_judged_by_five_minutes_later)
{
    struct thinning thinning = begin();

    pass(&thinning, 1, 9000);
    pass(&thinning, 59, 900);
    CHECK_EQ(thinning.keep_shift, 4);
    pass(&thinning, 1, 900);
    CHECK_EQ(thinning.keep_shift, 0);
    CHECK_EQ(thinning.judge_shift, 4);
    pass(&thinning, thinning_settle_s - 2, 900);
    CHECK_EQ(thinning.judge_shift, 4);
    pass(&thinning, 2, 900);
    CHECK_EQ(thinning.judge_shift, 0);
}

TEST(a_rate_that_goes_up_and_down_around_a_bound_changes_nothing)
{
    struct thinning thinning = begin();

    pass(&thinning, 1, 9000);
    for (uint32_t i = 0; i < 20; i++) {
        pass(&thinning, 50, 1000);
        pass(&thinning, 1, 4001);
        CHECK_EQ(thinning.keep_shift, 4);
        CHECK_EQ(thinning.judge_shift, 4);
    }
    // The busiest second of the minute counts.
    pass(&thinning, 30, 100);
    pass(&thinning, 1, 1500);
    pass(&thinning, 29, 100);
    CHECK_EQ(thinning.keep_shift, 2);
    CHECK_EQ(thinning.judge_shift, 4);
    // Up again while that settles.
    pass(&thinning, 1, 9000);
    CHECK_EQ(thinning.keep_shift, 4);
    CHECK_EQ(thinning.judge_shift, 4);
}

TEST(a_jump_of_the_clock_does_not_change_the_rate)
{
    struct thinning thinning = begin();

    thinning.count = 1000;
    now_ms -= 3600000;
    pass(&thinning, 1, 100);
    CHECK_EQ(thinning.keep_shift, 0);
    // Two looks at nearly the same time are one.
    thinning.count = 1000;
    thinning_tick(&thinning, now_ms + 1);
    CHECK_EQ(thinning.keep_shift, 0);
    CHECK_EQ(thinning.count, 1000);
    pass(&thinning, 1, 5000);
    CHECK_EQ(thinning.keep_shift, 2);
    // A jump of an hour does not count as a minute of calm.
    now_ms += 3600000;
    pass(&thinning, 1, 0);
    CHECK_EQ(thinning.keep_shift, 2);
}
