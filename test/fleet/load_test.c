// SPDX-License-Identifier: Apache-2.0

#include "fleet/load.h"

#include "base/prefill_curve.h"
#include "base/rng.h"
#include "sys/thread.h"
#include "test.h"

#include <math.h>

static bool is_near(double actual, double expected, double percent)
{
    return fabs(actual - expected) <= expected * percent / 100;
}

static struct load_view read_at(const struct load *load, uint64_t now_ms)
{
    struct load_view view;
    load_read(load, now_ms, &view);
    return view;
}

TEST(a_request_is_queued_then_decodes_then_leaves_nothing)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 1000, .uncached_tokens = 300};

    load_begin(&load, &request, 1000);
    struct load_view view = read_at(&load, 1);
    CHECK_EQ(view.queued_tokens, 300);
    CHECK_EQ(view.context_tokens, 0);
    CHECK_EQ(view.requests, 1);
    CHECK_EQ(view.sequences, 0);

    load_output(&load, &request, 0, 20000);
    load_output(&load, &request, 0, 30000);
    load_output(&load, &request, 5, 40000);
    view = read_at(&load, 1);
    CHECK_EQ(view.queued_tokens, 0);
    CHECK_EQ(view.context_tokens, 1005);
    CHECK_EQ(view.requests, 1);
    CHECK_EQ(view.sequences, 1);
    CHECK_EQ(request.first_us, 20000);

    load_end(&load, &request);
    load_end(&load, &request);
    load_output(&load, &request, 7, 50000);
    view = read_at(&load, 1);
    CHECK_EQ(view.queued_tokens, 0);
    CHECK_EQ(view.context_tokens, 0);
    CHECK_EQ(view.requests, 0);
    CHECK_EQ(view.sequences, 0);
}

TEST(output_implies_the_first_token)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 100, .uncached_tokens = 100};
    load_begin(&load, &request, 1000);
    load_output(&load, &request, 1, 9000);
    CHECK_EQ(request.first_us, 9000);
    CHECK_EQ(read_at(&load, 1).queued_tokens, 0);
    CHECK_EQ(read_at(&load, 1).context_tokens, 101);
}

TEST(a_request_that_never_began_changes_nothing)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 100, .uncached_tokens = 100};
    load_output(&load, &request, 0, 1);
    load_output(&load, &request, 3, 2);
    load_end(&load, &request);
    CHECK_EQ(read_at(&load, 1).requests, 0);
    CHECK_EQ(read_at(&load, 1).context_tokens, 0);
}

TEST(a_request_that_ends_without_a_token_takes_its_queue_back)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = UINT32_MAX, .uncached_tokens = UINT32_MAX};
    struct load_request other = {.prompt_tokens = 10, .uncached_tokens = 10};
    load_begin(&load, &request, 1);
    load_begin(&load, &other, 1);
    CHECK_EQ(other.ahead_tokens, UINT32_MAX);
    load_end(&load, &request);
    CHECK_EQ(read_at(&load, 1).queued_tokens, 10);
    CHECK_EQ(read_at(&load, 1).requests, 1);
}

// The twin: what the counters must say is the sum over the requests that are there.
struct sums {
    uint64_t queued, context;
    uint32_t sequences, requests;
};

static void add_up(struct sums *sums, const struct load_request *request)
{
    if (request->is_counted) {
        sums->requests++;
        if (request->first_us == 0) {
            sums->queued += request->uncached_tokens;
        } else {
            sums->sequences++;
            sums->context += request->prompt_tokens + request->output_tokens;
        }
    }
}

static void random_act(struct load *load, struct load_request *request, uint64_t now_us,
                       struct rng *rng)
{
    if (!request->is_counted) {
        uint32_t prompt = rng_below(rng, 5000);
        *request = (struct load_request){.prompt_tokens = prompt,
                                         .uncached_tokens = rng_below(rng, prompt + 1)};
        load_begin(load, request, now_us);
        return;
    }
    switch (rng_below(rng, 4)) {
    case 0:
        load_output(load, request, 0, now_us);
        break;
    case 1:
        load_end(load, request);
        break;
    default:
        load_output(load, request, rng_below(rng, 20), now_us);
    }
}

TEST(counters_equal_the_sum_of_the_requests_at_every_moment)
{
    enum { request_count = 40 };
    struct rng rng = {.state = 3};
    struct load load;
    load_init(&load);
    struct load_request requests[request_count] = {0};

    for (uint64_t now_us = 1; now_us < 20000; now_us++) {
        random_act(&load, &requests[rng_below(&rng, request_count)], now_us, &rng);
        struct sums sums = {0};
        for (int i = 0; i < request_count; i++) {
            add_up(&sums, &requests[i]);
        }
        struct load_view view = read_at(&load, 1);
        CHECK_EQ(view.queued_tokens, sums.queued);
        CHECK_EQ(view.context_tokens, sums.context);
        CHECK_EQ(view.sequences, sums.sequences);
        CHECK_EQ(view.requests, sums.requests);
    }
}

struct crowd {
    struct load *load;
    uint64_t seed;
};

static void run_crowd(void *owner)
{
    const struct crowd *crowd = owner;
    struct rng rng = {.state = crowd->seed};
    struct load_request requests[16] = {0};
    for (uint64_t now_us = 1; now_us < 20000; now_us++) {
        random_act(crowd->load, &requests[rng_below(&rng, 16)], now_us, &rng);
        struct load_view view;
        load_read(crowd->load, now_us / 1000, &view);
        ASSERT(view.queued_tokens <= INT64_MAX && view.context_tokens <= INT64_MAX);
        ASSERT(view.prefill_ms > 0 && view.step_ms > 0);
    }
    for (int i = 0; i < 16; i++) {
        load_end(crowd->load, &requests[i]);
    }
}

TEST(four_threads_leave_all_counters_at_zero)
{
    struct load load;
    load_init(&load);
    struct thread *threads[4] = {0};
    struct crowd crowds[4];
    for (uint64_t i = 0; i < 4; i++) {
        crowds[i] = (struct crowd){.load = &load, .seed = i};
        CHECK(thread_start("crowd", run_crowd, &crowds[i], &threads[i]) == STATUS_OK);
    }
    for (int i = 0; i < 4; i++) {
        thread_join(&threads[i]);
    }
    struct load_view view = read_at(&load, 1);
    CHECK_EQ(view.queued_tokens, 0);
    CHECK_EQ(view.context_tokens, 0);
    CHECK_EQ(view.sequences, 0);
    CHECK_EQ(view.requests, 0);
}

// One prompt alone on an engine of these speeds; noise multiplies its time.
static void show_prefill(struct load *load, float token_ms, uint32_t cached, uint32_t uncached,
                         float noise)
{
    struct load_request request = {.prompt_tokens = cached + uncached, .uncached_tokens = uncached};
    float step_ms = read_at(load, 1).step_ms;
    load_begin(load, &request, 1000000);
    float ms = prefill_curve_ms(token_ms, step_ms, (float)cached, (float)uncached) * noise;
    load_output(load, &request, 0, 1000000 + (uint64_t)(ms * 1000));
    load_end(load, &request);
}

static void show_step(struct load *load, float step_ms)
{
    struct load_request request = {.prompt_tokens = 10, .uncached_tokens = 10};
    load_begin(load, &request, 1000);
    load_output(load, &request, 1, 2000);
    load_output(load, &request, 10, 2000 + (uint64_t)(step_ms * 10 * 1000));
    load_end(load, &request);
}

TEST(shipped_speeds_hold_until_something_is_learned)
{
    struct load load;
    load_init(&load);
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.0239, 1));
    CHECK(is_near(read_at(&load, 1).step_ms, 5.3, 1));
    CHECK(!read_at(&load, 1).speed_is_learned);
    show_prefill(&load, 0.1F, 0, 4000, 1);
    CHECK(read_at(&load, 1).speed_is_learned);
}

TEST(eight_samples_find_a_speed_thirty_times_off)
{
    static const float factors[] = {1.0F / 30, 0.5F, 1, 3, 30};
    for (size_t i = 0; i < ARRAY_COUNT(factors); i++) {
        struct load load;
        load_init(&load);
        float token_ms = 0.0239F * factors[i];
        float step_ms = 5.3F * factors[i];
        struct rng rng = {.state = i};
        for (int sample = 0; sample < 8; sample++) {
            show_step(&load, step_ms * (0.9F + 0.2F * (float)rng_below(&rng, 100) / 100));
            show_prefill(&load, token_ms, 2000, 6000,
                         1.0F + 0.2F * (float)rng_below(&rng, 100) / 100);
        }
        CHECK(is_near(read_at(&load, 1).prefill_ms, token_ms, 20));
        CHECK(is_near(read_at(&load, 1).step_ms, step_ms, 20));
    }
}

// Shows a prompt at that speed, sent when the decision counted on `expected`.
static void show_expected(struct load *load, float token_ms, float expected)
{
    struct load_request request = {.prompt_tokens = 5000,
                                   .uncached_tokens = 5000,
                                   .expected_prefill_ms = expected,
                                   .expected_step_ms = expected * PREFILL_STEP_TOKENS};
    float step_ms = read_at(load, 1).step_ms;
    load_begin(load, &request, 1000000);
    uint64_t first_us = 1000000 + (uint64_t)(prefill_curve_ms(token_ms, step_ms, 0, 5000) * 1000);
    load_output(load, &request, 1, first_us);
    load_end(load, &request);
}

static void learn_speed(struct load *load, float token_ms)
{
    load_init(load);
    for (int sample = 0; sample < 100; sample++) {
        show_prefill(load, token_ms, 0, 5000, 1);
        show_step(load, token_ms * PREFILL_STEP_TOKENS);
    }
    ASSERT(is_near(read_at(load, 1).prefill_ms, token_ms, 5));
}

TEST(two_samples_show_that_a_slow_backend_is_well_when_the_decision_expected_it)
{
    struct load load;
    learn_speed(&load, 0.8F);
    show_expected(&load, 0.04F, 0.08F);
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.08, 5));
    show_expected(&load, 0.04F, 0.08F);
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.04, 20));
}

TEST(a_backend_that_stays_slow_keeps_its_speed_whatever_was_expected)
{
    struct load load;
    learn_speed(&load, 0.8F);
    for (int sample = 0; sample < 5; sample++) {
        show_expected(&load, 0.8F, 0.08F);
        CHECK(is_near(read_at(&load, 1).prefill_ms, 0.8, 10));
    }
}

// As at one request a minute, where each meets an old speed.
TEST(a_sample_beyond_what_was_expected_moves_the_speed_by_a_short_step)
{
    static const float absurd[] = {100, 0.01F};
    for (size_t i = 0; i < ARRAY_COUNT(absurd); i++) {
        struct load load;
        learn_speed(&load, 0.04F);
        show_expected(&load, 0.04F * absurd[i], 0.04F);
        CHECK(is_near(read_at(&load, 1).prefill_ms, 0.04, 10));
        // No further than to the pool's speed, which counts for as much by then.
        show_expected(&load, 0.04F * absurd[i], 0.05F);
        CHECK(is_near(read_at(&load, 1).prefill_ms, 0.045, 20));
    }
}

TEST(a_wrong_long_step_is_repaired_by_the_next_six_samples)
{
    struct load load;
    learn_speed(&load, 0.8F);
    show_expected(&load, 0.0001F, 0.08F);
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.08, 5));
    for (int sample = 0; sample < 6; sample++) {
        show_expected(&load, 0.8F, 0);
    }
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.8, 25));
}

TEST(only_the_first_step_of_a_response_counts_on_the_expected_speed)
{
    struct load load;
    learn_speed(&load, 1);
    float slow_ms = read_at(&load, 1).step_ms;
    struct load_request request = {
        .prompt_tokens = 10, .uncached_tokens = 10, .expected_step_ms = slow_ms / 4};
    load_begin(&load, &request, 1000);
    load_output(&load, &request, 1, 2000);
    load_output(&load, &request, 10, 2000 + (uint64_t)(slow_ms * 10000));
    CHECK(is_near(read_at(&load, 1).step_ms, (double)slow_ms, 5));
    load_output(&load, &request, 10, 2000 + (uint64_t)(slow_ms * 12000));
    CHECK(is_near(read_at(&load, 1).step_ms, (double)slow_ms, 10));
    load_end(&load, &request);
}

TEST(a_speed_is_as_old_as_its_last_sample)
{
    struct load load;
    load_init(&load);
    show_prefill(&load, 0.1F, 0, 5000, 1); // at about 1.5 s
    uint32_t first_ms = read_at(&load, 10000).prefill_age_ms;
    CHECK(first_ms > 8000 && first_ms < 9000);
    CHECK_EQ(read_at(&load, 10000).step_age_ms, first_ms); // follows from that of prefill
    CHECK_EQ(read_at(&load, 1000).prefill_age_ms, 0);      // another thread's clock
    show_step(&load, 8);                                   // at 82 ms
    CHECK_EQ(read_at(&load, 10000).step_age_ms, 10000 - 82);
    CHECK_EQ(read_at(&load, 10000).prefill_age_ms, first_ms);
}

TEST(presence_counts_from_the_first_decision)
{
    struct load load;
    load_init(&load);
    CHECK(load_presence(&load, 50000) == 0);
    CHECK(is_near((double)load_presence(&load, 50000 + load_recent_ms), 5.0 / 9, 1));
    CHECK(load_presence(&load, 50000 + 100 * load_recent_ms) > 0.99F);
    CHECK(load_presence(&load, 49999) == 0); // another thread's clock
}

TEST(a_speed_lives_for_seconds_or_for_some_requests_whichever_is_longer)
{
    CHECK(load_speed_life_ms(0) == load_speed_ms);
    CHECK(load_speed_life_ms(1) == load_speed_ms);
    CHECK(is_near(load_speed_life_ms(1.0F / 60000), load_speed_requests * 60000, 1));
    CHECK(load_trust(load_speed_fresh_ms, load_speed_ms) == 1);
    CHECK(is_near((double)load_trust(load_speed_fresh_ms + 12500, load_speed_ms), 0.5, 2));
    CHECK(load_trust(UINT32_MAX, load_speed_ms) > 0);
}

TEST(an_absurd_first_sample_is_repaired_by_the_next_ten)
{
    static const float absurd[] = {1000, 0.001F};
    for (size_t i = 0; i < ARRAY_COUNT(absurd); i++) {
        struct load load;
        load_init(&load);
        for (int sample = 0; sample < 11; sample++) {
            float noise = sample == 0 ? absurd[i] : 1;
            show_prefill(&load, 0.05F, 0, 5000, noise);
            show_step(&load, 10 * noise);
        }
        CHECK(is_near(read_at(&load, 1).prefill_ms, 0.05, 20));
        CHECK(is_near(read_at(&load, 1).step_ms, 10, 20));
    }
}

TEST(an_engine_that_changes_speed_is_followed_in_fifty_samples)
{
    static const float factors[] = {3, 1.0F / 3};
    for (size_t i = 0; i < ARRAY_COUNT(factors); i++) {
        struct load load;
        load_init(&load);
        for (int sample = 0; sample < 500; sample++) {
            show_prefill(&load, 0.02F, 0, 5000, 1);
            show_step(&load, 8);
        }
        for (int sample = 0; sample < 50; sample++) {
            show_prefill(&load, 0.02F * factors[i], 0, 5000, 1);
            show_step(&load, 8 * factors[i]);
        }
        CHECK(is_near(read_at(&load, 1).prefill_ms, 0.02F * factors[i], 20));
        CHECK(is_near(read_at(&load, 1).step_ms, 8 * factors[i], 20));
    }
}

// One sample in ten is absurd, long or short.
static void show_with_absurd_ones(struct load *load, struct rng *rng)
{
    float noise = 0.95F + 0.1F * (float)rng_below(rng, 100) / 100;
    if (rng_below(rng, 10) == 0) {
        noise = rng_below(rng, 2) == 0 ? 1000 : 0.001F;
    }
    show_prefill(load, 0.05F, 0, 5000, noise);
    show_step(load, 10 * noise);
}

TEST(absurd_samples_hardly_move_a_learned_speed)
{
    enum { samples = 2000 };
    struct rng rng = {.state = 9};
    struct load load;
    load_init(&load);
    for (int sample = 0; sample < 100; sample++) {
        show_with_absurd_ones(&load, &rng);
    }
    double prefill_sum = 0;
    double step_sum = 0;
    for (int sample = 0; sample < samples; sample++) {
        show_with_absurd_ones(&load, &rng);
        struct load_view view = read_at(&load, 1);
        // The worst moment, where several came together.
        CHECK(is_near(view.prefill_ms, 0.05, 15));
        CHECK(is_near(view.step_ms, 10, 10));
        prefill_sum += (double)view.prefill_ms;
        step_sum += (double)view.step_ms;
    }
    CHECK(is_near(prefill_sum / samples, 0.05, 5));
    CHECK(is_near(step_sum / samples, 10, 3));
}

// Half of the requests wait in queues that others fill: the quantile is that of those who did not.
TEST(waits_that_are_not_ours_do_not_count_as_slowness)
{
    struct rng rng = {.state = 5};
    struct load load;
    load_init(&load);
    for (int sample = 0; sample < 400; sample++) {
        show_prefill(&load, 0.05F, 0, 5000, rng_below(&rng, 2) == 0 ? 1 : 4);
    }
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.05, 15));
}

TEST(work_queued_in_front_is_part_of_the_wait)
{
    struct load load;
    load_init(&load);
    for (int sample = 0; sample < 30; sample++) {
        struct load_request first = {.prompt_tokens = 3000, .uncached_tokens = 3000};
        struct load_request second = {.prompt_tokens = 1000, .uncached_tokens = 1000};
        load_begin(&load, &first, 1000);
        load_begin(&load, &second, 1000);
        CHECK_EQ(second.ahead_tokens, 3000);
        // 0.1 ms a token, and the attention of 3000 tokens to each other.
        load_output(&load, &first, 0, 1000 + 318750);
        load_output(&load, &second, 0, 1000 + 420833);
        load_end(&load, &first);
        load_end(&load, &second);
    }
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.1, 10));
}

TEST(work_that_other_routers_have_queued_in_front_is_part_of_the_wait)
{
    struct load load;
    load_init(&load);
    load_set_others(&load, &(struct load_others){.requests = 1, .queued_tokens = 3000});
    for (int sample = 0; sample < 30; sample++) {
        struct load_request request = {.prompt_tokens = 1000, .uncached_tokens = 1000};
        load_begin(&load, &request, 1000);
        CHECK_EQ(request.ahead_tokens, 3000);
        load_output(&load, &request, 0, 1000 + 420833);
        load_end(&load, &request);
    }
    CHECK(is_near(read_at(&load, 1).prefill_ms, 0.1, 10));
}

TEST(short_prompts_and_responses_in_one_piece_teach_no_prefill_speed)
{
    struct load load;
    load_init(&load);
    for (int sample = 0; sample < 20; sample++) {
        show_prefill(&load, 1, 5000, 20, 1);
        struct load_request request = {.prompt_tokens = 900, .uncached_tokens = 900};
        load_begin(&load, &request, 1000);
        load_output(&load, &request, 400, 9000000);
        load_end(&load, &request);
    }
    CHECK(!read_at(&load, 1).speed_is_learned);
}

TEST(tokens_that_arrive_in_bunches_give_the_same_step)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 10, .uncached_tokens = 10};
    load_begin(&load, &request, 1000);
    for (uint64_t bunch = 0; bunch < 60; bunch++) {
        for (int i = 0; i < 4; i++) {
            load_output(&load, &request, 1, 2000 + bunch * 80000);
        }
    }
    CHECK(is_near(read_at(&load, 1).step_ms, 20, 10));
}

TEST(a_clock_that_stands_or_runs_back_teaches_nothing)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 1000, .uncached_tokens = 1000};
    load_begin(&load, &request, 5000);
    load_output(&load, &request, 0, 5000);
    for (uint64_t i = 0; i < 40; i++) {
        load_output(&load, &request, 1, 4000 - i);
    }
    load_end(&load, &request);
    CHECK(!read_at(&load, 1).speed_is_learned);
    CHECK(is_near(read_at(&load, 1).step_ms, 5.3, 1));
}

TEST(an_assumed_first_token_moves_the_counters_and_teaches_nothing)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 3000, .uncached_tokens = 1000};
    load_begin(&load, &request, 1000);
    CHECK_EQ(read_at(&load, 1).queued_tokens, 1000);
    load_assume_first_token(&load, &request, 9000000);
    load_assume_first_token(&load, &request, 9500000);
    CHECK_EQ(read_at(&load, 1).queued_tokens, 0);
    CHECK_EQ(read_at(&load, 1).context_tokens, 3000);
    CHECK_EQ(read_at(&load, 1).sequences, 1);
    CHECK(!read_at(&load, 1).speed_is_learned);
    load_end(&load, &request);
    CHECK_EQ(read_at(&load, 1).context_tokens, 0);
    CHECK_EQ(read_at(&load, 1).requests, 0);
}

TEST(a_report_tells_of_others_and_fades)
{
    struct load load;
    load_init(&load);
    struct load_request own[3] = {{.prompt_tokens = 1}, {.prompt_tokens = 1}, {.prompt_tokens = 1}};
    for (int i = 0; i < 3; i++) {
        load_begin(&load, &own[i], 1);
    }
    CHECK(read_at(&load, 5).waiting < 0);
    CHECK(read_at(&load, 5).kv_usage < 0);

    struct load_report report = {
        .running = 9, .waiting = 4, .kv_usage = 0.25F, .cache_tokens = 800000, .block_tokens = 16};
    load_report(&load, &report, 1000);
    struct load_view view = read_at(&load, 1000);
    CHECK(is_near(view.foreign_requests, 10, 1));
    CHECK(is_near(view.waiting, 4, 1));
    CHECK(is_near(view.kv_usage, 0.25, 1));
    CHECK_EQ(view.cache_tokens, 800000);

    // Ours that end later make no one else's.
    load_end(&load, &own[0]);
    view = read_at(&load, 1000 + load_report_life_ms / 2);
    CHECK(is_near(view.foreign_requests, 5, 1));
    CHECK(is_near(view.waiting, 2, 1));
    CHECK(is_near(view.kv_usage, 0.25, 1));

    view = read_at(&load, 1000 + load_report_life_ms);
    CHECK(view.foreign_requests == 0);
    CHECK(view.waiting < 0);
    CHECK(view.kv_usage < 0);
    CHECK_EQ(view.cache_tokens, 800000);

    // A report from a clock ahead of ours is a fresh one.
    CHECK(is_near(read_at(&load, 900).foreign_requests, 10, 1));
}

static void report_usage(struct load *load, float usage)
{
    load_report(load, &(struct load_report){-1, -1, usage, 100000, 16}, 1000);
}

static bool usage_is(const struct load *load, double expected)
{
    return is_near(read_at(load, 1000).kv_usage, expected, 1);
}

TEST(between_reports_memory_in_use_moves_with_our_own_tokens)
{
    struct load load;
    load_init(&load);
    struct load_request first = {.prompt_tokens = 1000, .uncached_tokens = 1000};
    struct load_request more = {.prompt_tokens = 3000, .uncached_tokens = 500};
    load_begin(&load, &first, 1000);
    load_output(&load, &first, 0, 2000);
    report_usage(&load, 0.2F);
    CHECK(usage_is(&load, 0.2));

    // Of what waits only what is not cached will take room.
    load_begin(&load, &more, 3000);
    CHECK(usage_is(&load, 0.3));
    load_output(&load, &first, 100, 4000);
    CHECK(usage_is(&load, 0.32));
    load_end(&load, &more);
    CHECK(usage_is(&load, 0.22));
    load_end(&load, &first);
    CHECK(read_at(&load, 1000).kv_usage == 0);

    // A new report is right, whatever was before it.
    report_usage(&load, 0.7F);
    CHECK(usage_is(&load, 0.7));
}

TEST(the_change_of_usage_by_our_own_tokens_is_bounded)
{
    struct load load;
    load_init(&load);
    struct load_request few = {.prompt_tokens = 10, .uncached_tokens = 10};
    struct load_request many = {.prompt_tokens = 50000, .uncached_tokens = 50000};
    load_begin(&load, &few, 1000);
    report_usage(&load, 0.1F);
    load_begin(&load, &many, 2000);
    CHECK(usage_is(&load, 0.4));
    report_usage(&load, 0.6F);
    struct load_request again = many;
    again.is_counted = false;
    load_begin(&load, &again, 3000);
    CHECK(read_at(&load, 1000).kv_usage == 1);
}

TEST(without_tokens_of_ours_the_reported_usage_stands)
{
    struct load load;
    load_init(&load);
    struct load_request request = {.prompt_tokens = 500, .uncached_tokens = 500};
    report_usage(&load, 0.5F);
    load_begin(&load, &request, 1000);
    CHECK(usage_is(&load, 0.5));
    report_usage(&load, 0);
    load_output(&load, &request, 500, 2000);
    CHECK(read_at(&load, 1000).kv_usage == 0);
    report_usage(&load, -1);
    load_output(&load, &request, 500, 3000);
    CHECK(read_at(&load, 1000).kv_usage < 0);
    load_end(&load, &request);
    CHECK(read_at(&load, 1000).kv_usage < 0);
}

TEST(missing_and_invalid_values_of_a_report_are_unknown)
{
    struct load load;
    load_init(&load);
    load_report(&load, &(struct load_report){5, 5, 0.5F, 1000, 16}, 0);
    CHECK(read_at(&load, 0).foreign_requests == 10);
    load_report(&load, &(struct load_report){-1, -1, -1, -1, -1}, 10);
    struct load_view view = read_at(&load, 10);
    CHECK(view.foreign_requests == 0 && view.waiting < 0 && view.kv_usage < 0);
    CHECK_EQ(view.cache_tokens, 1000);
    load_report(&load, &(struct load_report){NAN, NAN, NAN, (double)NAN, (double)NAN}, 20);
    view = read_at(&load, 20);
    CHECK(view.foreign_requests == 0 && view.waiting < 0 && view.kv_usage < 0);
    CHECK_EQ(view.cache_tokens, 1000);
    load_report(&load, &(struct load_report){1, 0, 40, 2000, 16}, 30);
    CHECK(read_at(&load, 30).kv_usage == 1);
    CHECK_EQ(read_at(&load, 30).cache_tokens, 2000);
}

// Rows of a measurement on one H200: cached tokens, new tokens, ms.
TEST(the_curve_is_within_a_quarter_of_the_measurements)
{
    struct row {
        float token_ms, step_ms;
        uint64_t cached, uncached;
        double ms;
    };
    static const struct row rows[] = {
        {0.0239F, 5.3F, 0, 16, 5.29},       {0.0239F, 5.3F, 0, 256, 7.81},
        {0.0239F, 5.3F, 0, 1024, 25},       {0.0239F, 5.3F, 0, 4096, 106},
        {0.0239F, 5.3F, 0, 16384, 527},     {0.0239F, 5.3F, 4096, 4096, 137},
        {0.0239F, 5.3F, 16384, 8192, 432},  {0.0239F, 5.3F, 32768, 8192, 616},
        {0.0448F, 8.39F, 0, 4096, 186},     {0.0448F, 8.39F, 16384, 4096, 341},
        {0.1107F, 18.6F, 4096, 4096, 526},  {0.1107F, 18.6F, 0, 16384, 2022},
        {0.1107F, 18.6F, 32768, 4096, 915},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        float ms =
            prefill_curve_ms(row->token_ms, row->step_ms, (float)row->cached, (float)row->uncached);
        CHECK(is_near(ms, row->ms, 25));
    }
    CHECK(prefill_curve_ms(1, 5, 100, 0) == 0);
}

TEST(the_block_size_of_events_goes_before_the_reported_one)
{
    struct load load;
    load_init(&load);
    CHECK_EQ(load_block_tokens(&load), 0);
    load_report(&load, &(struct load_report){.block_tokens = 16}, 1);
    CHECK_EQ(load_block_tokens(&load), 16);
    atomic_store(&load.told_block_tokens, 64);
    load_report(&load, &(struct load_report){.block_tokens = 32}, 2);
    CHECK_EQ(load_block_tokens(&load), 64);
}

TEST(the_load_of_other_routers_is_added_to_ours)
{
    struct load load;
    load_init(&load);
    struct load_request own = {.prompt_tokens = 100, .uncached_tokens = 60};
    load_begin(&load, &own, 1000);
    load_set_others(
        &load, &(struct load_others){
                   .requests = 3, .sequences = 2, .queued_tokens = 1000, .context_tokens = 7000});
    struct load_view view = read_at(&load, 1);
    CHECK_EQ(view.requests, 4);
    CHECK_EQ(view.sequences, 2);
    CHECK_EQ(view.queued_tokens, 1060);
    CHECK_EQ(view.context_tokens, 7000);
    load_set_others(&load, &(struct load_others){0});
    load_end(&load, &own);
    view = read_at(&load, 1);
    CHECK_EQ(view.requests, 0);
    CHECK_EQ(view.queued_tokens, 0);
}

TEST(tokens_of_others_beyond_all_numbers_are_many)
{
    struct load load;
    load_init(&load);
    load_set_others(
        &load, &(struct load_others){.queued_tokens = UINT64_MAX, .context_tokens = 1ULL << 32});
    CHECK_EQ(read_at(&load, 1).queued_tokens, UINT32_MAX);
    CHECK_EQ(read_at(&load, 1).context_tokens, UINT32_MAX);
}

// Under UBSan: a sum with ours must not overflow.
TEST(requests_of_others_beyond_all_numbers_are_many)
{
    struct load load;
    load_init(&load);
    struct load_request own = {.prompt_tokens = 100, .uncached_tokens = 60};
    load_begin(&load, &own, 1000);
    load_set_others(&load, &(struct load_others){.requests = INT32_MAX, .sequences = UINT32_MAX});
    load_report(&load, &(struct load_report){.running = 3}, 1);
    CHECK(read_at(&load, 1).requests > 1000000);
    CHECK(read_at(&load, 1).requests <= INT32_MAX);
    CHECK(read_at(&load, 1).sequences > 1000000);
    CHECK(read_at(&load, 1).foreign_requests == 0);
    load_set_others(&load, &(struct load_others){0});
    CHECK_EQ(read_at(&load, 1).requests, 1);
    load_end(&load, &own);
}

TEST(only_requests_of_ours_await_their_first_token)
{
    struct load load;
    load_init(&load);
    load_set_others(&load, &(struct load_others){.requests = 3});
    CHECK(!read_at(&load, 1).awaits_first_token);
    struct load_request own = {.prompt_tokens = 100, .uncached_tokens = 60};
    load_begin(&load, &own, 1000);
    CHECK(read_at(&load, 1).awaits_first_token);
    load_output(&load, &own, 1, 2000);
    CHECK(!read_at(&load, 2).awaits_first_token);
    load_end(&load, &own);
    CHECK(!read_at(&load, 2).awaits_first_token);
}

TEST(requests_that_others_begin_are_recent_and_not_begun_by_us)
{
    struct load load;
    load_init(&load);
    load_note_begun(&load, 3, 900, 1000);
    struct load_view view = read_at(&load, 1000);
    CHECK(is_near(view.recent_requests, 3, 1));
    CHECK(is_near(view.recent_tokens, 900, 1));
    CHECK(read_at(&load, 1000 + load_recent_ms).recent_requests < 2);
    CHECK_EQ(load.begun_requests, 0);
    struct load_request own = {.prompt_tokens = 100, .uncached_tokens = 60};
    load_begin(&load, &own, 1000000);
    CHECK_EQ(load.begun_requests, 1);
    CHECK_EQ(load.begun_tokens, 60);
    CHECK(is_near(read_at(&load, 1000).recent_requests, 4, 1));
    load_end(&load, &own);
    CHECK_EQ(load.begun_requests, 1);
}

TEST(requests_of_other_routers_are_not_of_other_clients)
{
    struct load load;
    load_init(&load);
    load_set_others(&load, &(struct load_others){.requests = 6});
    load_report(&load, &(struct load_report){.running = 9, .waiting = -1, .kv_usage = -1}, 1000);
    CHECK(is_near(read_at(&load, 1000).foreign_requests, 3, 1));
}
