// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/mooncake.h"

#include "base/base.h"
#include "base/hash.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "sim/array.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// Beyond it microseconds lose precision in a double; the year 2096, for stamps since 1970.
static const double timestamp_max_ms = 4e12;

enum field {
    FIELD_TIMESTAMP,
    FIELD_INPUT,
    FIELD_OUTPUT,
    FIELD_IDS,
    FIELD_SESSION, // from here on a line may be without
    FIELD_TURN,
    FIELD_BLOCK,
};

static const char *const names[] = {
    [FIELD_TIMESTAMP] = "timestamp",  [FIELD_INPUT] = "input_length",
    [FIELD_OUTPUT] = "output_length", [FIELD_IDS] = "hash_ids",
    [FIELD_SESSION] = "session_id",   [FIELD_TURN] = "turn",
    [FIELD_BLOCK] = "block_size",
};

struct mooncake_reader {
    struct mooncake_trace trace;
    uint32_t request_room;
    uint32_t id_room;
    uint64_t line; // from 1
    char *error;
};

__attribute__((format(printf, 2, 3))) static enum status complain(struct mooncake_reader *reader,
                                                                  const char *format, ...)
{
    va_list arguments;
    int size = snprintf(reader->error, mooncake_error_size,
                        "line %llu: ", (unsigned long long)reader->line);
    va_start(arguments, format);
    (void)vsnprintf(reader->error + size, mooncake_error_size - (size_t)size, format, arguments);
    va_end(arguments);
    return STATUS_MALFORMED;
}

static enum status read_timestamp(struct mooncake_reader *reader, const struct json_value *value,
                                  uint64_t *at_us)
{
    double ms = json_number(value);
    if (!(ms >= 0 && ms <= timestamp_max_ms)) { // nor NaN
        return complain(reader, "timestamp is not a number of milliseconds from 0 to %g",
                        timestamp_max_ms);
    }
    *at_us = (uint64_t)llround(ms * 1000);
    return STATUS_OK;
}

static enum status mooncake_read_tokens(struct mooncake_reader *reader, enum field field,
                                        const struct json_value *value, uint32_t *out)
{
    uint64_t number = 0;
    uint64_t least = field == FIELD_BLOCK ? 1 : 0;
    if (!json_uint(value, &number) || number < least || number > mooncake_tokens_max) {
        return complain(reader, "%s is not a whole number from %u to %d", names[field],
                        (unsigned)least, mooncake_tokens_max);
    }
    *out = (uint32_t)number;
    return STATUS_OK;
}

// A number stands for itself, whatever else it may be for the hash of its text.
static enum status read_session(struct mooncake_reader *reader, const struct json_value *value,
                                uint64_t *out)
{
    uint64_t number = 0;
    if (value->kind == JSON_NULL) {
        return STATUS_OK;
    }
    if (value->kind != JSON_NUMBER && value->kind != JSON_STRING) {
        return complain(reader, "session_id is neither a number nor a string");
    }
    if (!json_uint(value, &number) || number == 0) {
        number = hash_bytes(value->raw, 0);
    }
    *out = number != 0 ? number : 1;
    return STATUS_OK;
}

// The cursor has just handed out the value.
static enum status mooncake_read_ids(struct mooncake_reader *reader, struct json *json,
                                     const struct json_value *value)
{
    struct mooncake_trace *trace = &reader->trace;
    struct json_item item;
    uint64_t id = 0;
    if (value->kind != JSON_ARRAY) {
        return complain(reader, "hash_ids is not a list");
    }
    json_enter(json);
    for (uint64_t place = 0; json_next(json, &item); place++) {
        if (!json_uint(&item.value, &id)) {
            return complain(reader, "hash_ids has no whole number at place %llu",
                            (unsigned long long)place);
        }
        trace->ids = array_grow(trace->ids, trace->id_count, &reader->id_room, sizeof(id));
        trace->ids[trace->id_count++] = id;
    }
    return STATUS_OK;
}

static int find_field(struct slice key)
{
    for (int i = 0; i < (int)ARRAY_COUNT(names); i++) {
        if (json_string_is(key, names[i])) {
            return i;
        }
    }
    return -1;
}

static enum status mooncake_read_member(struct mooncake_reader *reader, struct json *json,
                                        int field, const struct json_value *value,
                                        struct mooncake_request *out)
{
    switch (field) {
    case FIELD_TIMESTAMP:
        return read_timestamp(reader, value, &out->at_us);
    case FIELD_INPUT:
        return mooncake_read_tokens(reader, field, value, &out->input_tokens);
    case FIELD_OUTPUT:
        return mooncake_read_tokens(reader, field, value, &out->output_tokens);
    case FIELD_IDS:
        return mooncake_read_ids(reader, json, value);
    case FIELD_SESSION:
        return read_session(reader, value, &out->session);
    case FIELD_TURN:
        return mooncake_read_tokens(reader, field, value, &out->turn);
    case FIELD_BLOCK:
        return mooncake_read_tokens(reader, field, value, &out->block_tokens);
    default:
        return STATUS_OK;
    }
}

static enum status mooncake_read_members(struct mooncake_reader *reader, struct json *json)
{
    struct mooncake_trace *trace = &reader->trace;
    struct mooncake_request request = {
        .line = (uint32_t)reader->line,
        .first = trace->id_count,
        .block_tokens = mooncake_block_tokens,
    };
    struct json_item item;
    unsigned seen = 0;

    // Of a field that comes twice the last counts, as in Python; but two lists of ids would be
    // taken for one.
    while (json_next(json, &item)) {
        int field = find_field(item.key);
        if (field == FIELD_IDS && (seen >> FIELD_IDS & 1) != 0) {
            return complain(reader, "hash_ids comes twice");
        }
        enum status status = mooncake_read_member(reader, json, field, &item.value, &request);
        if (status != STATUS_OK) {
            return status;
        }
        seen |= field < 0 ? 0 : 1U << field;
    }
    if (json_close(json) != STATUS_OK) {
        return complain(reader, "not JSON");
    }
    for (int field = 0; field < FIELD_SESSION; field++) {
        if ((seen >> field & 1) == 0) {
            return complain(reader, "%s is missing", names[field]);
        }
    }
    request.id_count = trace->id_count - request.first;
    trace->requests =
        array_grow(trace->requests, trace->request_count, &reader->request_room, sizeof(request));
    trace->requests[trace->request_count++] = request;
    return STATUS_OK;
}

static enum status mooncake_read_line(struct mooncake_reader *reader, struct slice line)
{
    struct json json = json_open(line);
    struct json_item item;
    if (!json_next(&json, &item)) {
        return complain(reader, "not JSON");
    }
    if (item.value.kind != JSON_OBJECT) {
        return complain(reader, "not an object");
    }
    json_enter(&json);
    return mooncake_read_members(reader, &json);
}

static bool mooncake_line_is_empty(struct slice line)
{
    for (size_t i = 0; i < line.size; i++) {
        if (strchr(" \t\r", line.bytes[i]) == NULL || line.bytes[i] == '\0') {
            return false;
        }
    }
    return true;
}

static enum status mooncake_read_lines(struct mooncake_reader *reader, struct slice text)
{
    size_t from = 0;
    while (from < text.size) {
        const uint8_t *start = text.bytes + from;
        const uint8_t *newline = memchr(start, '\n', text.size - from);
        size_t size = newline != NULL ? (size_t)(newline - start) : text.size - from;
        struct slice line = slice_of(start, size);
        reader->line++;
        from += size + 1;
        if (!mooncake_line_is_empty(line)) {
            enum status status = mooncake_read_line(reader, line);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    if (reader->trace.request_count == 0) {
        reader->line = 1;
        return complain(reader, "no request");
    }
    return STATUS_OK;
}

static int mooncake_order(const void *a, const void *b)
{
    const struct mooncake_request *one = a;
    const struct mooncake_request *other = b;
    if (one->at_us != other->at_us) {
        return one->at_us < other->at_us ? -1 : 1;
    }
    return (one->line > other->line) - (one->line < other->line);
}

// The smallest step between two different stamps; 0: there is none.
static uint64_t smallest_step(const struct mooncake_trace *trace)
{
    uint64_t smallest = 0;
    for (uint32_t i = 1; i < trace->request_count; i++) {
        uint64_t step = trace->requests[i].at_us - trace->requests[i - 1].at_us;
        if (step > 0 && (smallest == 0 || step < smallest)) {
            smallest = step;
        }
    }
    return smallest;
}

static void mooncake_spread(struct mooncake_trace *trace)
{
    uint64_t step = smallest_step(trace);
    uint64_t start = trace->requests[0].at_us;

    for (uint32_t from = 0, to; from < trace->request_count; from = to) {
        uint64_t at = trace->requests[from].at_us;
        for (to = from; to < trace->request_count && trace->requests[to].at_us == at; to++) {
        }
        for (uint32_t i = from; i < to; i++) {
            // In floating point: a step may be of months, and so many microseconds times the number
            // of requests would not fit.
            double part = (double)(i - from) / (double)(to - from);
            trace->requests[i].at_us = at - start + (uint64_t)(part * (double)step);
        }
    }
    trace->span_us = trace->requests[trace->request_count - 1].at_us;
}

enum status mooncake_read(struct slice text, struct mooncake_trace *out,
                          char error[mooncake_error_size])
{
    struct mooncake_reader reader = {.error = error};
    error[0] = '\0';
    ASSERT(text.size <= mooncake_size_max);
    enum status status = mooncake_read_lines(&reader, text);
    if (status != STATUS_OK) {
        mooncake_destroy(&reader.trace);
        return status;
    }
    qsort(reader.trace.requests, reader.trace.request_count, sizeof(struct mooncake_request),
          mooncake_order);
    mooncake_spread(&reader.trace);
    *out = reader.trace;
    return STATUS_OK;
}

void mooncake_destroy(struct mooncake_trace *trace)
{
    free(trace->requests);
    free(trace->ids);
    *trace = (struct mooncake_trace){0};
}

void mooncake_write(const struct mooncake_request *request, const uint64_t *ids, struct text *out)
{
    struct json_writer json = json_writer_spaced(out);
    unsigned below_ms = (unsigned)(request->at_us % 1000);

    json_begin_object(&json, NULL);
    json_put_u64(&json, names[FIELD_TIMESTAMP], request->at_us / 1000);
    if (below_ms != 0) {
        text_add_format(out, ".%03u", below_ms);
    }
    json_put_u64(&json, names[FIELD_INPUT], request->input_tokens);
    json_put_u64(&json, names[FIELD_OUTPUT], request->output_tokens);
    json_begin_array(&json, names[FIELD_IDS]);
    for (uint32_t i = 0; i < request->id_count; i++) {
        json_put_u64(&json, NULL, ids[request->first + i]);
    }
    json_end(&json);
    if (request->session != 0) {
        json_put_u64(&json, names[FIELD_SESSION], request->session);
        json_put_u64(&json, names[FIELD_TURN], request->turn);
    }
    if (request->block_tokens != mooncake_block_tokens) {
        json_put_u64(&json, names[FIELD_BLOCK], request->block_tokens);
    }
    json_end(&json);
    text_add_str(out, "\n");
}
