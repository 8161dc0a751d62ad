// SPDX-License-Identifier: Apache-2.0

#include "admin/metrics_response.h"

#include "admin/admin.h"
#include "admin/document/metrics_page.h"
#include "base/base.h"
#include "base/text.h"
#include "cluster/cluster.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "http/problem.h"
#include "knowledge/knowledge.h"
#include "proxy/proxy.h"
#include "scribe/scribe.h"

#include <stdio.h>
#include <stdlib.h>

enum { length_digits = 12 };

// The page is written behind it, and only then is its length known: blanks in front of a value are
// allowed (RFC 9110, 5.5), so the number has its place before.  A copy of a few megabytes is saved.
#define HEAD_BEFORE_LENGTH                                                                         \
    "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n"                \
    "content-length: "
#define HEAD_AFTER_LENGTH "\r\nconnection: close\r\n\r\n"

enum {
    length_offset = sizeof(HEAD_BEFORE_LENGTH) - 1,
    head_size = length_offset + length_digits + sizeof(HEAD_AFTER_LENGTH) - 1,
};

static bool metrics_response_events_of(void *feeder, uint64_t backend_id,
                                       struct kv_feed_status *out)
{
    return kv_feeder_status(feeder, backend_id, out);
}

// Sources of a page; they outlive the call of metrics_page_write.
struct sources {
    struct proxy_totals totals;
    struct knowledge_status known;
    struct prefix_ledger_usage ledger;
    struct process_figures process;
    struct scribe_totals scribe;
    const struct meters *meters[reclaim_reader_count_max];
};

static void ask_proxy(const struct proxy *proxy, struct sources *sources,
                      struct metrics_page_input *input)
{
    const struct knowledge *knowledge = proxy_knowledge(proxy);
    const struct prefix_ledger *ledger = knowledge_ledger(knowledge);

    proxy_totals(proxy, &sources->totals);
    input->totals = &sources->totals;
    knowledge_status(knowledge, &sources->known);
    input->known = &sources->known;
    if (ledger != NULL) {
        prefix_ledger_usage(ledger, &sources->ledger);
        input->ledger = &sources->ledger;
    }
    input->dialects = proxy_dialects(proxy);
    input->worker_count = proxy_worker_count(proxy);
    ASSERT(input->worker_count <= ARRAY_COUNT(sources->meters));
    for (uint32_t i = 0; i < input->worker_count; i++) {
        sources->meters[i] = proxy_meters(proxy, i);
    }
    input->meters = sources->meters;
}

static bool write_page(const struct admin_options *options, uint64_t now_ms, struct text *page)
{
    struct kv_feeder *feeder = admin_feeder(options);
    static struct cluster_status cluster; // too large for the stack; the keeper is the only caller
    struct sources sources;
    struct metrics_page_input input = {
        .fleet = options->fleet,
        .config = *options->config,
        .now_ms = now_ms,
        .recorded = options->recorded,
        .process = &sources.process,
    };

    if (*options->proxy != NULL) {
        ask_proxy(*options->proxy, &sources, &input);
    }
    if (feeder != NULL) {
        input.stray_count = kv_feeder_stray_count(feeder);
        input.events = metrics_response_events_of;
        input.events_owner = feeder;
    }
    if (admin_cluster(options) != NULL) {
        cluster_read_status(admin_cluster(options), &cluster);
        input.cluster = &cluster;
    }
    if (admin_scribe(options) != NULL) {
        scribe_totals(admin_scribe(options), &sources.scribe);
        input.scribe = &sources.scribe;
    }
    sources.process = (struct process_figures){.start_ms = options->process_start_ms};
    process_figures(&sources.process);
    return metrics_page_write(&input, page);
}

size_t metrics_response_size_max(const struct admin_options *options)
{
    uint32_t backend_count = 0;
    while (fleet_at(options->fleet, backend_count) != NULL) {
        backend_count++;
    }
    return head_size + metrics_page_size_max(backend_count);
}

static void refuse_page(bool is_too_long, struct text *out)
{
    const char *why = is_too_long ? "the page of metrics does not fit" : "memory is short";
    http_problem_response(&(struct http_problem_response){.problem = is_too_long
                                                                         ? HTTP_PROBLEM_INTERNAL
                                                                         : HTTP_PROBLEM_OVERLOADED,
                                                          .detail = slice_str(why),
                                                          .close = true},
                          out);
}

void metrics_response(const struct admin_options *options, uint64_t now_ms, struct text *out)
{
    char length[length_digits + 1];

    ASSERT(out->size == 0 && out->capacity > head_size);
    struct text page = text_over(out->bytes + head_size, out->capacity - head_size);
    if (!write_page(options, now_ms, &page)) {
        refuse_page(page.overflow, out);
        return;
    }
    snprintf(length, sizeof(length), "%*zu", length_digits, page.size);
    text_add_str(out, HEAD_BEFORE_LENGTH);
    text_add_str(out, length);
    text_add_str(out, HEAD_AFTER_LENGTH);
    ASSERT(out->size == head_size);
    out->size += page.size;
}
