// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_response.h"

#include "base/base.h"
#include "base/histogram.h"

#include <stdlib.h>

enum { growth_first = 4096 };

void drive_response_begin(struct drive_response *response,
                          const struct drive_response_options *options)
{
    // All but the head and the buffer, which would be most of it.
    memset(response, 0, offsetof(struct drive_response, http));
    response->api = options->api;
    response->keeps_text = options->keeps_text;
    response->gaps = options->gaps;
    response->token_us = options->token_us;
    response->token_max = options->token_max;
    http_response_start(&response->http, response->buffer, drive_buffer_size);
}

static void response_release_text(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

void drive_response_end(struct drive_response *response)
{
    response_release_text(&response->text);
    response_release_text(&response->body);
}

// Appends, growing up to the limit.  False: it is reached, or memory is short.
static bool response_append(struct text *text, struct slice bytes)
{
    size_t capacity = text->capacity > 0 ? text->capacity : growth_first;
    while (capacity < text->size + bytes.size) {
        capacity *= 2;
    }
    if (capacity > drive_body_size_max) {
        return false;
    }
    if (capacity > text->capacity) {
        uint8_t *grown = realloc(text->bytes, capacity);
        if (grown == NULL) {
            return false;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    text_add(text, bytes);
    return true;
}

// Text that exceeds the limit is dropped whole.
static void response_keep_text(struct drive_response *response, struct slice text)
{
    if (response->keeps_text && text.size > 0 && !response_append(&response->text, text)) {
        response->keeps_text = false;
        response_release_text(&response->text);
    }
}

static void response_note_token(struct drive_response *response, uint64_t now_us)
{
    if (response->token_events > 0 && response->gaps != NULL) {
        histogram_add(response->gaps, (now_us - response->last_us) * 1000);
    }
    if (response->token_events < response->token_max) {
        response->token_us[response->token_events] = now_us;
    }
    response->first_us = response->token_events == 0 ? now_us : response->first_us;
    response->last_us = now_us;
    response->token_events++;
}

static void response_note_usage(struct drive_response *response, const struct response_usage *usage)
{
    // Some engines send usage with every event: the last one counts.
    if (usage->has_prompt_tokens) {
        response->usage = *usage;
    }
}

static void response_take_event(struct drive_response *response, struct slice data, uint64_t now_us)
{
    struct response_event event;

    response_read_event(response->api, data, NULL, &event);
    if (event.has_token) {
        response_note_token(response, now_us);
        response_keep_text(response, event.text);
    }
    response_note_usage(response, &event.usage);
    response->has_last |= event.is_last;
    if (event.is_error) {
        response->error = DRIVE_BROKEN;
    }
}

static void response_take_data(struct drive_response *response, struct slice bytes, uint64_t now_us)
{
    struct sse_event event;

    if (response->status != 200) {
        return;
    }
    if (!response->is_stream) {
        if (response->error == DRIVE_FINE && !response_append(&response->body, bytes)) {
            response->error = DRIVE_TOO_LARGE;
        }
        return;
    }
    while (sse_next(&response->sse, &bytes, &event)) {
        if (event.data.size > 0) {
            response_take_event(response, event.data, now_us);
        }
    }
}

static void response_read_document(struct drive_response *response, uint64_t now_us)
{
    struct response_event event;

    response_read_body(response->api, text_slice(&response->body), NULL, &event);
    if (event.is_error) {
        response->error = DRIVE_BROKEN;
    } else if (!event.has_output) {
        response->error = DRIVE_MALFORMED;
    }
    response->first_us = now_us;
    response->last_us = now_us;
    response_note_usage(response, &event.usage);
    response_keep_text(response, event.text);
}

// The last byte has come, as the framing says.
static bool response_complete(struct drive_response *response, uint64_t now_us)
{
    if (response->status != 200) {
        response->error = DRIVE_STATUS;
    } else if (response->error != DRIVE_FINE) {
        return true;
    } else if (!response->is_stream) {
        response_read_document(response, now_us);
    } else if (!response->has_last) {
        response->error = DRIVE_INCOMPLETE;
    }
    return true;
}

static bool response_fail(struct drive_response *response, enum drive_error error)
{
    response->error = error;
    response->keep_alive = false;
    return true;
}

// Copies the value of a header.  One that is too long is cut if `cuts`, else left out.
static void response_copy_field(const struct http_head *head, const char *name, char *out,
                                size_t size, bool cuts)
{
    const struct http_field *field = http_head_find_text(head, name);

    if (field == NULL) {
        return;
    }
    struct slice value = http_field_value(head, field);
    if (value.size < size || cuts) {
        memcpy(out, value.bytes, value.size < size ? value.size : size - 1);
    }
}

static void response_note_head(struct drive_response *response)
{
    struct http_head *head = &response->http.head;

    response->status = head->status;
    response->is_stream = http_head_type_is(head, "text/event-stream");
    response_copy_field(head, "x-warmpath-backend", response->backend, drive_backend_size, true);
    response_copy_field(head, "x-warmpath-decision", response->decision, drive_decision_size,
                        false);
    sse_begin(&response->sse, response->buffer, drive_buffer_size);
}

bool drive_response_feed(struct drive_response *response, uint8_t *bytes, size_t size,
                         uint64_t now_us)
{
    struct slice data;
    bool had_head = response->http.has_head;
    enum status status = http_response_read(&response->http, bytes, size, &data);

    if (!had_head && response->http.has_head) {
        response_note_head(response);
    }
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        return response_fail(response, DRIVE_MALFORMED);
    }
    response->keep_alive = response->http.is_reusable;
    response_take_data(response, data, now_us);
    return status == STATUS_OK ? response_complete(response, now_us) : false;
}

void drive_response_cut(struct drive_response *response, bool is_orderly, uint64_t now_us)
{
    bool has_begun = response->http.has_head || response->http.held > 0;

    if (is_orderly && http_response_close(&response->http) == STATUS_OK) {
        response_complete(response, now_us);
    } else {
        response_fail(response, is_orderly && has_begun ? DRIVE_INCOMPLETE : DRIVE_RESET);
    }
}
