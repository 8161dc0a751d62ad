// SPDX-License-Identifier: Apache-2.0
//
// One connection: requests are served one after the other.  Events of a stream are made when the
// socket has room, so a client that does not read costs no memory.

#include "base/base.h"
#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "http/problem.h"
#include "net/tcp.h"

#include <stdlib.h>

enum {
    head_size_max = 65536,
    in_size_first = 4096,
    in_size_kept = 65536, // larger buffers go back when their request has been read
    batch_size = 16384,   // of events in one write
    event_size_max = 6144,
};

static void connection_recycle(struct loop_deferred *deferred)
{
    struct engine_connection *c = CONTAINER_OF(deferred, struct engine_connection, recycle);
    c->site->group->held_size -= c->in_capacity;
    free(c->in);
    free(c->out);
    free(c);
}

void engine_connection_drop(struct engine_connection *c, enum transport_end end)
{
    struct engine_site *site = c->site;
    struct loop *loop = site->group->loop;

    if (c->job != NULL) {
        engine_node_cancel(site->ranks[c->job->rank].node, c->job);
        engine_job_destroy(&c->job);
    }
    loop_disarm(loop, &c->stall);
    transport_close(&c->transport, loop, end);
    list_remove(&c->all);
    site->connection_count--;
    loop_defer(loop, &c->recycle);
}

// OK: the kernel took all of it.
static enum status connection_flush(struct engine_connection *c)
{
    while (c->out != NULL) {
        struct slice rest = slice_of(c->out + c->out_sent, c->out_size - c->out_sent);
        size_t size = 0;
        enum status status = transport_write(&c->transport, &rest, 1, &size);
        if (status != STATUS_OK) {
            return status;
        }
        c->out_sent += size;
        if (c->out_sent == c->out_size) {
            free(c->out);
            c->out = NULL;
        }
    }
    return STATUS_OK;
}

// Writes, and keeps the bytes that the kernel does not take.
static enum status connection_write(struct engine_connection *c, struct slice first,
                                    struct slice second)
{
    ASSERT(c->out == NULL);
    c->out = malloc(first.size + second.size);
    if (c->out == NULL) {
        return STATUS_EXHAUSTED;
    }
    struct text out = text_over(c->out, first.size + second.size);
    text_add(&out, first);
    text_add(&out, second);
    c->out_size = out.size;
    c->out_sent = 0;
    enum status status = connection_flush(c);
    return status == STATUS_AGAIN ? STATUS_OK : status;
}

static enum status connection_send_document(struct engine_connection *c, uint32_t status,
                                            const char *type, struct slice body)
{
    char space[512];
    struct text head = text_over(space, sizeof(space));
    bool to_head = c->head.size > 0 && slice_is(http_head_method(&c->head), "HEAD");

    text_add_format(&head, "HTTP/1.1 %u %s\r\n", status, http_reason((uint16_t)status));
    if (type != NULL) {
        text_add_format(&head, "content-type: %s\r\n", type);
    }
    text_add_format(&head, "content-length: %zu\r\n%s\r\n", body.size,
                    c->is_closing ? "connection: close\r\n" : "");
    return connection_write(c, text_slice(&head), to_head ? slice_str("") : body);
}

static enum status connection_send_error(struct engine_connection *c, uint32_t status,
                                         const char *message)
{
    char space[1024];
    struct text body = text_over(space, sizeof(space));
    engine_response_error(status, message, &body);
    c->is_closing = true;
    return connection_send_document(c, status, "application/json", text_slice(&body));
}

static void connection_add_chunk(const struct engine_connection *c, struct slice bytes,
                                 struct text *out)
{
    if (c->is_http10) {
        text_add(out, bytes);
        return;
    }
    text_add_format(out, "%zx\r\n", bytes.size);
    text_add(out, bytes);
    text_add_str(out, "\r\n");
}

static enum status connection_send_stream_head(struct engine_connection *c)
{
    char space[256];
    struct text head = text_over(space, sizeof(space));
    c->is_closing |= c->is_http10;
    text_add_str(&head, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n");
    text_add_str(&head, c->is_http10 ? "" : "transfer-encoding: chunked\r\n");
    text_add_str(&head, c->is_closing ? "connection: close\r\n\r\n" : "\r\n");
    return connection_write(c, text_slice(&head), slice_str(""));
}

// Whether the response pauses now, before its next token.
static bool connection_is_paused(struct engine_connection *c)
{
    if (c->job->sent_tokens < c->job->stall_token) {
        return false;
    }
    if (!c->is_stalled) {
        c->is_stalled = true;
        loop_arm(c->site->group->loop, &c->stall, c->site->faults.stall_ms);
    }
    return true;
}

static void connection_end_job(struct engine_connection *c)
{
    // The node may be about to tell us of its last tokens, which we have just sent.
    engine_node_cancel(c->site->ranks[c->job->rank].node, c->job);
    engine_job_destroy(&c->job);
}

static enum status connection_pump_document(struct engine_connection *c)
{
    struct engine_job *job = c->job;
    struct engine_group *group = c->site->group;
    struct text out = text_over(group->scratch, group->scratch_size);

    if (!job->is_done || connection_is_paused(c)) {
        return STATUS_AGAIN;
    }
    job->response.output_tokens = job->request.made_tokens;
    job->response.cached_tokens = job->request.cached_tokens;
    engine_response_document(&job->response, &out);
    ASSERT(!out.overflow);
    connection_end_job(c);
    return connection_send_document(c, 200, "application/json", text_slice(&out));
}

static void connection_add_ending(struct engine_connection *c, struct text *out)
{
    struct engine_job *job = c->job;
    char space[event_size_max];
    struct text event = text_over(space, sizeof(space));

    job->response.output_tokens = job->request.made_tokens;
    job->response.cached_tokens = job->request.cached_tokens;
    if (job->wants_usage) {
        engine_response_usage_event(&job->response, &event);
    }
    engine_response_done_event(&event);
    connection_add_chunk(c, text_slice(&event), out);
    text_add_str(out, c->is_http10 ? "" : "0\r\n\r\n");
}

// AGAIN: there is nothing to send until the engine has made more.
static enum status connection_pump_events(struct engine_connection *c)
{
    struct engine_job *job = c->job;
    struct text out = text_over(c->site->group->scratch, batch_size);
    uint32_t made = job->request.made_tokens;

    while (job->sent_tokens < made && out.capacity - out.size > event_size_max &&
           !connection_is_paused(c)) {
        char space[event_size_max];
        struct text event = text_over(space, sizeof(space));
        bool is_last = job->is_done && job->sent_tokens + 1 == made;
        engine_response_event(&job->response, job->sent_tokens++, is_last, &event);
        connection_add_chunk(c, text_slice(&event), &out);
    }
    if (job->is_done && job->sent_tokens == made && out.capacity - out.size > event_size_max) {
        connection_add_ending(c, &out);
        connection_end_job(c);
    }
    if (out.size == 0) {
        return STATUS_AGAIN;
    }
    ASSERT(!out.overflow);
    return connection_write(c, text_slice(&out), slice_str(""));
}

// Room for `wanted` bytes of requests.
static enum status connection_grow(struct engine_connection *c, size_t wanted)
{
    struct engine_group *group = c->site->group;

    if (wanted <= c->in_capacity) {
        return STATUS_OK;
    }
    if (group->held_size + (wanted - c->in_capacity) > engine_held_max) {
        return STATUS_EXHAUSTED;
    }
    uint8_t *in = realloc(c->in, wanted);
    if (in == NULL) {
        return STATUS_EXHAUSTED;
    }
    group->held_size += wanted - c->in_capacity;
    c->in = in;
    c->in_capacity = wanted;
    c->head.bytes = in;
    return STATUS_OK;
}

static void connection_start_request(struct engine_connection *c)
{
    http_head_start(&c->head, HTTP_KIND_REQUEST,
                    (struct http_limits){.head_size = head_size_max, .target_size = 8192});
    c->body_size = 0;
    c->rest_at = 0;
}

// Forgets the request, and keeps the bytes behind it.
static void connection_end_request(struct engine_connection *c)
{
    size_t rest = c->in_size - c->rest_at;
    memmove(c->in, c->in + c->rest_at, rest);
    c->in_size = rest;
    if (c->in_capacity > in_size_kept && rest < in_size_first) {
        uint8_t *in = realloc(c->in, in_size_first);
        if (in != NULL) {
            c->site->group->held_size -= c->in_capacity - in_size_first;
            c->in = in;
            c->in_capacity = in_size_first;
        }
    }
    connection_start_request(c);
}

static enum status connection_scan_head(struct engine_connection *c)
{
    enum status status = http_head_feed(&c->head, slice_of(c->in, c->in_size));
    if (status != STATUS_OK) {
        return status;
    }
    if (c->head.content_length > engine_body_size_max) {
        return STATUS_TOO_LARGE;
    }
    http_body_start(&c->body, &c->head, CHUNKED_KEEP_DATA);
    if (c->head.framing != HTTP_NO_BODY && c->head.expects && c->in_size == c->head.size &&
        connection_write(c, slice_str("HTTP/1.1 100 Continue\r\n\r\n"), slice_str("")) !=
            STATUS_OK) {
        return STATUS_IO;
    }
    return connection_grow(c, c->head.size + c->head.content_length);
}

// OK: the request is whole.
static enum status connection_scan(struct engine_connection *c)
{
    enum status status = c->head.size == 0 ? connection_scan_head(c) : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    size_t body_end = c->head.size + c->body_size;
    size_t used = 0;
    size_t kept = 0;
    status = http_body_scan(&c->body, c->in + body_end, c->in_size - body_end, &used, &kept);
    c->body_size += kept;
    if (status == STATUS_AGAIN) {
        c->in_size = c->head.size + c->body_size; // the framing of chunks is dropped
    }
    c->rest_at = body_end + used;
    return c->body_size > engine_body_size_max ? STATUS_TOO_LARGE : status;
}

// OK: a request is whole.
static enum status connection_read_request(struct engine_connection *c)
{
    enum status status = c->in_size > 0 ? connection_scan(c) : STATUS_AGAIN;

    while (status == STATUS_AGAIN) {
        size_t size = 0;
        if (c->in_size == c->in_capacity) {
            size_t wanted = c->in_capacity > 0 ? 2 * c->in_capacity : in_size_first;
            status = connection_grow(c, wanted);
            if (status != STATUS_OK) {
                return status;
            }
        }
        status =
            transport_read(&c->transport, c->in + c->in_size, c->in_capacity - c->in_size, &size);
        if (status != STATUS_OK) {
            return status;
        }
        c->in_size += size;
        status = connection_scan(c);
    }
    return status;
}

static enum status connection_begin_job(struct engine_connection *c, struct engine_job *job)
{
    struct engine_site *site = c->site;
    enum status status = job->is_streamed ? connection_send_stream_head(c) : STATUS_OK;

    if (status != STATUS_OK) {
        engine_job_destroy(&job);
        return status;
    }
    c->job = job;
    c->is_stalled = false;
    job->owner = c;
    engine_node_submit(site->ranks[job->rank].node, job);
    return STATUS_OK;
}

static enum status connection_respond(struct engine_connection *c)
{
    struct engine_group *group = c->site->group;
    struct text body = text_over(group->scratch, group->scratch_size);
    const struct http_field *rank = http_head_find_text(&c->head, "x-data-parallel-rank");
    struct engine_api_call call = {
        .site = c->site,
        .method = http_head_method(&c->head),
        .path = http_head_path(&c->head),
        .rank = rank != NULL ? http_field_value(&c->head, rank) : (struct slice){0},
        .request = slice_of(c->in + c->head.size, c->body_size),
        .body = &body,
    };

    c->is_http10 = c->head.is_http10;
    c->is_closing = !c->head.keep_alive || c->is_http10;
    engine_api_respond(&call);
    enum status status =
        call.job != NULL ? connection_begin_job(c, call.job)
                         : connection_send_document(c, call.status, call.type, text_slice(&body));
    connection_end_request(c);
    return status;
}

// The bytes are not a valid request: respond with the error and close.
static enum status connection_refuse(struct engine_connection *c, enum status why)
{
    if (why == STATUS_MALFORMED) {
        bool is_head = c->head.size == 0 && c->head.why != NULL;
        return connection_send_error(c, 400,
                                     is_head ? c->head.why : "the body is not chunked as it says");
    }
    if (why == STATUS_EXHAUSTED) {
        return connection_send_error(c, 503, "too many bodies are being read");
    }
    if (c->head.size > 0) {
        return connection_send_error(c, 413, "the body is larger than 16 MiB");
    }
    return c->head.target_is_long ? connection_send_error(c, 414, "the target is longer than 8 KiB")
                                  : connection_send_error(c, 431, "the head is larger than 64 KiB");
}

// The client may still be sending: closing now would reset the connection and lose the response.
static enum status connection_drain(struct engine_connection *c)
{
    enum status status = STATUS_OK;
    if (!c->is_draining) {
        c->is_draining = true;
        transport_finish(&c->transport);
    }
    while (status == STATUS_OK) {
        size_t size = 0;
        struct engine_group *group = c->site->group;
        status = transport_read(&c->transport, group->scratch, group->scratch_size, &size);
    }
    return status;
}

static enum status connection_advance(struct engine_connection *c)
{
    enum status status = connection_flush(c);
    if (status != STATUS_OK) {
        return status;
    }
    if (c->job != NULL) {
        // A client that has stopped sending counts as gone, as for engines behind uvicorn.
        if (c->transport.hung_up) {
            return STATUS_CLOSED;
        }
        return c->job->is_streamed ? connection_pump_events(c) : connection_pump_document(c);
    }
    if (c->is_closing) {
        return connection_drain(c);
    }
    status = connection_read_request(c);
    if (status == STATUS_MALFORMED || status == STATUS_TOO_LARGE || status == STATUS_EXHAUSTED) {
        return connection_refuse(c, status);
    }
    return status == STATUS_OK ? connection_respond(c) : status;
}

static void connection_run(struct engine_connection *c)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        status = connection_advance(c);
    }
    if (status != STATUS_AGAIN || (c->job != NULL && c->transport.hung_up)) {
        engine_connection_drop(c, TRANSPORT_ORDERLY);
    }
}

static void engine_connection_ready(struct loop_source *source, uint32_t events)
{
    struct engine_connection *c = (struct engine_connection *)source;
    transport_note(&c->transport, events);
    connection_run(c);
}

void engine_connection_progress(void *owner, struct engine_job *job)
{
    (void)owner;
    connection_run(job->owner);
}

static void connection_stall_over(struct timer *timer)
{
    struct engine_connection *c = CONTAINER_OF(timer, struct engine_connection, stall);
    c->job->stall_token = UINT32_MAX;
    connection_run(c);
}

void engine_connection_accept(struct engine_site *site, int fd)
{
    struct loop *loop = site->group->loop;
    struct engine_connection *c = calloc(1, sizeof(*c));

    if (c == NULL || site->connection_count == engine_connection_max) {
        tcp_close(&fd);
        free(c);
        return;
    }
    c->transport.source.ready = engine_connection_ready;
    c->site = site;
    c->recycle.run = connection_recycle;
    c->stall.fire = connection_stall_over;
    connection_start_request(c);
    if (transport_open(&c->transport, loop, fd, NULL, NULL) != STATUS_OK) {
        free(c);
        return;
    }
    list_push(&site->connections, &c->all);
    site->connection_count++;
}
