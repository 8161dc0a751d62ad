// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_tally.h"

#include "test.h"

#include <math.h>

static struct drive_tally tally;
static struct drive_response answer;

// A request that was due 1 s into a run which began at 100 s.
static const struct work_item item = {.due_us = 1000000, .prompt_tokens = 50, .output_tokens = 9};
static const uint64_t begin_us = 100000000;
static const uint64_t due_us = 101000000;

static void begin(void)
{
    ASSERT(drive_tally_init(&tally));
    memset(&answer, 0, sizeof(answer));
    answer.status = 200;
    answer.first_us = due_us + 30000;
    answer.last_us = due_us + 90000;
    answer.token_events = 4;
}

static void end(bool counts)
{
    drive_tally_end(&tally, &(struct drive_ending){
                                .item = &item,
                                .response = &answer,
                                .counts = counts,
                                .begin_us = begin_us,
                                .sent_us = due_us + 20000,
                                .now_us = due_us + 100000,
                            });
}

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-6;
}

TEST(times_run_from_the_due_time_and_lateness_is_counted)
{
    struct figures figures;
    begin();
    end(true);
    drive_tally_sum(&tally, &figures);
    CHECK_EQ(figures.request_count, 1);
    CHECK(is_near(figures.ttft.p50, 30));
    CHECK(is_near(figures.e2e.p50, 90));
    CHECK(is_near(figures.tpot.p50, 20));
    CHECK_EQ(tally.late.max_ns, 20000000);
    drive_tally_fini(&tally);
}

TEST(warm_up_requests_do_not_count)
{
    struct figures figures;
    begin();
    end(false);
    answer.error = DRIVE_TIMEOUT;
    end(false);
    drive_tally_sum(&tally, &figures);
    CHECK_EQ(figures.request_count, 0);
    CHECK_EQ(figures.failed_count, 0);
    CHECK_EQ(tally.done, 2);
    CHECK_EQ(tally.all_errors, 1);
    CHECK_EQ(tally.late.count, 0);
    drive_tally_fini(&tally);
}

TEST(errors_are_counted_by_kind_and_statuses_by_code)
{
    struct figures figures;
    begin();
    answer.error = DRIVE_STATUS;
    answer.status = 503;
    end(true);
    end(true);
    answer.error = DRIVE_REFUSED;
    answer.status = 0;
    end(true);
    drive_tally_unsent(&tally, true);
    drive_tally_unsent(&tally, false);
    CHECK_EQ(tally.errors[DRIVE_STATUS], 2);
    CHECK_EQ(tally.statuses[503], 2);
    CHECK_EQ(tally.errors[DRIVE_REFUSED], 1);
    CHECK_EQ(tally.errors[DRIVE_UNSENT], 1);
    CHECK_EQ(tally.responded, 2);
    drive_tally_sum(&tally, &figures);
    CHECK_EQ(figures.failed_count, 4);
    CHECK_EQ(figures.request_count, 0);
    drive_tally_fini(&tally);
}

TEST(the_engines_own_counts_go_before_ours)
{
    begin();
    end(true);
    CHECK_EQ(tally.samples[0].prompt_tokens, 50);
    CHECK_EQ(tally.samples[0].output_tokens, 4);
    CHECK(!tally.knows_cached);
    answer.usage = (struct response_usage){.has_prompt_tokens = true,
                                           .has_cached_tokens = true,
                                           .prompt_tokens = 60,
                                           .cached_tokens = 32,
                                           .completion_tokens = 9};
    end(true);
    CHECK_EQ(tally.samples[1].prompt_tokens, 60);
    CHECK_EQ(tally.samples[1].cached_tokens, 32);
    CHECK_EQ(tally.samples[1].output_tokens, 9);
    CHECK(tally.knows_cached);
    drive_tally_fini(&tally);
}

TEST(backends_are_counted_by_name)
{
    struct figures figures;
    begin();
    end(true); // nobody said who
    snprintf(answer.backend, sizeof(answer.backend), "a");
    end(true);
    end(true);
    snprintf(answer.backend, sizeof(answer.backend), "b");
    end(true);
    CHECK_EQ(tally.backend_count, 2);
    CHECK_STR(tally.backends[0].name, "a");
    CHECK_EQ(tally.backends[0].requests, 2);
    CHECK_EQ(tally.backends[1].requests, 1);
    drive_tally_sum(&tally, &figures);
    CHECK(is_near(figures.balance, 2 / 1.5));
    CHECK(is_near(figures.request_balance, 2 / 1.5));
    drive_tally_fini(&tally);
}

TEST(more_backends_than_can_be_counted_are_not_known)
{
    begin();
    for (int i = 0; i < drive_backends_max + 10; i++) {
        snprintf(answer.backend, sizeof(answer.backend), "backend-%d", i);
        end(true);
    }
    CHECK_EQ(tally.backend_count, drive_backends_max);
    CHECK_EQ(tally.samples[drive_backends_max + 5].backend, UINT32_MAX);
    drive_tally_fini(&tally);
}

TEST(the_recent_median_leaves_older_requests_out)
{
    begin();
    CHECK(drive_tally_recent_ms(&tally, due_us) < 0);
    end(true);
    answer.first_us = due_us + 50000;
    end(true);
    end(false);
    CHECK(is_near(drive_tally_recent_ms(&tally, due_us + 200000), 50));
    CHECK(drive_tally_recent_ms(&tally, due_us + 200000 + drive_recent_us) < 0);
    drive_tally_fini(&tally);
}

TEST(a_response_without_a_token_ends_with_its_last_byte)
{
    begin();
    answer.first_us = 0;
    answer.last_us = 0;
    answer.token_events = 0;
    end(true);
    CHECK(is_near(tally.samples[0].first_ms, 100));
    CHECK(is_near(tally.samples[0].last_ms, 100));
    drive_tally_fini(&tally);
}
