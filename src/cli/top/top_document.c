// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_document.h"

#include "base/base.h"
#include "base/utf8.h"
#include "json/json.h"

#include <math.h>

enum { escaped_size_max = 4096 };

enum field_kind { NUMBER, TEXT, FLAG };

// One member of an object, and the field that it is stored in.
struct top_field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    size_t size;
};

#define FIELD(kind_, struct_, name_, member_)                                                      \
    {                                                                                              \
        name_, kind_, offsetof(struct struct_, member_), sizeof(((struct struct_ *)0)->member_)    \
    }

static const struct top_field overview_fields[] = {
    FIELD(TEXT, top_overview, "version", version),
    FIELD(TEXT, top_overview, "policy", policy),
    FIELD(NUMBER, top_overview, "now_ms", now_ms),
    FIELD(NUMBER, top_overview, "uptime_s", uptime_s),
};

static const struct top_field price_fields[] = {
    FIELD(TEXT, top_overview, "currency", currency),
};

static const struct top_field totals_fields[] = {
    FIELD(NUMBER, top_totals, "requests", requests),
    FIELD(NUMBER, top_totals, "failures", failures),
    FIELD(NUMBER, top_totals, "in_flight", in_flight),
    FIELD(NUMBER, top_totals, "connections", connections),
    FIELD(NUMBER, top_totals, "queued_tokens", queued_tokens),
    FIELD(NUMBER, top_totals, "saved_s", saved_s),
    FIELD(NUMBER, top_totals, "round_robin_saved_s", round_robin_saved_s),
    FIELD(NUMBER, top_totals, "saved_money", saved_money),
    FIELD(NUMBER, top_totals, "over_round_robin_money", over_round_robin_money),
};

static const struct top_field recent_fields[] = {
    FIELD(NUMBER, top_recent, "window_s", window_s),
    FIELD(NUMBER, top_recent, "requests_per_s", requests_per_s),
    FIELD(NUMBER, top_recent, "failures_per_s", failures_per_s),
    FIELD(NUMBER, top_recent, "output_tokens_per_s", output_tokens_per_s),
    FIELD(NUMBER, top_recent, "hit_rate", hit_rate),
    FIELD(NUMBER, top_recent, "round_robin_hit_rate", round_robin_hit_rate),
};

static const struct top_field quantile_fields[] = {
    FIELD(NUMBER, top_quantiles, "p50", p50_ms),
    FIELD(NUMBER, top_quantiles, "p95", p95_ms),
};

static const struct top_field backend_fields[] = {
    FIELD(TEXT, top_backend, "url", url),
    FIELD(TEXT, top_backend, "state", state),
    FIELD(FLAG, top_backend, "draining", is_draining),
    FIELD(NUMBER, top_backend, "weight", figures[TOP_WEIGHT]),
    FIELD(NUMBER, top_backend, "in_flight", figures[TOP_IN_FLIGHT]),
    FIELD(NUMBER, top_backend, "queued_tokens", figures[TOP_QUEUED_TOKENS]),
    FIELD(NUMBER, top_backend, "failures", figures[TOP_FAILURES]),
    FIELD(NUMBER, top_backend, "requests_per_s", figures[TOP_REQUESTS_PER_S]),
    FIELD(NUMBER, top_backend, "hit_rate", figures[TOP_HIT_RATE]),
    FIELD(NUMBER, top_backend, "ttft_p50_ms", figures[TOP_TTFT_P50]),
    FIELD(NUMBER, top_backend, "ttft_p95_ms", figures[TOP_TTFT_P95]),
    FIELD(NUMBER, top_backend, "kv_usage", figures[TOP_KV_USAGE]),
};

static const struct top_field hot_fields[] = {
    FIELD(TEXT, top_hot, "prefix", prefix),
    FIELD(NUMBER, top_hot, "tokens", tokens),
    FIELD(NUMBER, top_hot, "requests", requests),
    FIELD(NUMBER, top_hot, "share", share),
    FIELD(NUMBER, top_hot, "holder_count", holder_count),
};

static const struct top_field holder_fields[] = {
    {"url", TEXT, 0, top_url_size},
};

static const struct top_field cluster_fields[] = {
    FIELD(FLAG, top_cluster, "up", is_up),
    FIELD(TEXT, top_cluster, "why", why),
};

static const struct top_field router_fields[] = {
    FIELD(TEXT, top_router, "name", name),
    FIELD(TEXT, top_router, "address", address),
    FIELD(TEXT, top_router, "why", why),
    FIELD(FLAG, top_router, "there", is_there),
    FIELD(NUMBER, top_router, "heard_ms", heard_ms),
    FIELD(NUMBER, top_router, "in_flight", in_flight),
};

static const struct top_field point_fields[] = {
    FIELD(NUMBER, top_point, "time_ms", time_ms),
    FIELD(NUMBER, top_point, "hit_rate", hit_rate),
    FIELD(NUMBER, top_point, "round_robin_hit_rate", round_robin_hit_rate),
    FIELD(NUMBER, top_point, "ttft_p50_ms", ttft_p50_ms),
    FIELD(NUMBER, top_point, "round_robin_ttft_p50_ms", round_robin_ttft_p50_ms),
};

static const struct top_field decision_fields[] = {
    FIELD(NUMBER, top_decision, "serial", serial),
    FIELD(TEXT, top_decision, "id", id),
    FIELD(NUMBER, top_decision, "time_ms", time_ms),
    FIELD(TEXT, top_decision, "model", model),
    FIELD(TEXT, top_decision, "outcome", outcome),
    FIELD(NUMBER, top_decision, "status", status),
    FIELD(NUMBER, top_decision, "prompt_tokens", prompt_tokens),
    FIELD(NUMBER, top_decision, "expected_tokens", expected_tokens),
    FIELD(NUMBER, top_decision, "cached_tokens", cached_tokens),
    FIELD(NUMBER, top_decision, "ttft_ms", ttft_ms),
    FIELD(TEXT, top_decision, "why", why),
};

// C0, DEL and C1: a terminal may act on these.
static bool top_document_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

void top_text_copy(struct slice text, char *out, size_t size)
{
    size_t used = 0;

    if (!utf8_is_valid(text)) {
        text = slice_str("?");
    }
    for (size_t at = 0; at < text.size;) {
        unsigned bytes;
        uint32_t code = utf8_read(text.bytes + at, &bytes);
        bool replaced = top_document_is_control(code);
        unsigned needed = replaced ? 1 : bytes;
        if (used + needed >= size) {
            break;
        }
        memcpy(out + used, replaced ? (const uint8_t *)"?" : text.bytes + at, needed);
        used += needed;
        at += bytes;
    }
    out[used] = '\0';
}

static void top_document_read_text(const struct json_value *value, char *out, size_t size)
{
    char decoded[escaped_size_max];
    struct slice text = {0};

    out[0] = '\0';
    if (value->kind != JSON_STRING) {
        return;
    }
    // Fails if the string is longer than any that is shown.
    if (json_string_decode(value->raw, decoded, sizeof(decoded), &text) != STATUS_OK) {
        text = slice_str("?");
    }
    top_text_copy(text, out, size);
}

// Sets every field; absent numbers become NaN, absent strings empty.
static void top_document_read_fields(const struct json_value *object,
                                     const struct top_field *fields, uint32_t count, void *out)
{
    const char *names[json_find_max] = {0};
    struct json_value values[json_find_max] = {0};

    ASSERT(count <= json_find_max);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = fields[i].name;
    }
    if (object->kind == JSON_OBJECT && json_find(object->raw, names, count, values) != STATUS_OK) {
        memset(values, 0, sizeof(values));
    }
    for (uint32_t i = 0; i < count; i++) {
        char *to = (char *)out + fields[i].offset;
        switch (fields[i].kind) {
        case NUMBER:
            *(double *)to = json_number(&values[i]);
            break;
        case TEXT:
            top_document_read_text(&values[i], to, fields[i].size);
            break;
        case FLAG:
            *(bool *)to = json_is_true(&values[i]);
            break;
        }
    }
}

// Calls `take` for each element; arrays and objects come with all their text.  Returns the count.
static uint32_t top_document_walk(const struct json_value *array,
                                  void (*take)(void *owner, uint32_t index,
                                               const struct json_value *element),
                                  void *owner)
{
    struct json json = json_inside(array->raw);
    struct json_item item;
    uint32_t count = 0;

    while (array->kind == JSON_ARRAY && json_next_whole(&json, &item)) {
        take(owner, count++, &item.value);
    }
    return count;
}

static void take_backend(void *owner, uint32_t index, const struct json_value *element)
{
    struct top_overview *overview = owner;
    (void)index;
    if (element->kind != JSON_OBJECT) {
        return;
    }
    overview->backend_total++;
    if (overview->backend_count < top_backend_max) {
        top_document_read_fields(element, backend_fields, ARRAY_COUNT(backend_fields),
                                 &overview->backends[overview->backend_count++]);
    }
}

static void take_holder(void *owner, uint32_t index, const struct json_value *element)
{
    struct top_hot *hot = owner;
    (void)index;
    if (element->kind == JSON_OBJECT && hot->shown_count < top_holder_max) {
        top_document_read_fields(element, holder_fields, ARRAY_COUNT(holder_fields),
                                 hot->holders[hot->shown_count++]);
    }
}

static void take_hot(void *owner, uint32_t index, const struct json_value *element)
{
    struct top_overview *overview = owner;
    (void)index;
    if (element->kind == JSON_OBJECT && overview->hot_count < top_hot_max) {
        struct top_hot *hot = &overview->hot[overview->hot_count++];
        struct json_value holders = json_member(element, "holders");
        top_document_read_fields(element, hot_fields, ARRAY_COUNT(hot_fields), hot);
        hot->shown_count = 0;
        top_document_walk(&holders, take_holder, hot);
    }
}

static void take_router(void *owner, uint32_t index, const struct json_value *element)
{
    struct top_cluster *cluster = owner;
    (void)index;
    if (element->kind == JSON_OBJECT && cluster->router_count < top_router_max) {
        struct top_router *router = &cluster->routers[cluster->router_count++];
        struct json_value complete = json_member(element, "complete");
        top_document_read_fields(element, router_fields, ARRAY_COUNT(router_fields), router);
        router->is_complete = complete.kind != JSON_BOOL || json_is_true(&complete);
    }
}

static void top_document_read_cluster(const struct json_value *value, struct top_cluster *out)
{
    struct json_value peers = json_member(value, "peers");

    out->is_known = value->kind == JSON_OBJECT;
    out->router_count = 0;
    top_document_read_fields(value, cluster_fields, ARRAY_COUNT(cluster_fields), out);
    top_document_walk(&peers, take_router, out);
}

// One series: its values go to the same field of each point.
struct top_column {
    struct top_history *history;
    uint32_t skipped; // older elements that do not fit
    size_t offset;
};

static void take_value(void *owner, uint32_t index, const struct json_value *element)
{
    const struct top_column *column = owner;
    if (index >= column->skipped && index - column->skipped < column->history->count) {
        char *point = (char *)&column->history->points[index - column->skipped];
        *(double *)(point + column->offset) = json_number(element);
    }
}

static void count_value(void *owner, uint32_t index, const struct json_value *element)
{
    (void)element;
    *(uint32_t *)owner = index + 1;
}

static void top_document_read_series(const struct json_value *series, struct top_history *out)
{
    struct json_value times = json_member(series, "time_ms");
    uint32_t total = 0;

    top_document_walk(&times, count_value, &total);
    out->count = total < top_point_max ? total : top_point_max;
    for (uint32_t i = 0; i < out->count; i++) {
        out->points[i] =
            (struct top_point){(double)NAN, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
    }
    for (size_t i = 0; i < ARRAY_COUNT(point_fields); i++) {
        struct json_value values = json_member(series, point_fields[i].name);
        struct top_column column = {out, total - out->count, point_fields[i].offset};
        top_document_walk(&values, take_value, &column);
    }
}

enum status top_overview_read(struct slice text, struct top_overview *out)
{
    enum { TOTALS, RECENT, PRICE, CLUSTER, BACKENDS, HOTTEST, SERIES, NAME_COUNT };
    static const char *const names[NAME_COUNT] = {"totals",   "recent",  "price", "cluster",
                                                  "backends", "hottest", "series"};
    struct json_value values[NAME_COUNT] = {0};

    if (json_find(text, names, NAME_COUNT, values) != STATUS_OK ||
        values[BACKENDS].kind != JSON_ARRAY) {
        return STATUS_MALFORMED;
    }
    const struct json_value document = {JSON_OBJECT, text};
    const struct json_value ttft = json_member(&values[RECENT], "ttft_ms");
    const struct json_value twin = json_member(&values[RECENT], "round_robin_ttft_ms");
    struct top_recent *recent = &out->recent;

    top_document_read_fields(&document, overview_fields, ARRAY_COUNT(overview_fields), out);
    top_document_read_fields(&values[PRICE], price_fields, ARRAY_COUNT(price_fields), out);
    top_document_read_fields(&values[TOTALS], totals_fields, ARRAY_COUNT(totals_fields),
                             &out->totals);
    top_document_read_fields(&values[RECENT], recent_fields, ARRAY_COUNT(recent_fields), recent);
    top_document_read_fields(&ttft, quantile_fields, ARRAY_COUNT(quantile_fields), &recent->ttft);
    top_document_read_fields(&twin, quantile_fields, ARRAY_COUNT(quantile_fields),
                             &recent->round_robin_ttft);
    top_document_read_cluster(&values[CLUSTER], &out->cluster);
    out->backend_count = 0;
    out->backend_total = 0;
    out->hot_count = 0;
    top_document_walk(&values[BACKENDS], take_backend, out);
    top_document_walk(&values[HOTTEST], take_hot, out);
    top_document_read_series(&values[SERIES], &out->series);
    return STATUS_OK;
}

static void take_decision(void *owner, uint32_t index, const struct json_value *element)
{
    struct top_decisions *decisions = owner;
    (void)index;
    if (element->kind != JSON_OBJECT || decisions->count == top_decision_max) {
        return;
    }
    struct top_decision *row = &decisions->rows[decisions->count++];
    struct json_value backend = json_member(element, "backend");
    top_document_read_fields(element, decision_fields, ARRAY_COUNT(decision_fields), row);
    top_document_read_fields(&backend, holder_fields, ARRAY_COUNT(holder_fields), row->backend);
}

enum status top_decisions_read(struct slice text, struct top_decisions *out)
{
    enum { SERIAL, DECISIONS, NAME_COUNT };
    static const char *const names[NAME_COUNT] = {"serial", "decisions"};
    struct json_value values[NAME_COUNT] = {0};

    if (json_find(text, names, NAME_COUNT, values) != STATUS_OK ||
        values[DECISIONS].kind != JSON_ARRAY) {
        return STATUS_MALFORMED;
    }
    double serial = json_number(&values[SERIAL]);
    out->serial = serial >= 0 ? serial : 0;
    out->count = 0;
    top_document_walk(&values[DECISIONS], take_decision, out);
    return STATUS_OK;
}

void top_history_join(struct top_history *history, const struct top_overview *overview)
{
    if (history->count > 0 && overview->now_ms < history->points[history->count - 1].time_ms) {
        history->count = 0;
    }
    for (uint32_t i = 0; i < overview->series.count; i++) {
        const struct top_point *point = &overview->series.points[i];
        double last = history->count > 0 ? history->points[history->count - 1].time_ms : -1;
        if (!(point->time_ms > last)) {
            continue;
        }
        if (history->count == top_point_max) {
            history->count--;
            memmove(history->points, history->points + 1, history->count * sizeof(*point));
        }
        history->points[history->count++] = *point;
    }
}

static bool top_decisions_have(const struct top_decision *rows, uint32_t count, const char *id)
{
    for (uint32_t row = 0; row < count; row++) {
        if (strcmp(rows[row].id, id) == 0) {
            return true;
        }
    }
    return false;
}

// Removes the running requests that are among the `fresh_count` first of `fresh`.  Clients may use
// an id twice, so only those.
static void top_decisions_drop(struct top_decisions *kept, const struct top_decisions *fresh,
                               uint32_t fresh_count)
{
    uint32_t stays = 0;
    for (uint32_t row = 0; row < kept->count; row++) {
        bool was_running = strcmp(kept->rows[row].outcome, "running") == 0;
        if (!was_running || !top_decisions_have(fresh->rows, fresh_count, kept->rows[row].id)) {
            kept->rows[stays++] = kept->rows[row];
        }
    }
    kept->count = stays;
}

void top_decisions_join(struct top_decisions *kept, const struct top_decisions *fresh)
{
    if (fresh->serial < kept->serial) {
        kept->count = 0;
    }
    // A response may repeat decisions that we have.
    uint32_t added = 0;
    while (added < fresh->count &&
           (kept->count == 0 || fresh->rows[added].serial > kept->rows[0].serial)) {
        added++;
    }
    top_decisions_drop(kept, fresh, added);
    uint32_t stays =
        kept->count < top_decision_max - added ? kept->count : top_decision_max - added;
    memmove(kept->rows + added, kept->rows, stays * sizeof(kept->rows[0]));
    memcpy(kept->rows, fresh->rows, added * sizeof(kept->rows[0]));
    kept->count = added + stays;
    // The router has restarted: ask it for all of its decisions next time.
    kept->serial = fresh->serial < kept->serial && added == 0 ? 0 : fresh->serial;
}
