// SPDX-License-Identifier: Apache-2.0

#include "admin/document/metrics_samples.h"

#include "admin/metrics_scene.h"
#include "metrics/meters_sum.h"
#include "test.h"

static struct metrics_scene scene;
static struct metrics_samples samples;

static void take(void)
{
    struct meters_sum *sum = meters_sum_open(scene.input.meters, scene.input.worker_count);
    bool is_taken = metrics_samples_take(&scene.input, sum, &samples);
    ASSERT(is_taken);
    meters_sum_close(&sum);
}

static void finish(void)
{
    metrics_samples_free(&samples);
    metrics_scene_close(&scene);
}

// Of a backend by its place in the fleet; -1: there is none.
static int64_t value(uint32_t position, enum metric metric)
{
    return (int64_t)samples.rows[1 + position].values[metric];
}

TEST(a_backend_says_how_it_is)
{
    metrics_scene_open(&scene);
    struct backend *first = fleet_at(scene.scene.fleet, 0);
    struct backend *second = fleet_at(scene.scene.fleet, 1);
    struct backend_rules rules = {
        .eject_failures = 1, .eject_time_ms = 1000, .eject_time_max_ms = 1000};
    uint64_t now_ms = scene.input.now_ms;

    fleet_set_draining(scene.scene.fleet, first, true);
    backend_set_probe(first, BACKEND_PROBE_DOWN, now_ms);
    backend_judge(second, BACKEND_FAULT, false, now_ms, &rules);
    backend_set_busy(second, now_ms + 1);
    take();
    CHECK_EQ(value(0, METRIC_BACKEND_UP), 0);
    CHECK_EQ(value(0, METRIC_BACKEND_PROBE_UP), 0);
    CHECK_EQ(value(0, METRIC_BACKEND_DRAINING), 1);
    CHECK_EQ(value(0, METRIC_BACKEND_EJECTED), 0);
    CHECK_EQ(value(1, METRIC_BACKEND_UP), 0);
    CHECK_EQ(value(1, METRIC_BACKEND_PROBE_UP), -1);
    CHECK_EQ(value(1, METRIC_BACKEND_EJECTED), 1);
    CHECK_EQ(value(1, METRIC_BACKEND_HALF_OPEN), 0);
    CHECK_EQ(value(1, METRIC_BACKEND_BUSY), 1);
    CHECK_EQ(value(1, METRIC_BACKEND_FAULTS), 1);
    CHECK_EQ(value(1, METRIC_BACKEND_WEIGHT), 3);
    metrics_samples_free(&samples);

    scene.input.now_ms += 1000;
    take();
    CHECK_EQ(value(1, METRIC_BACKEND_UP), 1);
    CHECK_EQ(value(1, METRIC_BACKEND_EJECTED), 0);
    CHECK_EQ(value(1, METRIC_BACKEND_HALF_OPEN), 1);
    CHECK_EQ(value(1, METRIC_BACKEND_BUSY), 0);
    finish();
}

TEST(values_not_learned_or_reported_are_left_out)
{
    static const enum metric unknown[] = {METRIC_BACKEND_PREFILL_RATE, METRIC_BACKEND_STEP,
                                          METRIC_BACKEND_CACHE_TOKENS, METRIC_BACKEND_KV_USAGE};
    metrics_scene_open(&scene);
    struct load *load = &fleet_at(scene.scene.fleet, 1)->load;
    uint64_t now_ms = scene.input.now_ms;

    load_report(
        load,
        &(struct load_report){.running = 3, .waiting = 0, .kv_usage = 0.25F, .cache_tokens = 4096},
        now_ms);
    atomic_store(&load->prefill_ms, 0.5F);
    atomic_store(&load->prefill_samples, 1);
    atomic_store(&load->step_ms, 20.0F);
    atomic_store(&load->step_samples, 1);
    take();
    for (size_t i = 0; i < ARRAY_COUNT(unknown); i++) {
        CHECK_EQ(value(0, unknown[i]), -1);
    }
    CHECK_EQ(value(1, METRIC_BACKEND_PREFILL_RATE), 2000000); // 2,000 tokens a second
    CHECK_EQ(value(1, METRIC_BACKEND_STEP), 20000);
    CHECK_EQ(value(1, METRIC_BACKEND_CACHE_TOKENS), 4096);
    CHECK_EQ(value(1, METRIC_BACKEND_KV_USAGE), 2500);
    CHECK_EQ(value(1, METRIC_BACKEND_FOREIGN), 3000);
    CHECK_EQ(value(0, METRIC_EVENTS_GAPS), 504);
    CHECK_EQ(value(1, METRIC_EVENTS_GAPS), -1);
    finish();
}

TEST(a_missing_source_gives_no_values)
{
    metrics_scene_open(&scene);
    scene.input = (struct metrics_page_input){.fleet = scene.scene.fleet};
    take();
    CHECK_EQ(samples.backend_count, 2);
    CHECK_EQ(samples.tokenizer_count, 0);
    CHECK_EQ(samples.rows[0].values[METRIC_WORKERS], 0);
    CHECK_EQ(samples.rows[0].values[METRIC_IN_FLIGHT], -1);
    CHECK_EQ(samples.rows[0].values[METRIC_PROCESS_CPU], -1);
    CHECK_EQ(value(0, METRIC_PROMPT_TOKENS), -1); // nobody counts, which is not nothing
    CHECK_EQ(value(0, METRIC_BACKEND_UP), 1);
    finish();
}
