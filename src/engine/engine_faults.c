// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_faults.h"

#include "base/base.h"
#include "json/json.h"
#include "json/json_writer.h"

#include <stdio.h>

const struct engine_faults engine_faults_none = {.stall_rate = 1, .slow = 1, .error_status = 500};

enum kind { KIND_NUMBER, KIND_COUNT, KIND_SWITCH };

struct fault_draft {
    struct engine_faults faults;
    struct engine_mishap mishap;
};

#define LASTING(field) #field, offsetof(struct fault_draft, faults.field)
#define ONCE(field) #field, offsetof(struct fault_draft, mishap.field)
// An hour is longer than any experiment waits.
static const struct fault_row {
    const char *name;
    size_t at;
    enum kind kind;
    double least;
    double most;
} rows[] = {
    {LASTING(error_rate), KIND_NUMBER, 0, 1}, {LASTING(error_status), KIND_COUNT, 400, 599},
    {LASTING(stall_rate), KIND_NUMBER, 0, 1}, {LASTING(stall_ms), KIND_COUNT, 0, 3.6e6},
    {LASTING(slow), KIND_NUMBER, 0.01, 1000}, {LASTING(events_loss), KIND_NUMBER, 0, 1},
    {ONCE(crash_s), KIND_NUMBER, 0, 3600},    {ONCE(freeze_ms), KIND_COUNT, 0, 3.6e6},
    {ONCE(flush), KIND_SWITCH, 0, 1},         {ONCE(reset), KIND_SWITCH, 0, 1},
};

static const struct fault_row *faults_find(struct slice key)
{
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (json_string_is(key, rows[i].name)) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool faults_set(struct fault_draft *draft, const struct fault_row *row,
                       const struct json_value *value)
{
    char *place = (char *)draft + row->at;
    double number = json_number(value);

    if (row->kind == KIND_SWITCH) {
        *(bool *)place = json_is_true(value);
        return value->kind == JSON_BOOL;
    }
    if (!(number >= row->least && number <= row->most)) {
        return false; // out of bounds, or NaN: not a number
    }
    if (row->kind == KIND_NUMBER) {
        memcpy(place, &number, sizeof(number));
        return true;
    }
    uint32_t count = (uint32_t)number;
    memcpy(place, &count, sizeof(count));
    return (double)count == number;
}

static void faults_explain(const struct fault_row *row, struct slice key,
                           char error[engine_faults_error_size])
{
    if (row == NULL) {
        snprintf(error, engine_faults_error_size, "no such fault: %.*s",
                 (int)(key.size < 64 ? key.size : 64), (const char *)key.bytes);
    } else if (row->kind == KIND_SWITCH) {
        snprintf(error, engine_faults_error_size, "%s must be true or false", row->name);
    } else {
        snprintf(error, engine_faults_error_size, "%s must be a %snumber from %g to %g", row->name,
                 row->kind == KIND_COUNT ? "whole " : "", row->least, row->most);
    }
}

enum status engine_faults_read(struct slice body, struct engine_faults *faults,
                               struct engine_mishap *mishap, char error[engine_faults_error_size])
{
    struct fault_draft draft = {.faults = *faults};
    struct json json = json_open(body);
    struct json_item item;

    snprintf(error, engine_faults_error_size, "the body is not a JSON object");
    if (!json_next(&json, &item) || item.value.kind != JSON_OBJECT) {
        return STATUS_MALFORMED;
    }
    json_enter(&json);
    while (json_next(&json, &item)) {
        const struct fault_row *row = faults_find(item.key);
        if (row == NULL || !faults_set(&draft, row, &item.value)) {
            faults_explain(row, item.key, error);
            return STATUS_MALFORMED;
        }
    }
    if (json_close(&json) != STATUS_OK) {
        return STATUS_MALFORMED;
    }
    *faults = draft.faults;
    *mishap = draft.mishap;
    return STATUS_OK;
}

void engine_faults_write(const struct engine_faults *faults, struct text *out)
{
    struct json_writer json = json_writer_over(out);
    json_begin_object(&json, NULL);
    json_put_number(&json, "error_rate", faults->error_rate, 6);
    json_put_u64(&json, "error_status", faults->error_status);
    json_put_number(&json, "stall_rate", faults->stall_rate, 6);
    json_put_u64(&json, "stall_ms", faults->stall_ms);
    json_put_number(&json, "events_loss", faults->events_loss, 6);
    json_put_number(&json, "slow", faults->slow, 6);
    json_end(&json);
}
