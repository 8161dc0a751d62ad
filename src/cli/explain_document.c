// SPDX-License-Identifier: Apache-2.0

#include "cli/explain_document.h"

#include "base/base.h"
#include "json/json.h"

#include <stdlib.h>

const struct explain_field explain_candidate_fields[explain_candidate_numbers] = {
    {NULL, "matched_tokens", "cached", EXPLAIN_COUNT, "expected_tokens"},
    {NULL, "host_tokens", "host", EXPLAIN_SOME, NULL},
    {NULL, "disk_tokens", "disk", EXPLAIN_SOME, NULL},
    {NULL, "queued_tokens", "queued", EXPLAIN_COUNT, "queued_tokens"},
    {NULL, "running_requests", "running", EXPLAIN_COUNT, "running_requests"},
    {NULL, "wait_ms", "wait", EXPLAIN_MS, NULL},
    {NULL, "prefill_ms", "prefill", EXPLAIN_MS, NULL},
    {NULL, "predicted_ms", "first token", EXPLAIN_MS, "predicted_ms"},
    {NULL, "cost", "cost", EXPLAIN_COST, "cost"},
};

const struct explain_field explain_record_fields[explain_record_numbers] = {
    {"all", "count", "samples", EXPLAIN_COUNT, NULL},
    {"all", "equal_share", "equal", EXPLAIN_SHARE, NULL},
    {"all", "wrong_percent", "off by", EXPLAIN_PERCENT, NULL},
    {"all", "p1", "p1", EXPLAIN_DIFFERENCE, NULL},
    {"all", "p99", "p99", EXPLAIN_DIFFERENCE, NULL},
    {"recent", "count", "lately", EXPLAIN_COUNT, NULL},
    {"recent", "equal_share", "equal", EXPLAIN_SHARE, NULL},
    {"recent", "p99", "p99", EXPLAIN_DIFFERENCE, NULL},
    {"last", "predicted", "predicted", EXPLAIN_COUNT, NULL},
    {"last", "actual", "actual", EXPLAIN_COUNT, NULL},
};

static struct slice explain_document_text_of(const struct json_value *value)
{
    return value->kind == JSON_STRING ? value->raw : (struct slice){0};
}

static double number_at(const struct json_value *row, const struct explain_field *field)
{
    struct json_value group = field->group == NULL ? *row : json_member(row, field->group);
    struct json_value value = json_member(&group, field->name);
    return json_number(&value);
}

static void read_candidate(const struct json_value *row, struct explain_candidate *out)
{
    struct json_value url = json_member(row, "url");
    struct json_value events = json_member(row, "events");
    struct json_value chosen = json_member(row, "chosen");

    out->url = explain_document_text_of(&url);
    out->events = explain_document_text_of(&events);
    out->is_chosen = json_is_true(&chosen);
    for (uint32_t i = 0; i < explain_candidate_numbers; i++) {
        out->numbers[i] = number_at(row, &explain_candidate_fields[i]);
    }
}

static void read_records(const struct json_value *row, struct explain_document *out)
{
    static const char *const kinds[] = {"by_events", "believed"};
    struct json_value url = json_member(row, "url");
    struct json_value truth = json_member(row, "truth");

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct json_value record = json_member(&truth, kinds[i]);
        if (record.kind != JSON_OBJECT) {
            continue;
        }
        struct explain_record *to = &out->records[out->record_count++];
        *to = (struct explain_record){.url = explain_document_text_of(&url), .kind = kinds[i]};
        for (uint32_t n = 0; n < explain_record_numbers; n++) {
            to->numbers[n] = number_at(&record, &explain_record_fields[n]);
        }
    }
}

// A backend in a recorded decision: the chosen one, whose figures the decision itself has, or a
// rival.
static void read_kept(const struct json_value *row, struct slice url, struct explain_candidate *out)
{
    out->url = url;
    for (uint32_t i = 0; i < explain_candidate_numbers; i++) {
        const char *name = explain_candidate_fields[i].kept_name;
        struct json_value value = name != NULL ? json_member(row, name) : (struct json_value){0};
        out->numbers[i] = json_number(&value);
    }
}

static struct slice url_in(const struct json_value *row)
{
    struct json_value url = json_member(row, "url");
    return explain_document_text_of(&url);
}

// Counts the objects of the array; reads them too if `out` is not NULL.
static uint32_t explain_document_walk(struct slice array, struct explain_document *out)
{
    struct json json = json_inside(array);
    struct json_item item;
    uint32_t count = 0;

    while (json_next_whole(&json, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            continue;
        }
        if (out != NULL && out->is_kept) {
            // The chosen one is in front of the rivals.
            read_kept(&item.value, url_in(&item.value), &out->candidates[count + 1]);
        } else if (out != NULL) {
            read_candidate(&item.value, &out->candidates[count]);
            read_records(&item.value, out);
        }
        count++;
    }
    return count;
}

// Every backend may have a record of either kind.
static bool explain_document_reserve(struct explain_document *document, uint32_t count)
{
    size_t candidates_size = (count + 1) * sizeof(struct explain_candidate);
    size_t records_size = (count + 1) * (2 * sizeof(struct explain_record));

    document->memory = calloc(1, candidates_size + records_size);
    if (document->memory == NULL) {
        return false;
    }
    document->candidates = document->memory;
    document->records = (struct explain_record *)(document->candidates + count + 1);
    document->candidate_count = count;
    return true;
}

static double explain_document_number_in(const struct json_value *row, const char *name)
{
    struct json_value value = json_member(row, name);
    return json_number(&value);
}

static void read_ending(const struct json_value *decision, struct explain_ending *out)
{
    struct json_value outcome = json_member(decision, "outcome");
    struct json_value other = json_member(decision, "round_robin");
    struct json_value other_backend = json_member(&other, "backend");

    *out = (struct explain_ending){
        .outcome = explain_document_text_of(&outcome),
        .status = explain_document_number_in(decision, "status"),
        .attempts = explain_document_number_in(decision, "attempts"),
        .cached_tokens = explain_document_number_in(decision, "cached_tokens"),
        .output_tokens = explain_document_number_in(decision, "output_tokens"),
        .ttft_ms = explain_document_number_in(decision, "ttft_ms"),
        .total_ms = explain_document_number_in(decision, "total_ms"),
        .other_url = url_in(&other_backend),
        .other_cached_tokens = explain_document_number_in(&other, "cached_tokens"),
        .other_ttft_ms = explain_document_number_in(&other, "ttft_ms"),
    };
}

// The candidates of a request that was not sent.
static enum status read_rows(const struct json_value *list, struct explain_document *out)
{
    uint32_t count = explain_document_walk(list->raw, NULL);

    if (!explain_document_reserve(out, count)) {
        return STATUS_EXHAUSTED;
    }
    explain_document_walk(list->raw, out);
    return STATUS_OK;
}

static enum status read_decision(struct slice text, const struct json_value *rivals,
                                 struct explain_document *out)
{
    struct json_value decision = {.kind = JSON_OBJECT, .raw = text};
    struct json_value backend = json_member(&decision, "backend");
    bool is_chosen = backend.kind == JSON_OBJECT;

    out->is_kept = true;
    if (!explain_document_reserve(out, explain_document_walk(rivals->raw, NULL) + 1)) {
        return STATUS_EXHAUSTED;
    }
    read_ending(&decision, &out->ending);
    read_kept(&decision, url_in(&backend), &out->candidates[0]);
    out->candidates[0].is_chosen = is_chosen;
    explain_document_walk(rivals->raw, out);
    if (!is_chosen) {
        // No backend was chosen: drop the row that was reserved for it.
        out->candidates++;
        out->candidate_count--;
    }
    return STATUS_OK;
}

enum status explain_document_read(struct slice text, struct explain_document *out)
{
    enum {
        SUMMARY,
        WHY,
        POLICY,
        MODEL,
        PROMPT,
        WAIT,
        PREFILL,
        BY_TOKEN_IDS,
        BACKENDS,
        RIVALS,
        NAME_COUNT
    };
    static const char *const names[NAME_COUNT] = {
        "summary", "why",        "policy",       "model",    "prompt_tokens",
        "wait_ms", "prefill_ms", "by_token_ids", "backends", "rivals"};
    struct json_value values[NAME_COUNT] = {0};

    if (json_find(text, names, NAME_COUNT, values) != STATUS_OK ||
        (values[BACKENDS].kind != JSON_ARRAY && values[RIVALS].kind != JSON_ARRAY)) {
        return STATUS_MALFORMED;
    }
    bool is_kept = values[BACKENDS].kind != JSON_ARRAY;
    struct explain_document document = {
        .summary = explain_document_text_of(&values[is_kept ? WHY : SUMMARY]),
        .policy = explain_document_text_of(&values[POLICY]),
        .model = explain_document_text_of(&values[MODEL]),
        .prompt_tokens = json_number(&values[PROMPT]),
        .wait_ms = json_number(&values[WAIT]),
        .prefill_ms = json_number(&values[PREFILL]),
        .is_counted = json_is_true(&values[BY_TOKEN_IDS]),
    };
    enum status status = is_kept ? read_decision(text, &values[RIVALS], &document)
                                 : read_rows(&values[BACKENDS], &document);
    if (status == STATUS_OK) {
        *out = document;
    }
    return status;
}

void explain_document_free(struct explain_document *document)
{
    free(document->memory);
    *document = (struct explain_document){0};
}
