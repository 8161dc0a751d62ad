// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_answer.h"

#include "base/base.h"
#include "base/histogram.h"

#include <stdlib.h>

enum { growth_first = 4096 };

void drive_answer_begin(struct drive_answer *answer, const struct drive_answer_options *options)
{
    // All but the head and the buffer, which would be most of it.
    memset(answer, 0, offsetof(struct drive_answer, response));
    answer->api = options->api;
    answer->keeps_text = options->keeps_text;
    answer->gaps = options->gaps;
    http_response_start(&answer->response, answer->buffer, drive_buffer_size);
}

static void answer_release_text(struct text *text)
{
    free(text->bytes);
    *text = (struct text){0};
}

void drive_answer_end(struct drive_answer *answer)
{
    answer_release_text(&answer->text);
    answer_release_text(&answer->body);
}

// Appends, growing up to the limit.  False: it is reached, or memory is short.
static bool answer_append(struct text *text, struct slice bytes)
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
static void answer_keep_text(struct drive_answer *answer, struct slice text)
{
    if (answer->keeps_text && text.size > 0 && !answer_append(&answer->text, text)) {
        answer->keeps_text = false;
        answer_release_text(&answer->text);
    }
}

static void answer_note_token(struct drive_answer *answer, uint64_t now_us)
{
    if (answer->token_events > 0 && answer->gaps != NULL) {
        histogram_add(answer->gaps, (now_us - answer->last_us) * 1000);
    }
    answer->first_us = answer->token_events == 0 ? now_us : answer->first_us;
    answer->last_us = now_us;
    answer->token_events++;
}

static void answer_note_usage(struct drive_answer *answer, const struct answer_usage *usage)
{
    // Some engines tell it with every event: the last one counts.
    if (usage->has_prompt_tokens) {
        answer->usage = *usage;
    }
}

static void answer_take_event(struct drive_answer *answer, struct slice data, uint64_t now_us)
{
    struct answer_event event;

    answer_read_event(answer->api, data, NULL, &event);
    if (event.has_token) {
        answer_note_token(answer, now_us);
        answer_keep_text(answer, event.text);
    }
    answer_note_usage(answer, &event.usage);
    answer->has_last |= event.is_last;
    if (event.is_error) {
        answer->error = DRIVE_BROKEN;
    }
}

static void answer_take_data(struct drive_answer *answer, struct slice bytes, uint64_t now_us)
{
    struct sse_event event;

    if (answer->status != 200) {
        return;
    }
    if (!answer->is_stream) {
        if (answer->error == DRIVE_FINE && !answer_append(&answer->body, bytes)) {
            answer->error = DRIVE_TOO_LARGE;
        }
        return;
    }
    while (sse_next(&answer->sse, &bytes, &event)) {
        if (event.data.size > 0) {
            answer_take_event(answer, event.data, now_us);
        }
    }
}

static void answer_read_document(struct drive_answer *answer, uint64_t now_us)
{
    struct answer_event event;

    answer_read_body(answer->api, text_slice(&answer->body), NULL, &event);
    if (event.is_error) {
        answer->error = DRIVE_BROKEN;
    } else if (!event.has_output) {
        answer->error = DRIVE_MALFORMED;
    }
    answer->first_us = now_us;
    answer->last_us = now_us;
    answer_note_usage(answer, &event.usage);
    answer_keep_text(answer, event.text);
}

// The last byte has come, as the framing says.
static bool answer_complete(struct drive_answer *answer, uint64_t now_us)
{
    if (answer->status != 200) {
        answer->error = DRIVE_STATUS;
    } else if (answer->error != DRIVE_FINE) {
        return true;
    } else if (!answer->is_stream) {
        answer_read_document(answer, now_us);
    } else if (!answer->has_last) {
        answer->error = DRIVE_INCOMPLETE;
    }
    return true;
}

static bool answer_fail(struct drive_answer *answer, enum drive_error error)
{
    answer->error = error;
    answer->keep_alive = false;
    return true;
}

// As text, where it has room; half a name is better than none, half a decision is not.
static void answer_copy_field(const struct http_head *head, const char *name, char *out,
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

static void answer_note_head(struct drive_answer *answer)
{
    struct http_head *head = &answer->response.head;

    answer->status = head->status;
    answer->is_stream = http_head_type_is(head, "text/event-stream");
    answer_copy_field(head, "x-warmpath-backend", answer->backend, drive_backend_size, true);
    answer_copy_field(head, "x-warmpath-decision", answer->decision, drive_decision_size, false);
    sse_begin(&answer->sse, answer->buffer, drive_buffer_size);
}

bool drive_answer_feed(struct drive_answer *answer, uint8_t *bytes, size_t size, uint64_t now_us)
{
    struct slice data;
    bool had_head = answer->response.has_head;
    enum status status = http_response_read(&answer->response, bytes, size, &data);

    if (!had_head && answer->response.has_head) {
        answer_note_head(answer);
    }
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        return answer_fail(answer, DRIVE_MALFORMED);
    }
    answer->keep_alive = answer->response.is_reusable;
    answer_take_data(answer, data, now_us);
    return status == STATUS_OK ? answer_complete(answer, now_us) : false;
}

void drive_answer_cut(struct drive_answer *answer, bool is_orderly, uint64_t now_us)
{
    bool has_begun = answer->response.has_head || answer->response.held > 0;

    if (is_orderly && http_response_close(&answer->response) == STATUS_OK) {
        answer_complete(answer, now_us);
    } else {
        answer_fail(answer, is_orderly && has_begun ? DRIVE_INCOMPLETE : DRIVE_RESET);
    }
}
