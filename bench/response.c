// SPDX-License-Identifier: Apache-2.0

#include "response.h"

#include "base/text.h"
#include "event.h"

void response_start(struct response *response)
{
    // Not the head's bytes: they are many, and head_size says which of them count.
    response->phase = RESPONSE_HEAD;
    response->status = 0;
    response->closes = false;
    response->line_size = 0;
    response->head_size = 0;
    response->left = 0;
    response->body_size = 0;
    response->event_time = 0;
    response->event_stream = 0;
}

// One header line, without its line end.
static bool header_read(struct response *response, struct slice line, uint32_t *framings)
{
    const uint8_t *colon = memchr(line.bytes, ':', line.size);
    if (!colon) {
        return false;
    }
    struct slice name = slice_of(line.bytes, (size_t)(colon - line.bytes));
    size_t at = name.size + 1;
    while (at < line.size && line.bytes[at] == ' ') {
        at++;
    }
    struct slice value = slice_of(line.bytes + at, line.size - at);
    if (slice_is_nocase(name, "content-length")) {
        response->phase = RESPONSE_SIZED;
        (*framings)++;
        return slice_parse_u64(value, &response->left);
    }
    if (slice_is_nocase(name, "transfer-encoding")) {
        response->phase = RESPONSE_CHUNK_SIZE;
        (*framings)++;
        return slice_is_nocase(value, "chunked");
    }
    if (slice_is_nocase(name, "connection")) {
        response->closes = slice_is_nocase(value, "close");
    }
    return true;
}

// A whole head, with its empty line.  False when it is none that we know how to read.
static bool head_read(struct response *response, struct slice head)
{
    if (head.size < 12 || !slice_starts_with(head, "HTTP/1.1 ") ||
        !slice_parse_u64(slice_of(head.bytes + 9, 3), &response->left)) {
        return false;
    }
    response->status = (uint32_t)response->left;
    response->left = 0;
    uint32_t framings = 0;
    bool first = true;
    for (;;) {
        const uint8_t *end = memmem(head.bytes, head.size, "\r\n", 2);
        size_t size = (size_t)(end - head.bytes);
        if (size == 0) {
            break;
        }
        if (!first && !header_read(response, slice_of(head.bytes, size), &framings)) {
            return false;
        }
        first = false;
        head = slice_of(end + 2, head.size - size - 2);
    }
    if (response->phase == RESPONSE_SIZED && response->left == 0) {
        response->phase = RESPONSE_DONE;
    }
    // Without a framing the body ends with the connection, which none of ours does; with two, one
    // of two readers would be wrong.
    return framings == 1;
}

static size_t head_take(struct response *response, struct slice bytes)
{
    size_t kept = response->head_size;
    size_t room = sizeof(response->head) - kept;
    size_t taken = bytes.size < room ? bytes.size : room;
    memcpy(response->head + kept, bytes.bytes, taken);
    size_t size = kept + taken;
    // The empty line may have begun in the bytes that were there before.
    size_t from = kept > 3 ? kept - 3 : 0;
    const uint8_t *end = memmem(response->head + from, size - from, "\r\n\r\n", 4);
    if (!end) {
        response->head_size = (uint32_t)size;
        if (size == sizeof(response->head)) {
            response->phase = RESPONSE_BROKEN;
        }
        return taken;
    }
    size_t head_size = (size_t)(end - response->head) + 4;
    if (!head_read(response, slice_of(response->head, head_size))) {
        response->phase = RESPONSE_BROKEN;
    }
    return head_size - kept;
}

// Goes through the body's bytes event by event.
static void events_read(struct response *response, struct slice bytes,
                        const struct response_observer *observer)
{
    while (bytes.size > 0) {
        uint32_t at = (uint32_t)(response->body_size % event_size);
        size_t taken = event_size - at < bytes.size ? event_size - at : bytes.size;
        if (at == 0) {
            response->event_time = 0;
            response->event_stream = 0;
        }
        // Behind the digits nothing is of interest.
        uint32_t end = event_stream_offset + event_stream_digits;
        for (size_t i = 0; i < taken && at + i < end; i++) {
            uint32_t place = at + (uint32_t)i;
            uint32_t digit = (uint32_t)(bytes.bytes[i] - '0');
            if (place - event_time_offset < event_time_digits) {
                response->event_time = response->event_time * 10 + digit;
            } else if (place - event_stream_offset < event_stream_digits) {
                response->event_stream = response->event_stream * 10 + digit;
            }
        }
        response->body_size += taken;
        if (at + taken == event_size) {
            observer->event(observer->owner, response->event_time, response->event_stream);
        }
        bytes = slice_of(bytes.bytes + taken, bytes.size - taken);
    }
}

static size_t body_take(struct response *response, struct slice bytes,
                        const struct response_observer *observer)
{
    size_t taken = response->left < bytes.size ? (size_t)response->left : bytes.size;
    response->left -= taken;
    if (response->phase == RESPONSE_CHUNK) {
        events_read(response, slice_of(bytes.bytes, taken), observer);
    } else {
        response->body_size += taken;
    }
    if (response->left == 0) {
        response->phase = response->phase == RESPONSE_SIZED ? RESPONSE_DONE : RESPONSE_CHUNK_END;
    }
    return taken;
}

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    uint8_t lower = ascii_lower(byte);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// The byte ends a size line: what comes is the chunk, or behind the last one the trailer.
static void chunk_begin(struct response *response)
{
    if (response->line_size == 0) {
        response->phase = RESPONSE_BROKEN;
        return;
    }
    response->line_size = 0;
    response->phase = response->left > 0 ? RESPONSE_CHUNK : RESPONSE_TRAILER;
}

// One byte of what surrounds the chunks.
static void framing_take(struct response *response, uint8_t byte)
{
    if (byte == '\r') {
        return;
    }
    switch (response->phase) {
    case RESPONSE_CHUNK_SIZE:
        if (byte == '\n') {
            chunk_begin(response);
        } else if (hex_value(byte) == -1 || response->line_size == 8) {
            response->phase = RESPONSE_BROKEN; // an extension, too: nobody here sends one
        } else {
            response->left = response->left * 16 + (uint64_t)hex_value(byte);
            response->line_size++;
        }
        break;
    case RESPONSE_CHUNK_END:
        response->phase = byte == '\n' ? RESPONSE_CHUNK_SIZE : RESPONSE_BROKEN;
        break;
    default: // RESPONSE_TRAILER
        if (byte != '\n') {
            response->line_size++;
        } else if (response->line_size == 0) {
            response->phase = RESPONSE_DONE;
        } else {
            response->line_size = 0;
        }
        break;
    }
}

size_t response_read(struct response *response, struct slice bytes,
                     const struct response_observer *observer)
{
    size_t at = 0;
    while (at < bytes.size) {
        struct slice rest = slice_of(bytes.bytes + at, bytes.size - at);
        switch (response->phase) {
        case RESPONSE_HEAD:
            at += head_take(response, rest);
            break;
        case RESPONSE_SIZED:
        case RESPONSE_CHUNK:
            at += body_take(response, rest, observer);
            break;
        case RESPONSE_DONE:
        case RESPONSE_BROKEN:
            return at;
        default:
            framing_take(response, rest.bytes[0]);
            at++;
            break;
        }
    }
    return at;
}
