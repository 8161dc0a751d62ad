// SPDX-License-Identifier: Apache-2.0
//
// drive_response.h -- reads one HTTP response of an engine as its bytes arrive, and times its
// tokens.
//
//     head | event | event event | ev
//     ent | [DONE]
//
// The body is an event stream or a JSON document, by its content type.  The body of a status other
// than 200 is skipped, so that the connection can be reused.
//
// Pure: time is handed in with the bytes.  Threads: one owner.  Memory: a buffer of fixed size
// inside; documents, and text that is to be kept, grow from the heap up to drive_body_size_max.
#pragma once

#include "api/response_body.h"
#include "base/text.h"
#include "http/response.h"
#include "http/sse.h"

struct histogram;

enum drive_error {
    DRIVE_FINE,
#define ERROR(id, name, meaning) DRIVE_##id,
#include "drive/drive_errors.def"
#undef ERROR
    drive_error_count,
};

enum {
    drive_buffer_size = 32768, // a head, or an event that comes in pieces
    drive_backend_size = 64,
    drive_decision_size = 512,
    drive_body_size_max = 4 << 20,
};

struct drive_response {
    // The result; valid once the response is complete.
    enum drive_error error;
    uint16_t status;   // 0: there was not even a head
    uint64_t first_us; // of the first token; 0: none came
    uint64_t last_us;  // of the last one
    uint32_t token_events;
    struct response_usage usage;
    bool keep_alive;
    char backend[drive_backend_size]; // x-warmpath-backend; empty: it did not say
    // x-warmpath-decision; empty: it did not say, or more than fits
    char decision[drive_decision_size];
    struct text text; // of the response, JSON-escaped; only if keeps_text

    // Its own.
    enum prompt_api api;
    bool keeps_text;
    bool is_stream;
    bool has_last; // [DONE] came
    struct histogram *gaps;
    uint64_t *token_us;
    uint32_t token_max;
    struct text body;
    struct http_response http;
    struct sse sse;
    uint8_t buffer[drive_buffer_size];
};

struct drive_response_options {
    enum prompt_api api;
    bool keeps_text;
    struct histogram *gaps; // of the times between tokens, in ns; NULL: not wanted
    uint64_t *token_us;     // of the first token_max tokens
    uint32_t token_max;
};

// Of one that was begun before, _end was called.
void drive_response_begin(struct drive_response *response,
                          const struct drive_response_options *options);

// Gives memory back; results stay, but for the text.
void drive_response_end(struct drive_response *response);

// Reads bytes that have arrived, and changes them.  True: the response has ended, and `error` says
// how.
bool drive_response_feed(struct drive_response *response, uint8_t *bytes, size_t size,
                         uint64_t now_us);

// No more will come: the server has closed the connection, or (not orderly) it broke.
void drive_response_cut(struct drive_response *response, bool is_orderly, uint64_t now_us);
