// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_node.h"

#include "base/text.h"
#include "engine/kv_publisher.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

struct bench {
    struct profile profile;
    struct loop *loop;
    struct engine_node *node;
    struct kv_publisher *publisher;
    struct prompt_reader *reader;
    struct engine_job_rules rules;
    uint32_t told;
    uint32_t cancels; // the first so many that are told are cancelled at once
};

static void progress(void *owner, struct engine_job *job)
{
    struct bench *bench = owner;
    bench->told++;
    if (bench->cancels > 0) {
        bench->cancels--;
        engine_node_cancel(bench->node, job);
    }
}

static void open_bench_with(struct bench *bench, double speed, bool publishes)
{
    char error[kv_publisher_error_size];
    *bench = (struct bench){0};
    ASSERT(profile_find("codellama-13b", &bench->profile));
    ASSERT(loop_create(&bench->loop) == STATUS_OK);
    bench->reader = prompt_reader_create();
    if (publishes) {
        ASSERT(kv_publisher_create(&(struct kv_publisher_options){.loop = bench->loop,
                                                                  .host = "127.0.0.1",
                                                                  .block_tokens = 16},
                                   &bench->publisher, error) == STATUS_OK);
    }
    bench->node = engine_node_create(&(struct engine_node_options){.loop = bench->loop,
                                                                   .profile = &bench->profile,
                                                                   .speed = speed,
                                                                   .progress = progress,
                                                                   .owner = bench,
                                                                   .publisher = bench->publisher});
    ASSERT(bench->reader != NULL && bench->node != NULL);
    bench->rules = (struct engine_job_rules){
        .profile = &bench->profile,
        .models = {{.name = "m"}},
        .model_count = 1,
        .keeps_ids = publishes,
    };
    loop_turn(bench->loop, 0);
}

static void open_bench(struct bench *bench, double speed)
{
    open_bench_with(bench, speed, false);
}

static void close_bench(struct bench *bench)
{
    loop_turn(bench->loop, 0);
    engine_node_destroy(&bench->node);
    kv_publisher_destroy(&bench->publisher);
    loop_turn(bench->loop, 0);
    prompt_reader_destroy(&bench->reader);
    loop_destroy(&bench->loop);
}

// A prompt of so many tokens, all of the same letter.
static struct engine_job *make_job(struct bench *bench, char letter, uint32_t tokens,
                                   uint32_t output)
{
    static char body[1 << 16];
    struct text text = text_over(body, sizeof(body));
    struct engine_refusal refusal;
    text_add_str(&text, "{\"prompt\":\"");
    for (uint32_t i = 0; i < 4 * tokens; i++) {
        text_add(&text, slice_of(&letter, 1));
    }
    text_add_format(&text, "\",\"max_tokens\":%u}", output);
    ASSERT(!text.overflow);
    struct engine_job *job =
        engine_job_read(&bench->rules, engine_node_engine(bench->node), bench->reader,
                        PROMPT_COMPLETION, text_slice(&text), &refusal);
    ASSERT(job != NULL);
    return job;
}

static void run_until_done(struct bench *bench, const struct engine_job *job)
{
    while (!job->is_done) {
        loop_turn(bench->loop, 1000);
    }
}

// Ms from its arrival to its first token, by the clock of the engine.
static double first_ms(const struct engine_job *job)
{
    return (job->first_us - job->arrived_us) / 1000;
}

static double last_ms(const struct engine_job *job)
{
    return (job->last_us - job->arrived_us) / 1000;
}

// Submits, runs and destroys it; returns ms to the first token.
static double time_one(struct bench *bench, char letter, uint32_t tokens)
{
    struct engine_job *job = make_job(bench, letter, tokens, 1);
    engine_node_submit(bench->node, job);
    run_until_done(bench, job);
    double ms = first_ms(job);
    engine_job_destroy(&job);
    return ms;
}

TEST(a_prompt_takes_as_long_as_the_model_says)
{
    struct bench bench;
    open_bench(&bench, 1);
    double expected = step_prefill_ms(&bench.profile.step, 0, 1000, bench.profile.step_tokens);
    struct engine_job *job = make_job(&bench, 'a', 1000, 2);
    // It arrives when the turn of the loop began, however long ago that is.
    uint64_t began_us = loop_now_us(bench.loop);
    engine_node_submit(bench.node, job);
    run_until_done(&bench, job);
    double took_ms = (double)clock_monotonic_ns() / 1e6 - (double)began_us / 1e3;
    CHECK(fabs(first_ms(job) - expected) < 0.01);
    CHECK(last_ms(job) > first_ms(job) + 5);
    CHECK(took_ms >= last_ms(job) - 1);
    CHECK(bench.told == 1 || bench.told == 2); // both at once when we were late
    engine_job_destroy(&job);
    close_bench(&bench);
}

TEST(lateness_does_not_add_up)
{
    struct bench bench;
    struct bench punctual;
    open_bench(&bench, 4);
    open_bench(&punctual, 4);
    struct engine_job *late = make_job(&bench, 'a', 16, 20);
    struct engine_job *other = make_job(&punctual, 'a', 16, 20);
    engine_node_submit(punctual.node, other);
    run_until_done(&punctual, other);
    engine_node_submit(bench.node, late);
    // The process does something else for longer than all twenty tokens take.
    uint64_t until_ns = clock_monotonic_ns() + 80000000;
    while (clock_monotonic_ns() < until_ns) {
    }
    loop_turn(bench.loop, 1000);
    CHECK(late->is_done);
    CHECK_EQ(bench.told, 1); // once, although there was more to tell
    CHECK(fabs(last_ms(late) - last_ms(other)) < 0.01);
    engine_job_destroy(&late);
    engine_job_destroy(&other);
    close_bench(&bench);
    close_bench(&punctual);
}

TEST(speed_and_slowness_divide_and_multiply)
{
    struct bench bench;
    open_bench(&bench, 10);
    double expected = step_prefill_ms(&bench.profile.step, 0, 500, bench.profile.step_tokens);
    CHECK(fabs(time_one(&bench, 'a', 500) - expected / 10) < 0.01);
    engine_node_slow_down(bench.node, 3);
    CHECK(fabs(time_one(&bench, 'b', 500) - expected * 3 / 10) < 0.01);
    engine_node_slow_down(bench.node, 1);
    CHECK(fabs(time_one(&bench, 'c', 500) - expected / 10) < 0.01);
    close_bench(&bench);
}

TEST(a_repeated_prompt_is_cached_until_the_cache_is_flushed)
{
    struct bench bench;
    open_bench(&bench, 10);
    double cold = time_one(&bench, 'a', 1000);
    double warm = time_one(&bench, 'a', 1000);
    CHECK(warm < cold / 3);
    engine_node_flush(bench.node);
    CHECK(fabs(time_one(&bench, 'a', 1000) - cold) < 0.01);
    CHECK(time_one(&bench, 'a', 1000) < cold / 3);
    CHECK(engine_node_restart(bench.node));
    CHECK(fabs(time_one(&bench, 'a', 1000) - cold) < 0.01);
    close_bench(&bench);
}

TEST(a_freeze_puts_everything_off)
{
    struct bench bench;
    open_bench(&bench, 1);
    struct engine_job *job = make_job(&bench, 'a', 16, 2);
    double expected = step_prefill_ms(&bench.profile.step, 0, 16, bench.profile.step_tokens);
    engine_node_submit(bench.node, job);
    engine_node_freeze(bench.node, 30);
    run_until_done(&bench, job);
    CHECK(fabs(first_ms(job) - expected - 30) < 0.01);
    engine_job_destroy(&job);
    engine_node_freeze(bench.node, 30);
    double ms = time_one(&bench, 'b', 16);
    CHECK(ms > expected + 20 && ms < expected + 30.01);
    close_bench(&bench);
}

static double metric(const struct bench *bench, const char *name)
{
    static char page[32768];
    struct text text = text_over(page, sizeof(page) - 1);
    struct engine_metrics_rank rank;
    engine_node_measure(bench->node, &rank);
    engine_metrics_page_write(
        &(struct engine_metrics_page){
            .model = "m", .profile = &bench->profile, .ranks = &rank, .rank_count = 1},
        &text);
    ASSERT(!text.overflow);
    page[text.size] = '\0';
    const char *found = strstr(page, name);
    return found != NULL ? strtod(found + strlen(name), NULL) : -1;
}

#define METRIC(name, labels) "\nvllm:" name "{engine=\"0\"," labels "model_name=\"m\"} "

TEST(a_cancelled_job_makes_no_more_tokens)
{
    struct bench bench;
    open_bench(&bench, 10);
    struct engine_job *jobs[3];
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = make_job(&bench, (char)('a' + i), 100, 200);
        engine_node_submit(bench.node, jobs[i]);
    }
    engine_node_cancel(bench.node, jobs[0]); // in the middle of a step
    engine_node_cancel(bench.node, jobs[0]);
    bench.cancels = 1; // and another one when it is told of
    run_until_done(&bench, jobs[1]);
    run_until_done(&bench, jobs[2]);
    CHECK_EQ(jobs[0]->request.made_tokens, 0);
    uint32_t made[] = {jobs[1]->request.made_tokens, jobs[2]->request.made_tokens};
    CHECK((made[0] < 200) != (made[1] < 200));
    CHECK_EQ(metric(&bench, METRIC("request_success_total", "finished_reason=\"abort\",")), 2);
    CHECK_EQ(metric(&bench, METRIC("request_success_total", "finished_reason=\"length\",")), 1);
    CHECK_EQ(metric(&bench, METRIC("num_requests_running", "")), 0);
    for (uint32_t i = 0; i < 3; i++) {
        engine_job_destroy(&jobs[i]);
    }
    close_bench(&bench);
}

TEST(tokens_and_their_times_are_counted)
{
    struct bench bench;
    open_bench(&bench, 10);
    struct engine_job *job = make_job(&bench, 'a', 160, 10);
    engine_node_submit(bench.node, job);
    CHECK_EQ(metric(&bench, METRIC("num_requests_running", "")), 1);
    run_until_done(&bench, job);
    CHECK_EQ(metric(&bench, METRIC("prompt_tokens_total", "")), 160);
    CHECK_EQ(metric(&bench, METRIC("generation_tokens_total", "")), 10);
    CHECK_EQ(metric(&bench, METRIC("time_to_first_token_seconds_count", "")), 1);
    CHECK_EQ(metric(&bench, METRIC("inter_token_latency_seconds_count", "")), 9);
    CHECK_EQ(metric(&bench, METRIC("e2e_request_latency_seconds_count", "")), 1);
    double sum_s = metric(&bench, METRIC("e2e_request_latency_seconds_sum", ""));
    CHECK(fabs(sum_s * 1000 - last_ms(job)) < 0.01);
    engine_job_destroy(&job);
    CHECK(engine_node_restart(bench.node));
    CHECK_EQ(metric(&bench, METRIC("generation_tokens_total", "")), 0);
    CHECK_EQ(metric(&bench, METRIC("e2e_request_latency_seconds_count", "")), 0);
    close_bench(&bench);
}

static struct kv_publisher_status published(const struct bench *bench)
{
    struct kv_publisher_status status;
    kv_publisher_status(bench->publisher, &status);
    return status;
}

TEST(blocks_that_a_step_stores_are_published_when_it_ends)
{
    struct bench bench;
    open_bench_with(&bench, 10, true);
    // 20 blocks of a prompt are one batch; the 21st is whole when its 16th token is computed.
    struct engine_job *job = make_job(&bench, 'a', 321, 20);
    engine_node_submit(bench.node, job);
    CHECK_EQ(published(&bench).batch_count, 0);
    run_until_done(&bench, job);
    CHECK_EQ(published(&bench).batch_count, 2);
    engine_job_destroy(&job);
    // All of it is there already, but for its last block.
    (void)time_one(&bench, 'a', 321);
    CHECK_EQ(published(&bench).batch_count, 2);
    engine_node_flush(bench.node);
    CHECK_EQ(published(&bench).batch_count, 3);
    (void)time_one(&bench, 'a', 321);
    CHECK_EQ(published(&bench).next_sequence, 4);
    CHECK_EQ(published(&bench).lost_count, 0);
    CHECK(engine_node_restart(bench.node));
    CHECK_EQ(published(&bench).next_sequence, 0);
    close_bench(&bench);
}

TEST(a_prompt_of_more_blocks_than_are_told_at_once_is_told_whole)
{
    struct bench bench;
    open_bench_with(&bench, 100, true);
    bench.profile.step_tokens = 16000;
    CHECK(engine_node_restart(bench.node));
    (void)time_one(&bench, 'a', 12000);
    // 750 blocks with 16 ids each are at least so many bytes.
    CHECK_EQ(published(&bench).batch_count, 1);
    CHECK(published(&bench).log_size > (uint64_t)750 * (9 + 16 * 3));
    CHECK_EQ(published(&bench).lost_count, 0);
    close_bench(&bench);
}
