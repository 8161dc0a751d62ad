// SPDX-License-Identifier: Apache-2.0

#include "replica/life.h"

#include "base/rng.h"
#include "test.h"

enum { start_ms = 100000 };

TEST(a_backend_that_is_reached_all_the_time_has_one_life)
{
    struct life life = {.lives = 3};
    CHECK_EQ(life_count(&life, 3, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_prove(&life, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_hear(&life, 0, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_hear_output(&life, 0, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life.era, 0);
    CHECK(!life.is_out);
}

TEST(an_outage_ends_the_life_only_when_the_backend_responds_to_us)
{
    struct life life = {0};
    CHECK_EQ(life_count(&life, 1, start_ms), LIFE_GOES_ON);
    CHECK(life.is_out);
    CHECK_EQ(life.era, 0);
    CHECK_EQ(life_prove(&life, start_ms + 5000), LIFE_ENDED);
    CHECK(!life.is_out);
    CHECK_EQ(life.era, 1);
    CHECK_EQ(life_prove(&life, start_ms + 5001), LIFE_GOES_ON);
    CHECK_EQ(life.era, 1);
}

TEST(output_of_another_router_shows_that_we_were_cut_off)
{
    struct life life = {.era = 4};
    (void)life_count(&life, 1, start_ms);
    CHECK_EQ(life_hear_output(&life, 4, start_ms + life_grace_ms), LIFE_REJOINED);
    CHECK_EQ(life.era, 4);
    CHECK(!life.is_out);
    CHECK_EQ(life_prove(&life, start_ms + 1000), LIFE_GOES_ON);
    CHECK_EQ(life.era, 4);
}

TEST(output_within_the_grace_may_have_left_before_the_engine_died)
{
    struct life life = {0};
    (void)life_count(&life, 1, start_ms);
    CHECK_EQ(life_hear_output(&life, 0, start_ms + life_grace_ms - 1), LIFE_GOES_ON);
    CHECK(life.is_out);
    CHECK_EQ(life_prove(&life, start_ms + life_grace_ms), LIFE_ENDED);
}

TEST(output_of_another_era_proves_nothing)
{
    struct life life = {.era = 7};
    (void)life_count(&life, 1, start_ms);
    CHECK_EQ(life_hear_output(&life, 6, start_ms + 1000), LIFE_GOES_ON);
    CHECK_EQ(life_hear_output(&life, 8, start_ms + 1000), LIFE_GOES_ON);
    CHECK(life.is_out);
}

TEST(a_larger_era_ends_the_life_and_a_smaller_one_is_ignored)
{
    struct life life = {.era = 7};
    CHECK_EQ(life_hear(&life, 6, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_hear(&life, 7, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_hear(&life, 9, start_ms), LIFE_ENDED);
    CHECK_EQ(life.era, 9);
    CHECK_EQ(life_hear(&life, 9, start_ms), LIFE_GOES_ON);
}

TEST(routers_that_see_one_outage_move_the_era_once)
{
    struct life life = {0};
    CHECK_EQ(life_hear(&life, 1, start_ms), LIFE_ENDED);
    CHECK_EQ(life_count(&life, 1, start_ms + life_same_outage_ms - 1), LIFE_REJOINED);
    CHECK(!life.is_out);
    CHECK_EQ(life_prove(&life, start_ms + life_same_outage_ms), LIFE_GOES_ON);
    CHECK_EQ(life.era, 1);
    // Later it is another outage.
    CHECK_EQ(life_count(&life, 2, start_ms + life_same_outage_ms), LIFE_GOES_ON);
    CHECK(life.is_out);
}

TEST(an_era_that_is_heard_of_ends_our_outage)
{
    struct life life = {0};
    (void)life_count(&life, 1, start_ms);
    CHECK_EQ(life_hear(&life, 1, start_ms + 10), LIFE_ENDED);
    CHECK(!life.is_out);
    CHECK_EQ(life_prove(&life, start_ms + 20), LIFE_GOES_ON);
    CHECK_EQ(life.era, 1);
}

TEST(a_cache_is_emptied_at_most_once_in_ten_seconds)
{
    struct life life = {0};
    CHECK_EQ(life_empty(&life, start_ms), LIFE_ENDED);
    CHECK_EQ(life_empty(&life, start_ms + life_emptied_ms - 1), LIFE_GOES_ON);
    CHECK_EQ(life.era, 1);
    CHECK_EQ(life_empty(&life, start_ms + life_emptied_ms), LIFE_ENDED);
    CHECK_EQ(life.era, 2);
}

TEST(at_the_first_millisecond_of_the_clock_the_limits_hold_as_well)
{
    struct life life = {0};
    CHECK_EQ(life_empty(&life, 0), LIFE_ENDED);
    CHECK_EQ(life_empty(&life, 0), LIFE_GOES_ON);
    CHECK_EQ(life_count(&life, 1, 0), LIFE_REJOINED);
}

TEST(an_era_beyond_all_restarts_is_ignored)
{
    struct life life = {.era = 5};
    CHECK_EQ(life_hear(&life, UINT64_MAX, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life_hear(&life, 6 + LIFE_STEP_MAX, start_ms), LIFE_GOES_ON);
    CHECK_EQ(life.era, 5);
    CHECK_EQ(life_hear(&life, 5 + LIFE_STEP_MAX, start_ms), LIFE_ENDED);
    CHECK_EQ(life.era, 5 + LIFE_STEP_MAX);
}

TEST(the_last_era_stays)
{
    struct life life = {.era = UINT64_MAX};
    CHECK_EQ(life_empty(&life, start_ms), LIFE_ENDED);
    CHECK_EQ(life.era, UINT64_MAX);
    (void)life_count(&life, 1, start_ms + 60000);
    CHECK_EQ(life_prove(&life, start_ms + 60001), LIFE_ENDED);
    CHECK_EQ(life.era, UINT64_MAX);
}

// The register is a maximum: routers that hear of the same eras agree, whatever their order.
TEST(routers_that_hear_of_the_same_eras_agree)
{
    struct rng rng = {.state = 3};
    for (int round = 0; round < 1000; round++) {
        uint64_t eras[8];
        uint64_t largest = 0;
        struct life forward = {0};
        struct life backward = {0};
        for (uint32_t i = 0; i < 8; i++) {
            eras[i] = rng_below(&rng, 20);
            largest = eras[i] > largest ? eras[i] : largest;
        }
        for (uint32_t i = 0; i < 8; i++) {
            (void)life_hear(&forward, eras[i], start_ms + i);
            (void)life_hear(&backward, eras[7 - i], start_ms + i);
        }
        CHECK_EQ(forward.era, largest);
        CHECK_EQ(backward.era, largest);
    }
}

TEST(an_era_never_falls_and_moves_only_with_a_verdict)
{
    struct rng rng = {.state = 11};
    for (int round = 0; round < 200; round++) {
        struct life life = {0};
        uint64_t now_ms = 1;
        uint32_t lives = 0;
        for (int i = 0; i < 200; i++) {
            uint64_t era = life.era;
            enum life_verdict verdict = LIFE_GOES_ON;
            now_ms += rng_below(&rng, 4000);
            switch (rng_below(&rng, 5)) {
            case 0:
                lives += rng_below(&rng, 2);
                verdict = life_count(&life, lives, now_ms);
                break;
            case 1:
                verdict = life_prove(&life, now_ms);
                break;
            case 2:
                verdict = life_hear(&life, era + rng_below(&rng, 3) - 1, now_ms);
                break;
            case 3:
                verdict = life_hear_output(&life, era, now_ms);
                break;
            default:
                verdict = life_empty(&life, now_ms);
            }
            CHECK((life.era > era) == (verdict == LIFE_ENDED) || era == UINT64_MAX);
            CHECK(life.era >= era);
            CHECK(verdict == LIFE_GOES_ON || !life.is_out);
        }
    }
}
