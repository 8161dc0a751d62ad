// SPDX-License-Identifier: Apache-2.0

#include "cli/explain_document.h"

#include "base/base.h"
#include "json/json.h"

#include <math.h>
#include <stdlib.h>

enum { digits_size = 64 };

const struct explain_field explain_candidate_fields[explain_candidate_numbers] = {
    {NULL, "matched_tokens", "cached", EXPLAIN_COUNT},
    {NULL, "host_tokens", "host", EXPLAIN_SOME},
    {NULL, "disk_tokens", "disk", EXPLAIN_SOME},
    {NULL, "queued_tokens", "queued", EXPLAIN_COUNT},
    {NULL, "running_requests", "running", EXPLAIN_COUNT},
    {NULL, "wait_ms", "wait", EXPLAIN_MS},
    {NULL, "prefill_ms", "prefill", EXPLAIN_MS},
    {NULL, "predicted_ms", "first token", EXPLAIN_MS},
    {NULL, "cost", "cost", EXPLAIN_COST},
};

const struct explain_field explain_record_fields[explain_record_numbers] = {
    {"all", "count", "answers", EXPLAIN_COUNT},
    {"all", "equal_share", "equal", EXPLAIN_SHARE},
    {"all", "wrong_percent", "off by", EXPLAIN_PERCENT},
    {"all", "p1", "p1", EXPLAIN_DIFFERENCE},
    {"all", "p99", "p99", EXPLAIN_DIFFERENCE},
    {"recent", "count", "lately", EXPLAIN_COUNT},
    {"recent", "equal_share", "equal", EXPLAIN_SHARE},
    {"recent", "p99", "p99", EXPLAIN_DIFFERENCE},
    {"last", "predicted", "predicted", EXPLAIN_COUNT},
    {"last", "actual", "actual", EXPLAIN_COUNT},
};

// The grammar was checked by json.h; what is longer than any number that is meant is none.
static double number_of(const struct json_value *value)
{
    char digits[digits_size];
    if (value->kind != JSON_NUMBER || value->raw.size >= digits_size) {
        return (double)NAN;
    }
    memcpy(digits, value->raw.bytes, value->raw.size);
    digits[value->raw.size] = '\0';
    double number = strtod(digits, NULL);
    return isfinite(number) ? number : (double)NAN;
}

static struct slice text_of(const struct json_value *value)
{
    return value->kind == JSON_STRING ? value->raw : (struct slice){0};
}

// A member of an object; absent where there is no such object.
static struct json_value member(const struct json_value *object, const char *name)
{
    struct json_value value = {0};
    if (object->kind == JSON_OBJECT && json_find(object->raw, &name, 1, &value) != STATUS_OK) {
        value = (struct json_value){0};
    }
    return value;
}

static double number_at(const struct json_value *row, const struct explain_field *field)
{
    struct json_value group = field->group == NULL ? *row : member(row, field->group);
    struct json_value value = member(&group, field->name);
    return number_of(&value);
}

static void read_candidate(const struct json_value *row, struct explain_candidate *out)
{
    struct json_value url = member(row, "url");
    struct json_value events = member(row, "events");
    struct json_value chosen = member(row, "chosen");

    out->url = text_of(&url);
    out->events = text_of(&events);
    out->is_chosen = json_is_true(&chosen);
    for (uint32_t i = 0; i < explain_candidate_numbers; i++) {
        out->numbers[i] = number_at(row, &explain_candidate_fields[i]);
    }
}

static void read_records(const struct json_value *row, struct explain_document *out)
{
    static const char *const kinds[] = {"exact", "believed"};
    struct json_value url = member(row, "url");
    struct json_value truth = member(row, "truth");

    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        struct json_value record = member(&truth, kinds[i]);
        if (record.kind != JSON_OBJECT) {
            continue;
        }
        struct explain_record *to = &out->records[out->record_count++];
        *to = (struct explain_record){.url = text_of(&url), .kind = kinds[i]};
        for (uint32_t n = 0; n < explain_record_numbers; n++) {
            to->numbers[n] = number_at(&record, &explain_record_fields[n]);
        }
    }
}

// Enters the array and counts its objects; with `out`, reads them.
static uint32_t walk(struct slice array, struct explain_document *out)
{
    struct json json = json_open(array);
    struct json_item item;
    uint32_t count = 0;

    if (!json_next(&json, &item)) {
        return 0;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        if (item.value.kind != JSON_OBJECT || !json_skip(&json, &item.value)) {
            continue;
        }
        if (out != NULL) {
            read_candidate(&item.value, &out->candidates[count]);
            read_records(&item.value, out);
        }
        count++;
    }
    return count;
}

// Each may have a record of either kind.
static bool reserve(struct explain_document *document, uint32_t count)
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

enum status explain_document_read(struct slice text, struct explain_document *out)
{
    enum { SUMMARY, POLICY, MODEL, PROMPT, WAIT, PREFILL, EXACT, BACKENDS, NAME_COUNT };
    static const char *const names[NAME_COUNT] = {"summary", "policy",     "model", "prompt_tokens",
                                                  "wait_ms", "prefill_ms", "exact", "backends"};
    struct json_value values[NAME_COUNT] = {0};

    if (json_find(text, names, NAME_COUNT, values) != STATUS_OK ||
        values[BACKENDS].kind != JSON_ARRAY) {
        return STATUS_MALFORMED;
    }
    struct explain_document document = {
        .summary = text_of(&values[SUMMARY]),
        .policy = text_of(&values[POLICY]),
        .model = text_of(&values[MODEL]),
        .prompt_tokens = number_of(&values[PROMPT]),
        .wait_ms = number_of(&values[WAIT]),
        .prefill_ms = number_of(&values[PREFILL]),
        .is_counted = json_is_true(&values[EXACT]),
    };
    if (!reserve(&document, walk(values[BACKENDS].raw, NULL))) {
        return STATUS_EXHAUSTED;
    }
    walk(values[BACKENDS].raw, &document);
    *out = document;
    return STATUS_OK;
}

void explain_document_free(struct explain_document *document)
{
    free(document->memory);
    *document = (struct explain_document){0};
}
