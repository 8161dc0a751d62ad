// SPDX-License-Identifier: Apache-2.0
//
// bench_metrics -- what it costs to count a request, to write it down, and to show all that was
// counted; one figure a line.
//
//     $ bench_metrics --backends 1000 --workers 2 --rounds 15
//     {"case":"scrape_1000","metric":"p50_ms","value":2.1,"unit":"ms"}
//
// Every backend is busy: its KV events are heard, its speeds are learned, and both workers have
// sent it requests of two models with three outcomes.  Each page has its memory from malloc, as
// those of the admin API have; the first is the slowest, since the kernel has to give it.  Time is
// that of the thread on its core.

#include "admin/document/metrics_page.h"
#include "base/base.h"
#include "base/reclaim.h"
#include "base/text.h"
#include "feed/kv/kv_feeder.h"
#include "flags.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "metrics/access_line.h"
#include "metrics/meters.h"
#include "proxy/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { round_max = 999, worker_max = 64, model_count = 8, note_batch = 100000 };

static const char *const models[model_count] = {
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-V3.1",
    "openai/gpt-oss-120b",
    "mistral-small",
    "google/gemma-3-27b-it",
    "Qwen/Qwen3-Embedding-8B",
    "zai-org/GLM-4.6",
};

struct world {
    struct reclaim reclaim;
    struct fleet *fleet;
    struct meters *meters[worker_max];
    struct proxy_totals totals;
    struct knowledge_status known;
    struct prefix_ledger_usage ledger;
    struct process_figures process;
};

static struct world world;

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static double median(double *values, uint64_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void figure(const char *name, const char *metric, double value, const char *unit)
{
    printf("{\"case\":\"%s\",\"metric\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n", name, metric,
           value, unit);
    fflush(stdout);
}

static bool events(void *owner, uint64_t backend_id, struct kv_feed_status *out)
{
    (void)owner;
    memset(out, 0, sizeof(*out));
    out->state = KV_LIVE;
    out->is_connected = true;
    out->block_count = 81920;
    out->last_ms = backend_id % 1000;
    out->follower.messages = 1234567 + backend_id;
    out->holdings.stored = 12345678;
    out->holdings.removed = 12263758;
    return true;
}

static struct receipt a_receipt(uint64_t backend, uint32_t number)
{
    return (struct receipt){
        .decision.chosen.backend = backend,
        .outcome = RECEIPT_OK,
        .decision.policy = &policy_warm,
        .first_us = 120000 + number % 4096 * 61,
        .last_us = 2000000,
        .end_us = 2000100,
        .stage_ns = {4100, 21000 + number % 1024, 3300, 900, 0},
        .prompt_tokens = 2100,
        .decision.chosen.expected_tokens = 1536,
        .cached_tokens = 1520,
        .output_tokens = 180,
        .has_cached_tokens = true,
        .saved_us = 31000,
    };
}

static void count(struct meters *meters, const struct backend *backend)
{
    static const enum receipt_outcome outcomes[] = {RECEIPT_OK, RECEIPT_GONE, RECEIPT_FAILED};
    for (uint32_t i = 0; i < 2 * ARRAY_COUNT(outcomes); i++) {
        struct receipt receipt = a_receipt(backend->id, i);
        const char *model = models[(backend->slot + i % 2) % model_count];
        struct receipt_parts parts = {.model = slice_str(model)};
        receipt.outcome = outcomes[i / 2];
        meters_note(meters, &receipt, &parts, backend->slot, true);
    }
}

static void add_backend(uint32_t number, uint32_t worker_count)
{
    char url[64];
    snprintf(url, sizeof(url), "http://10.%u.%u.%u:8000", number >> 16 & 255, number >> 8 & 255,
             number & 255);
    struct backend *backend = fleet_add(
        world.fleet, &(struct fleet_spec){.url = url, .host = url + 7, .port = 8000, .weight = 1});
    ASSERT(backend != NULL);
    backend_set_probe(backend, BACKEND_PROBE_UP, 0);
    atomic_store(&backend->load.prefill_ms, 0.031F);
    atomic_store(&backend->load.prefill_samples, 99);
    atomic_store(&backend->load.step_ms, 8.7F);
    atomic_store(&backend->load.step_samples, 99);
    load_report(&backend->load,
                &(struct load_report){.running = 12, .kv_usage = 0.71F, .cache_tokens = 1310720},
                1000);
    for (uint32_t i = 0; i < worker_count; i++) {
        count(world.meters[i], backend);
    }
}

static struct meters *make_meters(uint32_t slot_count)
{
    size_t size = (meters_size(slot_count) + 63) / 64 * 64;
    void *block = aligned_alloc(64, size);
    ASSERT(block != NULL);
    memset(block, 0, size);
    return meters_over(block, slot_count);
}

static void build(uint32_t backend_count, uint32_t worker_count)
{
    reclaim_init(&world.reclaim, 0);
    world.fleet = fleet_create(&(struct fleet_limits){.backend_count_max = backend_count,
                                                      .pool_count = fleet_pool_count_max},
                               &world.reclaim);
    ASSERT(world.fleet != NULL);
    for (uint32_t i = 0; i < worker_count; i++) {
        world.meters[i] = make_meters(backend_count);
    }
    for (uint32_t i = 0; i < backend_count; i++) {
        add_backend(i, worker_count);
    }
}

static void scrape(uint32_t backend_count, uint32_t worker_count, uint32_t rounds)
{
    static double times[round_max];
    struct metrics_page_input input = {
        .fleet = world.fleet,
        .now_ms = 2000,
        .totals = &world.totals,
        .meters = (const struct meters *const *)world.meters,
        .worker_count = worker_count,
        .known = &world.known,
        .ledger = &world.ledger,
        .events = events,
        .process = &world.process,
    };
    size_t page_size = 0;
    char name[64];

    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t begin = clock_ns();
        size_t capacity = metrics_page_size_max(backend_count);
        uint8_t *space = malloc(capacity);
        ASSERT(space != NULL);
        struct text page = text_over(space, capacity);
        process_figures(&world.process);
        bool is_whole = metrics_page_write(&input, &page);
        ASSERT(is_whole);
        page_size = page.size;
        free(space);
        times[i] = (double)(clock_ns() - begin) / 1e6;
    }
    snprintf(name, sizeof(name), "scrape_%u", backend_count);
    figure(name, "p50_ms", median(times, rounds), "ms");
    figure(name, "max_ms", times[rounds - 1], "ms");
    figure(name, "bytes", (double)page_size, "B");
}

static void note(uint32_t backend_count, uint32_t rounds)
{
    static double times[round_max];

    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t begin = clock_ns();
        for (uint32_t j = 0; j < note_batch; j++) {
            // Backends in no order, as requests come: their counters are in no near cache.
            const struct backend *backend = fleet_at(world.fleet, j * 7919 % backend_count);
            struct receipt receipt = a_receipt(backend->id, j);
            struct receipt_parts parts = {.model = slice_str(models[j % 2])};
            meters_note(world.meters[0], &receipt, &parts, backend->slot, true);
        }
        times[i] = (double)(clock_ns() - begin) / note_batch;
    }
    figure("note", "p50_ns", median(times, rounds), "ns");
}

// A receipt as a worker leaves it, with its texts behind it.
static void write_receipt(uint32_t number, void *to)
{
    static const char id_digits[] = "7c9e6679f4254d0e9b7ae1c2d38f5a60";
    static const char path[] = "/v1/chat/completions";
    struct receipt receipt = a_receipt(number % 64 + 1, number * 7919);
    const char *model = models[number % model_count];
    char url[64];

    int url_size = snprintf(url, sizeof(url), "http://10.0.%u.%u:8000", number % 4, number % 250);
    struct receipt_parts parts = {.id = slice_of(id_digits + number % 8, 24),
                                  .model = slice_str(model),
                                  .url = slice_of(url, (size_t)url_size),
                                  .path = slice_str(path)};
    receipt.wall_us = 1772366400250999 + (uint64_t)number * 22;
    receipt.status = 200;
    receipt.attempts = 1;
    receipt.is_streamed = number % 2 == 0;
    receipt.request_bytes = 9000 + number * 31;
    receipt.response_bytes = 700 + number * 177;
    receipt.decision.candidate_count = 64;
    receipt.decision.chosen.running_requests = number % 40;
    receipt.decision.chosen.queued_tokens = number * 997 % 30000;
    receipt.decision.chosen.wait_ms = (float)number * 1.7F;
    receipt.decision.chosen.prefill_ms = 17.5F;
    receipt.id_size = (uint16_t)parts.id.size;
    receipt.model_size = (uint16_t)parts.model.size;
    receipt.url_size = (uint16_t)parts.url.size;
    receipt.path_size = (uint16_t)parts.path.size;
    receipt_write(&receipt, &parts, to);
}

enum { line_kinds = 256 };

static void write_lines(uint8_t receipts[line_kinds][receipt_size_max])
{
    static uint8_t lines[line_kinds * access_line_size_max];
    static struct access_second second;
    struct text text = text_over(lines, sizeof(lines));

    for (uint32_t i = 0; i < line_kinds; i++) {
        access_line_json((const struct receipt *)receipts[i], ACCESS_NOT_SLOW, &second, &text);
    }
    ASSERT(!text.overflow);
}

// Of the log of requests: to make it, without the disk.
static void access_line(uint32_t rounds)
{
    static _Alignas(8) uint8_t receipts[line_kinds][receipt_size_max];
    static double times[round_max];
    uint32_t repeats = note_batch / line_kinds;

    for (uint32_t i = 0; i < line_kinds; i++) {
        write_receipt(i, receipts[i]);
    }
    for (uint32_t i = 0; i < rounds; i++) {
        uint64_t begin = clock_ns();
        for (uint32_t j = 0; j < repeats; j++) {
            write_lines(receipts);
        }
        times[i] = (double)(clock_ns() - begin) / (repeats * line_kinds);
    }
    figure("access_line", "p50_ns", median(times, rounds), "ns");
}

int main(int argc, char **argv)
{
    uint64_t backends = 1000;
    uint64_t workers = 2;
    uint64_t rounds = 15;
    const struct flag flags[] = {{.name = "backends", .number = &backends},
                                 {.name = "workers", .number = &workers},
                                 {.name = "rounds", .number = &rounds}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    if (backends == 0 || backends > 65535 || workers == 0 || workers > worker_max || rounds == 0 ||
        rounds > round_max) {
        fprintf(stderr, "backends: 1 to 65535; workers: 1 to %d; rounds: 1 to %d\n", worker_max,
                round_max);
        return 2;
    }
    build((uint32_t)backends, (uint32_t)workers);
    scrape((uint32_t)backends, (uint32_t)workers, (uint32_t)rounds);
    if (backends == 1000) {
        note((uint32_t)backends, (uint32_t)rounds);
        access_line((uint32_t)rounds);
    }
    fleet_destroy(&world.fleet);
    for (uint32_t i = 0; i < workers; i++) {
        free(world.meters[i]);
    }
    return 0;
}
