// SPDX-License-Identifier: Apache-2.0

#include "admin/document/metrics_page.h"

#include "admin/document/metrics_samples.h"
#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "config/config.h"
#include "fleet/backend.h"
#include "http/problem.h"
#include "metrics/meters_sum.h"
#include "metrics/metric_writer.h"
#include "proxy/proxy.h"

#include <string.h>

enum {
    // All metrics that are not by backend: mostly histograms of 64 models.
    page_size = 8 << 20,
    // Fifty lines, and requests of 9 pairs of model and policy by 8 outcomes.
    page_size_of_backend = 16 << 10,
    labels_size_max = 4096,
};

struct page {
    const struct metrics_page_input *input;
    struct metrics_samples samples;
    struct meters_sum *sum;
    struct text *out;
};

static struct metrics_row *backend_row(const struct page *page, uint32_t position)
{
    return &page->samples.rows[1 + position];
}

// If workers do not count (metrics.enabled), the page leaves these metrics out: a zero would claim
// that no request came.
static bool is_counted(const struct page *page)
{
    return meters_sum_worker_count(page->sum) > 0;
}

static void add_value(const struct page *page, enum metric metric, const struct metrics_row *row)
{
    if (row->values[metric] != METRICS_NO_VALUE) {
        metric_add(page->out, metric, row->labels, row->values[metric]);
    }
}

// A long name was cut, and one invalid byte would fail the whole scrape.
static void metrics_page_add_model(const struct page *page, uint32_t place, struct text *labels)
{
    uint8_t space[meters_model_size];
    metric_label(labels, "model", utf8_tamed(meters_sum_model(page->sum, place), space));
}

static void add_requests_of(const struct page *page, struct slice backend,
                            const struct meters_kind_sum *kind)
{
    uint8_t space[labels_size_max];

    for (uint32_t i = RECEIPT_RUNNING + 1; i < RECEIPT_OUTCOME_COUNT; i++) {
        // Outcomes that never happened have no line; `ok` always has one.
        if (kind->outcomes[i] == 0 && i != RECEIPT_OK) {
            continue;
        }
        struct text labels = text_over(space, sizeof(space));
        text_add(&labels, backend);
        metrics_page_add_model(page, kind->place, &labels);
        metric_label(&labels, "policy", slice_str(kind->policy));
        metric_label(&labels, "outcome", slice_str(receipt_outcome_name(i)));
        page->out->overflow |= labels.overflow;
        metric_add(page->out, METRIC_REQUESTS, text_slice(&labels), kind->outcomes[i]);
    }
}

static void add_unrouted(const struct page *page)
{
    uint8_t space[labels_size_max];

    for (uint32_t i = RECEIPT_RUNNING + 1; i < RECEIPT_OUTCOME_COUNT; i++) {
        uint64_t count = meters_sum_unrouted(page->sum, i);
        struct text labels = text_over(space, sizeof(space));
        if (count > 0) {
            text_add_str(&labels, "backend=\"none\",model=\"none\",policy=\"none\"");
            metric_label(&labels, "outcome", slice_str(receipt_outcome_name(i)));
            metric_add(page->out, METRIC_REQUESTS, text_slice(&labels), count);
        }
    }
}

static void add_requests(const struct page *page, enum metric metric)
{
    (void)metric;
    for (uint32_t i = 0; i < page->samples.backend_count; i++) {
        const struct metrics_row *row = backend_row(page, i);
        const struct meters_kind_sum *kinds;
        uint32_t count = meters_sum_kinds(page->sum, row->backend->slot, row->backend->id, &kinds);
        for (uint32_t j = 0; j < count; j++) {
            add_requests_of(page, row->labels, &kinds[j]);
        }
    }
    add_unrouted(page);
}

static bool metrics_page_is_empty(const struct meter_counts *counts)
{
    for (uint32_t i = 0; i <= meter_bucket_max; i++) {
        if (counts->buckets[i] > 0) {
            return false;
        }
    }
    return true;
}

static void add_durations(const struct page *page, enum metric metric)
{
    enum meters_duration duration = metric == METRIC_TTFT   ? METERS_TTFT
                                    : metric == METRIC_TPOT ? METERS_TPOT
                                                            : METERS_TOTAL;
    const struct meter_scale *scale =
        metric == METRIC_TPOT ? &meter_scale_token : &meter_scale_request;
    uint8_t space[labels_size_max];

    for (uint32_t place = 0; place < meters_sum_model_count(page->sum); place++) {
        struct text labels = text_over(space, sizeof(space));
        struct meter_counts counts;
        meters_sum_duration(page->sum, place, duration, &counts);
        if (place == 0 && metrics_page_is_empty(&counts)) {
            continue; // usually there are no others
        }
        metrics_page_add_model(page, place, &labels);
        metric_add_histogram(page->out, metric, text_slice(&labels), scale, counts.buckets,
                             counts.sum_ns);
    }
}

static void metrics_page_add_stages(const struct page *page, enum metric metric)
{
    uint8_t space[labels_size_max];

    for (uint32_t i = 0; is_counted(page) && i < RECEIPT_STAGE_COUNT; i++) {
        struct text labels = text_over(space, sizeof(space));
        struct meter_counts counts;
        meters_sum_stage(page->sum, i, &counts);
        metric_label(&labels, "stage", slice_str(receipt_stage_name(i)));
        metric_add_histogram(page->out, metric, text_slice(&labels), &meter_scale_stage,
                             counts.buckets, counts.sum_ns);
    }
}

static void add_backend_info(const struct page *page, enum metric metric)
{
    const struct config *config = page->input->config;
    uint8_t space[labels_size_max];
    uint8_t id_space[24];

    for (uint32_t i = 0; i < page->samples.backend_count; i++) {
        const struct metrics_row *row = backend_row(page, i);
        uint32_t pool = row->backend->pool;
        struct text labels = text_over(space, sizeof(space));
        struct text id = text_over(id_space, sizeof(id_space));
        text_add_u64(&id, row->backend->id);
        text_add(&labels, row->labels);
        metric_label(&labels, "id", text_slice(&id));
        metric_label(&labels, "pool",
                     slice_str(config != NULL ? config_pool_name(config, pool) : ""));
        page->out->overflow |= labels.overflow;
        metric_add(page->out, metric, text_slice(&labels), 1);
    }
}

static void add_backend_ttft(const struct page *page, enum metric metric)
{
    for (uint32_t i = 0; is_counted(page) && i < page->samples.backend_count; i++) {
        const struct metrics_row *row = backend_row(page, i);
        metric_add_summary(page->out, metric, row->labels, row->ttft_us, row->ttft_count);
    }
}

static void add_build(const struct page *page, enum metric metric)
{
    metric_add(page->out, metric, slice_str("version=\"" WARMPATH_VERSION "\""), 1);
}

// Each code has a line from the start, so that the first problem is seen as an increase.
static void add_problems(const struct page *page, enum metric metric)
{
    uint8_t space[labels_size_max];

    for (uint32_t i = HTTP_PROBLEM_NONE + 1; page->input->totals != NULL && i < HTTP_PROBLEM_COUNT;
         i++) {
        struct text labels = text_over(space, sizeof(space));
        metric_label(&labels, "code", slice_str(http_problem_code(i)));
        metric_add(page->out, metric, text_slice(&labels), page->input->totals->problems[i]);
    }
}

// Metrics that are more than one value for each row of samples.
static void (*const writers[METRIC_COUNT])(const struct page *page, enum metric metric) = {
    [METRIC_REQUESTS] = add_requests,
    [METRIC_TTFT] = add_durations,
    [METRIC_TPOT] = add_durations,
    [METRIC_DURATION] = add_durations,
    [METRIC_STAGE] = metrics_page_add_stages,
    [METRIC_BACKEND_INFO] = add_backend_info,
    [METRIC_BACKEND_TTFT] = add_backend_ttft,
    [METRIC_BUILD_INFO] = add_build,
    [METRIC_PROBLEMS] = add_problems,
};

static void add_rows(const struct page *page, enum metric metric)
{
    const struct metrics_samples *samples = &page->samples;
    const char *labels = metric_row(metric)->labels;
    const struct metrics_row *row = samples->rows;
    uint32_t count = 1;

    if (strcmp(labels, "backend") == 0) {
        row = samples->rows + 1;
        count = samples->backend_count;
    } else if (strcmp(labels, "tokenizer") == 0) {
        row = samples->rows + 1 + samples->backend_count;
        count = samples->tokenizer_count;
    } else {
        ASSERT(labels[0] == '\0');
    }
    for (uint32_t i = 0; i < count; i++) {
        add_value(page, metric, row + i);
    }
}

size_t metrics_page_size_max(uint32_t backend_count)
{
    return page_size + (size_t)backend_count * page_size_of_backend;
}

bool metrics_page_write(const struct metrics_page_input *input, struct text *out)
{
    struct page page = {.input = input, .out = out};

    page.sum = meters_sum_open(input->meters, input->worker_count);
    if (page.sum == NULL || !metrics_samples_take(input, page.sum, &page.samples)) {
        meters_sum_close(&page.sum);
        return false;
    }
    for (uint32_t i = 0; i < METRIC_COUNT; i++) {
        metric_begin(out, i);
        if (writers[i] != NULL) {
            writers[i](&page, i);
        } else {
            add_rows(&page, i);
        }
    }
    metrics_samples_free(&page.samples);
    meters_sum_close(&page.sum);
    return !out->overflow;
}
