// SPDX-License-Identifier: Apache-2.0

#include "exchange/preview.h"

#include "base/base.h"
#include "http/head.h"
#include "test.h"
#include "worker/buffer.h"
#include "worker/worker.h"

#include <stdio.h>
#include <string.h>

enum { buffer_size = 4096 };

#define CHUNKED "transfer-encoding: chunked\r\n"
#define STREAM "content-type: text/event-stream\r\n"
#define JSON "content-type: application/json\r\n"
#define ROLE "34\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n\r\n"
#define TOKEN "2f\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n\r\n"
#define ERROR "22\r\ndata: {\"error\":{\"message\":\"no\"}}\n\n\r\n"
#define END "0\r\n\r\n"

static uint8_t event_space[event_space_size];
static struct worker worker = {.event_space = event_space, .buffer_size = buffer_size};

static void give_buffers(uint32_t count)
{
    static _Alignas(4096) uint8_t memory[4 * buffer_size];
    CHECK(pool_memory_size(buffer_size, count) <= sizeof(memory));
    pool_init(&worker.buffers, memory, buffer_size, count);
}

static enum preview preview_of(const char *fields, struct slice body)
{
    struct http_head head;
    char bytes[512];
    int size = snprintf(bytes, sizeof(bytes), "HTTP/1.1 200 OK\r\n%s\r\n", fields);

    http_head_start(&head, HTTP_KIND_RESPONSE,
                    (struct http_limits){.head_size = 1024, .target_size = 1024});
    ASSERT(http_head_feed(&head, slice_of(bytes, (size_t)size)) == STATUS_OK);
    http_head_response_framing(&head, false);
    uint32_t taken = pool_in_use(&worker.buffers);
    enum preview preview = preview_response(&worker, PROMPT_CHAT, &head, body);
    ASSERT(pool_in_use(&worker.buffers) == taken);
    return preview;
}

// The preview of every prefix of the body: MORE, until the first that has `shown` bytes; then what
// the whole body is.
static bool decides_at(const char *fields, const char *body, size_t shown, enum preview whole)
{
    for (size_t size = 0; size <= strlen(body); size++) {
        enum preview expected = size < shown ? PREVIEW_MORE : whole;
        if (preview_of(fields, slice_of(body, size)) != expected) {
            printf("# %s %s: not %d at byte %zu\n", fields, body, (int)expected, size);
            return false;
        }
    }
    return true;
}

TEST(a_stream_shows_output_with_its_first_token)
{
    give_buffers(1);
    size_t shown = strlen(ROLE TOKEN) - 2; // its chunk's last line end may be missing
    CHECK(decides_at(STREAM CHUNKED, ROLE TOKEN TOKEN END, shown, PREVIEW_OUTPUT));
}

TEST(a_stream_of_a_role_and_an_error_shows_nothing_at_its_end)
{
    static const char *const bodies[] = {END, ERROR END, ROLE ERROR END};
    give_buffers(1);
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        CHECK(decides_at(STREAM CHUNKED, bodies[i], strlen(bodies[i]), PREVIEW_NOTHING));
    }
    // The model had nothing to say.
    CHECK(decides_at(STREAM CHUNKED, ROLE END, strlen(ROLE END), PREVIEW_OUTPUT));
}

TEST(a_document_is_judged_when_it_is_complete)
{
    give_buffers(1);
    CHECK(decides_at(JSON "content-length: 2\r\n", "{}", 2, PREVIEW_NOTHING));
    CHECK(decides_at(JSON "content-length: 41\r\n",
                     "{\"choices\":[{\"message\":{\"content\":\"x\"}}]}", 41, PREVIEW_OUTPUT));
    CHECK(
        decides_at("content-type: text/html\r\ncontent-length: 3\r\n", "<p>", 3, PREVIEW_NOTHING));
}

TEST(a_byte_of_content_that_is_not_read_is_output)
{
    give_buffers(1);
    CHECK(decides_at("content-encoding: gzip\r\ncontent-length: 2\r\n", "zz", 1, PREVIEW_OUTPUT));
    CHECK(decides_at(STREAM "content-length: 2\r\n", "da", 1, PREVIEW_OUTPUT));
}

TEST(an_invalid_body_and_a_lack_of_buffers_pass_on)
{
    struct buffer taken = {0};
    give_buffers(1);
    CHECK_EQ(preview_of(CHUNKED, slice_str("zz\r\n")), PREVIEW_OUTPUT);
    CHECK(buffer_take(&worker, &taken));
    CHECK_EQ(preview_of(JSON "content-length: 2\r\n", slice_str("{}")), PREVIEW_OUTPUT);
    buffer_put(&worker, &taken);
}
