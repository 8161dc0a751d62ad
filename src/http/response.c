// SPDX-License-Identifier: Apache-2.0

#include "http/response.h"

#include "base/base.h"

#include <string.h>

// No server sends more than a few: more of them have no end.
enum { interim_count_max = 16 };

static void response_expect_head(struct http_response *response)
{
    struct http_limits limits = {response->capacity, response->capacity};
    http_head_start(&response->head, HTTP_KIND_RESPONSE, limits);
}

void http_response_start(struct http_response *response, uint8_t *buffer, uint32_t capacity)
{
    response->has_head = false;
    response->is_reusable = true;
    response->interim_count = 0;
    response->held = 0;
    response->capacity = capacity;
    response->buffer = buffer;
    response_expect_head(response);
}

// Feeds the head from the buffer, if a part of it is held, else from the bytes themselves.
static enum status response_feed_head(struct http_response *response, const uint8_t *bytes,
                                      size_t size)
{
    uint32_t room = response->capacity - response->held;
    uint32_t part = size < room ? (uint32_t)size : room;
    struct slice head = slice_of(bytes, size);

    if (response->held > 0) {
        memcpy(response->buffer + response->held, bytes, part);
        head = slice_of(response->buffer, response->held + part);
    }
    enum status status = http_head_feed(&response->head, head);
    if (status != STATUS_AGAIN) {
        return status;
    }
    if (part < size) {
        return STATUS_TOO_LARGE;
    }
    if (response->held == 0) {
        memcpy(response->buffer, bytes, part);
    }
    response->held += part;
    return STATUS_AGAIN;
}

// Takes heads from the front of the bytes until the last one is complete.
static enum status response_take_heads(struct http_response *response, uint8_t **bytes,
                                       size_t *size)
{
    while (!response->has_head) {
        if (*size == 0) {
            return STATUS_AGAIN;
        }
        enum status status = response_feed_head(response, *bytes, *size);
        if (status != STATUS_OK) {
            return status;
        }
        size_t taken = response->head.size - response->held;
        *bytes += taken;
        *size -= taken;
        response->held = 0;
        if (response->head.status >= 200) {
            response->has_head = true;
        } else if (++response->interim_count > interim_count_max) {
            return STATUS_EXHAUSTED;
        } else {
            response_expect_head(response);
        }
    }
    http_head_response_framing(&response->head, false);
    http_body_start(&response->body, &response->head, CHUNKED_KEEP_DATA);
    response->is_reusable = response->head.keep_alive && response->body.framing != HTTP_UNTIL_CLOSE;
    return STATUS_OK;
}

enum status http_response_read(struct http_response *response, uint8_t *bytes, size_t size,
                               struct slice *data)
{
    size_t used = 0;
    size_t kept = 0;
    enum status status = STATUS_OK;

    *data = (struct slice){0};
    if (!response->has_head) {
        status = response_take_heads(response, &bytes, &size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = http_body_scan(&response->body, bytes, size, &used, &kept);
    *data = slice_of(bytes, kept);
    // Bytes behind a response were not asked for: the connection cannot be trusted.
    response->is_reusable &= used == size;
    return status;
}

enum status http_response_close(struct http_response *response)
{
    return response->has_head ? http_body_close(&response->body) : STATUS_CLOSED;
}
