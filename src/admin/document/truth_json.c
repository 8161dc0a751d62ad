// SPDX-License-Identifier: Apache-2.0

#include "admin/document/truth_json.h"

#include "base/base.h"

#include <math.h>

static void add_figures(const struct truth_figures *figures, struct text *json)
{
    if (figures->count == 0) {
        text_add_str(json, "null"); // no share of nothing
        return;
    }
    text_add_format(json,
                    "{\"count\":%lu,\"equal\":%lu,\"equal_share\":%.5g,\"p1\":%d,\"p50\":%d,"
                    "\"p99\":%d,\"wrong_percent\":",
                    (unsigned long)figures->count, (unsigned long)figures->equal,
                    figures->equal_share, figures->p1, figures->p50, figures->p99);
    if (isfinite(figures->wrong_percent)) {
        text_add_format(json, "%.4g", figures->wrong_percent);
    } else {
        text_add_str(json, "null");
    }
    text_add_format(json, ",\"predicted_tokens\":%lu,\"actual_tokens\":%lu}",
                    (unsigned long)figures->predicted_tokens,
                    (unsigned long)figures->actual_tokens);
}

static void add_histogram(const struct truth_figures *figures, struct text *json)
{
    const char *between = "";

    text_add_str(json, ",\"histogram\":[");
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        if (figures->buckets[i] > 0) {
            text_add_format(json, "%s[%d,%lu]", between, truth_bucket_edge(i),
                            (unsigned long)figures->buckets[i]);
            between = ",";
        }
    }
    text_add_str(json, "]");
}

static void add_view(const struct truth_view *view, bool is_brief, struct text *json)
{
    if (view->all.count == 0) {
        text_add_str(json, "null");
        return;
    }
    text_add_str(json, "{\"all\":");
    add_figures(&view->all, json);
    text_add_str(json, ",\"recent\":");
    add_figures(&view->recent, json);
    text_add_format(json, ",\"last\":{\"predicted\":%u,\"actual\":%u}", view->last_predicted,
                    view->last_actual);
    if (!is_brief) {
        add_histogram(&view->all, json);
    }
    text_add_str(json, "}");
}

static void add_kinds(const struct truth *truth, uint64_t now_ms, bool is_brief, struct text *json)
{
    static const struct {
        const char *opening;
        enum truth_kind kind;
    } kinds[] = {{"{\"exact\":", TRUTH_EXACT}, {",\"believed\":", TRUTH_BELIEVED}};

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct truth_view view;
        truth_read(truth, kinds[i].kind, now_ms, &view);
        text_add_str(json, kinds[i].opening);
        add_view(&view, is_brief, json);
    }
    text_add_str(json, "}");
}

void truth_json_add(const struct truth *truth, uint64_t now_ms, struct text *json)
{
    add_kinds(truth, now_ms, false, json);
}

void truth_json_add_brief(const struct truth *truth, uint64_t now_ms, struct text *json)
{
    add_kinds(truth, now_ms, true, json);
}
