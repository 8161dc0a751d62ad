// SPDX-License-Identifier: Apache-2.0

#include "admin/document/truth_json.h"

#include "base/base.h"
#include "json/json_writer.h"

static void put_figures(const char *key, const struct truth_figures *figures,
                        struct json_writer *json)
{
    if (figures->count == 0) {
        json_put_null(json, key);
        return;
    }
    json_begin_object(json, key);
    json_put_u64(json, "count", figures->count);
    json_put_u64(json, "equal", figures->equal);
    json_put_number(json, "equal_share", figures->equal_share, 5);
    json_put_i64(json, "p1", figures->p1);
    json_put_i64(json, "p50", figures->p50);
    json_put_i64(json, "p99", figures->p99);
    json_put_number(json, "wrong_percent", figures->wrong_percent, 4);
    json_put_u64(json, "predicted_tokens", figures->predicted_tokens);
    json_put_u64(json, "actual_tokens", figures->actual_tokens);
    json_end(json);
}

static void put_histogram(const struct truth_figures *figures, struct json_writer *json)
{
    json_begin_array(json, "histogram");
    for (uint32_t i = 0; i < truth_bucket_count; i++) {
        if (figures->buckets[i] > 0) {
            json_begin_array(json, NULL);
            json_put_i64(json, NULL, truth_bucket_edge(i));
            json_put_u64(json, NULL, figures->buckets[i]);
            json_end(json);
        }
    }
    json_end(json);
}

static void put_view(const char *key, const struct truth_view *view, bool has_histogram,
                     struct json_writer *json)
{
    if (view->all.count == 0) {
        json_put_null(json, key);
        return;
    }
    json_begin_object(json, key);
    put_figures("all", &view->all, json);
    put_figures("recent", &view->recent, json);
    json_begin_object(json, "last");
    json_put_u64(json, "predicted", view->last_predicted);
    json_put_u64(json, "actual", view->last_actual);
    json_end(json);
    if (has_histogram) {
        put_histogram(&view->all, json);
    }
    json_end(json);
}

void truth_json_put(const struct truth *truth, uint64_t now_ms, bool has_histogram,
                    struct json_writer *json)
{
    struct truth_view view;

    json_begin_object(json, "truth");
    truth_read(truth, TRUTH_BY_EVENTS, now_ms, &view);
    put_view("by_events", &view, has_histogram, json);
    truth_read(truth, TRUTH_BELIEVED, now_ms, &view);
    put_view("believed", &view, has_histogram, json);
    json_end(json);
}
