// SPDX-License-Identifier: Apache-2.0

#include "exchange/hop.h"

#include "base/base.h"
#include "exchange/observer.h"
#include "exchange/request.h"
#include "fleet/backend.h"
#include "sys/log.h"
#include "worker/upstream.h"

#include <errno.h>
#include <string.h>

enum {
    // Reads in one call: after that others have their turn.
    hop_reads_max = 16,
    hop_part_max = body_part_max + 4,
};

static enum hop_news hop_fail(struct hop *hop, enum hop_failure failure)
{
    hop->failure = failure;
    return HOP_FAILED;
}

static enum hop_news hop_starve(struct hop *hop, const char *what)
{
    hop->missing = what;
    return HOP_STARVED;
}

// Only a port where no process listens shows that the engine is gone, and its cache with it; a
// network or a certificate that fails shows neither.
static enum hop_news hop_connect_failed(struct hop *hop, int error)
{
    hop->is_refused = error == ECONNREFUSED;
    return hop_fail(hop, HOP_UNREACHABLE);
}

static enum hop_news hop_open(struct hop *hop)
{
    enum status status = upstream_open(hop->worker, hop->backend, hop->is_fresh, &hop->upstream);

    if (status == STATUS_EXHAUSTED) {
        return hop_starve(hop, "no connection is free");
    }
    if (status != STATUS_OK) {
        return hop_connect_failed(hop, errno);
    }
    upstream_use(hop->upstream, hop->wake, hop->owner);
    hop->stage = HOP_CONNECTING;
    return hop->upstream->connected ? HOP_WAITS : HOP_OPENED;
}

static enum hop_news hop_connect(struct hop *hop)
{
    enum status status = upstream_connect(hop->upstream);

    if (status == STATUS_AGAIN) {
        return HOP_WAITS;
    }
    if (status != STATUS_OK) {
        int error = hop->upstream->connected ? 0 : errno;
        log_debug("backend %s: cannot connect: %s", hop->backend->url,
                  transport_why(&hop->upstream->transport));
        return hop_connect_failed(hop, error);
    }
    if (hop->sending.bytes == NULL && !buffer_take(hop->worker, &hop->sending)) {
        return hop_starve(hop, "no buffer is free");
    }
    hop->stage = HOP_SENDING;
    hop->sent = 0;
    hop->send_failed = false;
    hop->got_bytes = false;
    return HOP_CONNECTED;
}

// Head, edited body, and for a chunked one its end: the parts of them that are not sent yet.
static uint32_t hop_parts_left(const struct hop *hop, struct slice parts[hop_part_max])
{
    const struct request *request = hop->request;
    struct slice all[hop_part_max] = {slice_of(hop->sending.bytes, hop->sending.end)};
    uint32_t all_count = 1 + body_edits_parts(&request->edits, request_body(request), all + 1);
    size_t skip = hop->sent;
    uint32_t count = 0;

    if (request->head.framing == HTTP_CHUNKED) {
        all[all_count++] = slice_str(request->body_size > 0 ? "\r\n0\r\n" : "0\r\n");
        all[all_count++] = slice_of(request->body + request->body_size, request->trailer_size);
        all[all_count++] = slice_str("\r\n");
    }
    for (uint32_t i = 0; i < all_count; i++) {
        size_t passed = skip < all[i].size ? skip : all[i].size;
        skip -= passed;
        if (all[i].size > passed) {
            parts[count++] = slice_of(all[i].bytes + passed, all[i].size - passed);
        }
    }
    return count;
}

// OK: all is sent.
static enum status hop_send(struct hop *hop)
{
    struct transport *transport = &hop->upstream->transport;
    struct slice parts[hop_part_max];
    uint32_t count;

    ASSERT(buffer_slice(&hop->sending).size > 0);
    while ((count = hop_parts_left(hop, parts)) > 0) {
        size_t moved = 0;
        enum status status =
            transport->can_write ? transport_write(transport, parts, count, &moved) : STATUS_AGAIN;
        if (status != STATUS_OK) {
            return status;
        }
        hop->sent += moved;
    }
    buffer_put(hop->worker, &hop->sending);
    return STATUS_OK;
}

// Feeds what has been received to a parser: the worker's own if the head came at once, else one
// that the hop keeps.
static enum status hop_feed(struct hop *hop)
{
    struct worker *worker = hop->worker;
    struct http_limits limits = {.head_size = worker->head_size_max,
                                 .target_size = worker->head_size_max};

    if (hop->parser == NULL) {
        http_head_start(worker->response_head, HTTP_KIND_RESPONSE, limits);
        hop->head = worker->response_head;
        enum status status = http_head_feed(hop->head, buffer_slice(&hop->receiving));
        if (status != STATUS_AGAIN) {
            return status;
        }
        hop->parser = pool_take(&worker->heads);
        if (hop->parser == NULL) {
            return STATUS_EXHAUSTED;
        }
        http_head_start(hop->parser, HTTP_KIND_RESPONSE, limits);
    }
    hop->head = hop->parser;
    return http_head_feed(hop->head, buffer_slice(&hop->receiving));
}

// HOP_WAITS: more bytes are needed.
static enum hop_news hop_parse(struct hop *hop)
{
    switch (hop_feed(hop)) {
    case STATUS_OK:
        return HOP_HEAD;
    case STATUS_AGAIN:
        return HOP_WAITS;
    case STATUS_EXHAUSTED:
        return hop_starve(hop, "no head is free");
    default:
        log_warn_seldom(hop->backend->id, "backend %s: sent an invalid HTTP response: %s",
                        hop->backend->url,
                        hop->head->why != NULL ? hop->head->why : "the head is too large");
        return hop_fail(hop, HOP_INVALID);
    }
}

// Makes room at the end of the buffer for the next read.
static bool hop_make_room(struct hop *hop)
{
    struct buffer *in = &hop->receiving;

    if (in->bytes == NULL) {
        return buffer_take(hop->worker, in);
    }
    if (in->begin > 0) {
        memmove(in->bytes, in->bytes + in->begin, in->end - in->begin);
        in->end -= in->begin;
        in->begin = 0;
    }
    return true;
}

static enum hop_news hop_receive(struct hop *hop)
{
    struct transport *transport = &hop->upstream->transport;
    struct buffer *in = &hop->receiving;

    unsigned turn = 0;
    for (; turn < hop_reads_max; turn++) {
        bool is_old = in->end - in->begin == hop->previewed;
        enum hop_news news = is_old ? HOP_WAITS : hop_parse(hop);
        if (news != HOP_WAITS) {
            return news;
        }
        if (!transport->can_read) {
            break;
        }
        if (!hop_make_room(hop)) {
            return hop_starve(hop, "no buffer is free");
        }
        size_t size = 0;
        enum status status =
            transport_read(transport, in->bytes + in->end, hop->worker->read_size - in->end, &size);
        if (status == STATUS_AGAIN) {
            break;
        }
        if (status != STATUS_OK) {
            return hop_fail(hop, HOP_RESET);
        }
        in->end += (uint32_t)size;
        hop->got_bytes = true;
    }
    if (buffer_is_empty(in)) {
        buffer_put(hop->worker, in);
    }
    return turn == hop_reads_max ? HOP_GIVES_WAY : HOP_WAITS;
}

// Sends what is left of the request, and reads: the backend may respond before it has read all.
static enum hop_news hop_converse(struct hop *hop)
{
    struct transport *transport = &hop->upstream->transport;

    if (hop->stage == HOP_SENDING && !hop->send_failed) {
        enum status status = hop_send(hop);
        if (status == STATUS_OK) {
            hop->stage = HOP_AWAITING;
            return HOP_SENT;
        }
        if (status != STATUS_AGAIN) {
            hop->send_failed = true;
            transport->can_read = true;
        }
    }
    enum hop_news news = hop_receive(hop);
    return news == HOP_WAITS && hop->send_failed ? hop_fail(hop, HOP_RESET) : news;
}

enum hop_news hop_run(struct hop *hop)
{
    ASSERT(hop->backend != NULL && hop->request != NULL);

    if (hop->stage == HOP_IDLE) {
        enum hop_news news = hop_open(hop);
        if (news != HOP_WAITS) {
            return news;
        }
    }
    ASSERT(hop->upstream != NULL);
    return hop->stage == HOP_CONNECTING ? hop_connect(hop) : hop_converse(hop);
}

static void hop_drop_parser(struct hop *hop)
{
    if (hop->parser != NULL) {
        pool_put(&hop->worker->heads, &hop->parser);
    }
    hop->head = NULL;
}

void hop_skip_head(struct hop *hop)
{
    ASSERT(hop->head != NULL && hop->head->size > 0);
    hop->receiving.begin += hop->head->size;
    hop_drop_parser(hop);
}

void hop_await_more(struct hop *hop)
{
    ASSERT(hop->head != NULL && !buffer_is_empty(&hop->receiving));
    hop->previewed = hop->receiving.end - hop->receiving.begin;
    hop_drop_parser(hop);
}

struct buffer hop_take_response(struct hop *hop)
{
    struct buffer rest = hop->receiving;

    ASSERT(hop->stage == HOP_SENDING || hop->stage == HOP_AWAITING);
    rest.begin += hop->head->size;
    hop->receiving = (struct buffer){0};
    hop_drop_parser(hop);
    buffer_put(hop->worker, &hop->sending);
    hop->request = NULL;
    hop->stage = HOP_READING;
    return rest;
}

void hop_reopen(struct hop *hop)
{
    ASSERT(hop->upstream->reused && !hop->got_bytes);
    hop->was_sent = hop->stage == HOP_AWAITING;
    upstream_close(&hop->upstream);
    buffer_put(hop->worker, &hop->receiving);
    hop_drop_parser(hop);
    hop->is_fresh = true;
    hop->stage = HOP_IDLE;
}

static struct progress_request hop_progress(const struct hop *hop)
{
    return (struct progress_request){.is_streamed = hop->is_streamed, .has_begun = hop->has_begun};
}

void hop_pause(struct hop *hop)
{
    if (hop->is_counted) {
        progress_end(&hop->backend->progress, hop_progress(hop));
        hop->is_counted = false;
    }
}

void hop_go_on(struct hop *hop, uint64_t now_ms)
{
    if (!hop->is_counted && hop->has_progress) {
        progress_begin(&hop->backend->progress, hop_progress(hop), now_ms);
        hop->is_counted = true;
    }
}

void hop_note_output(struct hop *hop, uint64_t now_ms)
{
    if (!hop->is_counted) {
        return;
    }
    if (hop->has_begun) {
        progress_output(&hop->backend->progress, now_ms);
        backend_moved(hop->backend);
    } else {
        progress_first(&hop->backend->progress, hop->begun_ms, now_ms);
        hop->has_begun = true;
    }
}

void hop_end(struct hop *hop, bool keep)
{
    if (hop->backend == NULL) {
        return;
    }
    if (hop->upstream != NULL) {
        if (keep) {
            upstream_keep(&hop->upstream);
        } else {
            upstream_close(&hop->upstream);
        }
    }
    observer_end(&hop->observer);
    buffer_put(hop->worker, &hop->sending);
    buffer_put(hop->worker, &hop->receiving);
    hop_drop_parser(hop);
    if (hop->on_kind_trial) {
        refusals_end_trial(&hop->backend->refusals, hop->kind);
    }
    hop_pause(hop);
    backend_end(hop->backend, hop->on_trial);
    hop->backend = NULL;
    hop->request = NULL;
}
