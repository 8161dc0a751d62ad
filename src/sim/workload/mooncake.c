// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/mooncake.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "json/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // The longest that a double is written, and some.
    number_size_max = 63,
    request_room_start = 1024,
    id_room_start = 16384,
};

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
    uint64_t id_room;
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

static enum status complain_of_memory(struct mooncake_reader *reader)
{
    (void)complain(reader, "no memory for more");
    return STATUS_EXHAUSTED;
}

static enum status mooncake_add_id(struct mooncake_reader *reader, uint64_t id)
{
    struct mooncake_trace *trace = &reader->trace;
    if (trace->id_count == reader->id_room) {
        uint64_t room = reader->id_room == 0 ? id_room_start : 2 * reader->id_room;
        uint64_t *ids = room > UINT32_MAX ? NULL : realloc(trace->ids, room * sizeof(*ids));
        if (ids == NULL) {
            return complain_of_memory(reader);
        }
        trace->ids = ids;
        reader->id_room = room;
    }
    trace->ids[trace->id_count++] = id;
    return STATUS_OK;
}

static enum status mooncake_add_request(struct mooncake_reader *reader,
                                        const struct mooncake_request *request)
{
    struct mooncake_trace *trace = &reader->trace;
    if (trace->request_count == reader->request_room) {
        uint32_t room = reader->request_room == 0 ? request_room_start : 2 * reader->request_room;
        // Doubled past the last it is 0.
        struct mooncake_request *requests =
            room == 0 ? NULL : realloc(trace->requests, room * sizeof(*requests));
        if (requests == NULL) {
            return complain_of_memory(reader);
        }
        trace->requests = requests;
        reader->request_room = room;
    }
    trace->requests[trace->request_count++] = *request;
    return STATUS_OK;
}

static bool read_decimal(const struct json_value *value, double *out)
{
    char copy[number_size_max + 1];
    if (value->kind != JSON_NUMBER || value->raw.size > number_size_max) {
        return false;
    }
    memcpy(copy, value->raw.bytes, value->raw.size);
    copy[value->raw.size] = '\0';
    *out = strtod(copy, NULL);
    return true;
}

static enum status read_timestamp(struct mooncake_reader *reader, const struct json_value *value,
                                  uint64_t *at_us)
{
    double ms = 0;
    if (!read_decimal(value, &ms) || !(ms >= 0 && ms <= timestamp_max_ms)) {
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
        enum status status = mooncake_add_id(reader, id);
        if (status != STATUS_OK) {
            return status;
        }
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
    struct mooncake_request request = {
        .first = (uint32_t)reader->trace.id_count,
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
    request.id_count = (uint32_t)(reader->trace.id_count - request.first);
    return mooncake_add_request(reader, &request);
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

static bool mooncake_is_sorted(const struct mooncake_trace *trace)
{
    for (uint32_t i = 1; i < trace->request_count; i++) {
        if (trace->requests[i].at_us < trace->requests[i - 1].at_us) {
            return false;
        }
    }
    return true;
}

// Merges [from, middle) and [middle, to) of `in`; of equals the left one goes first, which qsort
// does not promise.
static void mooncake_merge(const struct mooncake_request *in, struct mooncake_request *out,
                           size_t from, size_t middle, size_t to)
{
    size_t left = from;
    size_t right = middle;
    for (size_t at = from; at < to; at++) {
        bool takes_left = left < middle && (right == to || in[left].at_us <= in[right].at_us);
        out[at] = takes_left ? in[left++] : in[right++];
    }
}

static enum status sort(struct mooncake_reader *reader)
{
    size_t count = reader->trace.request_count;
    if (mooncake_is_sorted(&reader->trace)) {
        return STATUS_OK;
    }
    struct mooncake_request *in = reader->trace.requests;
    struct mooncake_request *out = malloc(count * sizeof(*out));
    if (out == NULL) {
        return complain_of_memory(reader);
    }
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t from = 0; from < count; from += 2 * width) {
            size_t middle = from + width < count ? from + width : count;
            size_t to = middle + width < count ? middle + width : count;
            mooncake_merge(in, out, from, middle, to);
        }
        struct mooncake_request *swapped = in;
        in = out;
        out = swapped;
    }
    free(out);
    reader->trace.requests = in;
    return STATUS_OK;
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
    enum status status = mooncake_read_lines(&reader, text);
    if (status == STATUS_OK) {
        status = sort(&reader);
    }
    if (status != STATUS_OK) {
        mooncake_destroy(&reader.trace);
        return status;
    }
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

static void mooncake_add_field(struct text *out, enum field field, uint64_t number)
{
    text_add_format(out, ", \"%s\": ", names[field]);
    text_add_u64(out, number);
}

void mooncake_write(const struct mooncake_request *request, const uint64_t *ids, struct text *out)
{
    text_add_format(out, "{\"%s\": ", names[FIELD_TIMESTAMP]);
    text_add_u64(out, request->at_us / 1000);
    if (request->at_us % 1000 != 0) {
        text_add_format(out, ".%03u", (unsigned)(request->at_us % 1000));
    }
    mooncake_add_field(out, FIELD_INPUT, request->input_tokens);
    mooncake_add_field(out, FIELD_OUTPUT, request->output_tokens);
    text_add_format(out, ", \"%s\": [", names[FIELD_IDS]);
    for (uint32_t i = 0; i < request->id_count; i++) {
        text_add_str(out, i == 0 ? "" : ", ");
        text_add_u64(out, ids[request->first + i]);
    }
    text_add_str(out, "]");
    if (request->session != 0) {
        mooncake_add_field(out, FIELD_SESSION, request->session);
        mooncake_add_field(out, FIELD_TURN, request->turn);
    }
    if (request->block_tokens != mooncake_block_tokens) {
        mooncake_add_field(out, FIELD_BLOCK, request->block_tokens);
    }
    text_add_str(out, "}\n");
}
