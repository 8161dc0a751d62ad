// SPDX-License-Identifier: Apache-2.0

#include "net/fetch.h"

#include "base/base.h"
#include "base/text.h"
#include "http/response.h"
#include "net/tcp.h"
#include "net/tls.h"
#include "net/transport.h"

#include <errno.h>
#include <stdlib.h>

enum {
    // A list of models with all their permissions is some kilobytes each.
    response_size_usual = 1 << 20,
    // A path and a key of up to 4096 bytes each, and the other fields.
    request_head_size_max = 12288,
    head_size_max = 65536,
    // After this many reads in a turn, other sources of the loop come first.
    reads_per_turn = 16,
    resume_ms = 1,
};

struct fetch {
    struct transport transport; // first: `ready` finds us from here
    struct loop *loop;
    struct timer timer;
    struct timer resume; // events are edges: bytes that are left unread cause no further one
    struct loop_deferred recycle;
    fetch_done_fn *done;
    void *owner;
    const char *why; // connecting failed at once; reported from the loop
    bool connected;
    bool takes_part;
    size_t sent; // of the request
    uint64_t sent_us;
    struct http_response response;
    uint8_t *kept; // its body as far as it has come; behind it, room for the head
    size_t kept_size;
    size_t response_size_max; // of head and body
    size_t request_size;
    uint8_t request[]; // head and body
};

static void fetch_free(struct loop_deferred *deferred)
{
    struct fetch *fetch = CONTAINER_OF(deferred, struct fetch, recycle);
    free(fetch->kept);
    free(fetch);
}

static void fetch_finish(struct fetch *fetch)
{
    loop_disarm(fetch->loop, &fetch->timer);
    loop_disarm(fetch->loop, &fetch->resume);
    transport_close(&fetch->transport, fetch->loop, TRANSPORT_ORDERLY);
    loop_defer(fetch->loop, &fetch->recycle);
}

void fetch_cancel(struct fetch **fetch_ptr)
{
    struct fetch *fetch = *fetch_ptr;
    *fetch_ptr = NULL;
    if (fetch != NULL) {
        fetch_finish(fetch);
    }
}

static void fetch_report(struct fetch *fetch, const struct fetch_result *result)
{
    fetch_finish(fetch);
    fetch->done(fetch->owner, result);
}

static void fetch_fail(struct fetch *fetch, const char *why)
{
    fetch_report(fetch, &(struct fetch_result){.why = why});
}

static void fetch_succeed(struct fetch *fetch, bool is_part)
{
    fetch_report(fetch, &(struct fetch_result){
                            .status = fetch->response.head.status,
                            .is_part = is_part,
                            .body = slice_of(fetch->kept, fetch->kept_size),
                            .took_us = loop_now_us(fetch->loop) - fetch->sent_us,
                        });
}

static const char *fetch_why_malformed(enum status status, bool closed)
{
    if (status == STATUS_EXHAUSTED) {
        return "too many interim responses";
    }
    return closed ? "the connection was closed" : "invalid HTTP response";
}

// Bytes that the response may still have.
static size_t fetch_room(const struct fetch *fetch)
{
    const struct http_response *response = &fetch->response;
    size_t taken = response->has_head ? response->head.size + fetch->kept_size : response->held;
    ASSERT(taken <= fetch->response_size_max);
    return fetch->response_size_max - taken;
}

// Reads once.  False: the fetch is over, or no more bytes are there.
static bool fetch_read_some(struct fetch *fetch)
{
    size_t size = 0;
    size_t room = fetch_room(fetch);
    if (room == 0 && fetch->takes_part && fetch->response.has_head) {
        fetch_succeed(fetch, true);
        return false;
    }
    if (room == 0) {
        fetch_fail(fetch, "the response is too large");
        return false;
    }
    uint8_t *end = fetch->kept + fetch->kept_size;
    enum status status = transport_read(&fetch->transport, end, room, &size);
    if (status == STATUS_AGAIN) {
        return false;
    }
    if (status == STATUS_IO) {
        fetch_fail(fetch, strerrordesc_np(errno));
        return false;
    }
    bool closed = status == STATUS_CLOSED;
    struct slice data = {0};
    if (closed) {
        status = http_response_close(&fetch->response);
    } else {
        status = http_response_read(&fetch->response, end, size, &data);
    }
    if (data.size > 0) {
        memmove(end, data.bytes, data.size);
        fetch->kept_size += data.size;
    }
    if (status == STATUS_OK) {
        fetch_succeed(fetch, false);
    } else if (status != STATUS_AGAIN) {
        fetch_fail(fetch, fetch_why_malformed(status, closed));
    }
    return status == STATUS_AGAIN;
}

static void fetch_read(struct fetch *fetch)
{
    for (uint32_t reads = 0; fetch->transport.can_read; reads++) {
        if (reads == reads_per_turn) {
            loop_arm(fetch->loop, &fetch->resume, resume_ms);
            return;
        }
        if (!fetch_read_some(fetch)) {
            return;
        }
    }
}

static void fetch_resume(struct timer *timer)
{
    fetch_read(CONTAINER_OF(timer, struct fetch, resume));
}

static enum status fetch_send(struct fetch *fetch)
{
    if (!fetch->connected) {
        if (!fetch->transport.can_write) {
            return STATUS_AGAIN;
        }
        errno = tcp_error(fetch->transport.source.fd);
        if (errno != 0) {
            return STATUS_IO;
        }
        fetch->connected = true;
    }
    enum status status = transport_handshake(&fetch->transport);
    while (status == STATUS_OK && fetch->sent < fetch->request_size) {
        struct slice rest =
            slice_of(fetch->request + fetch->sent, fetch->request_size - fetch->sent);
        size_t size = 0;
        status = transport_write(&fetch->transport, &rest, 1, &size);
        fetch->sent += status == STATUS_OK ? size : 0;
        fetch->sent_us = loop_now_us(fetch->loop);
    }
    return status;
}

static void fetch_ready(struct loop_source *source, uint32_t events)
{
    struct fetch *fetch = (struct fetch *)source;
    transport_note(&fetch->transport, events);
    enum status status = fetch_send(fetch);
    if (status == STATUS_OK) {
        fetch_read(fetch);
    } else if (status != STATUS_AGAIN) {
        // TLS has no error before there is a connection.
        fetch_fail(fetch,
                   fetch->connected ? transport_why(&fetch->transport) : strerrordesc_np(errno));
    }
}

static void fetch_expire(struct timer *timer)
{
    struct fetch *fetch = CONTAINER_OF(timer, struct fetch, timer);
    fetch_fail(fetch, fetch->why != NULL ? fetch->why : "timed out");
}

static void fetch_write_request(struct fetch *fetch, const struct fetch_options *options)
{
    const struct fetch_peer *peer = options->peer;
    size_t body_size = options->body.size;
    struct text out = text_over(fetch->request, request_head_size_max + body_size);

    text_add_format(&out, "%s %s HTTP/1.1\r\nhost: %s\r\n", body_size > 0 ? "POST" : "GET",
                    options->path, peer->authority);
    if (body_size > 0) {
        text_add_format(&out, "content-type: application/json\r\ncontent-length: %zu\r\n",
                        body_size);
    }
    if (peer->authorization != NULL) {
        text_add_format(&out, "authorization: %s\r\n", peer->authorization);
    }
    text_add_str(&out, "user-agent: warmpath\r\naccept: */*\r\nconnection: close\r\n\r\n");
    text_add(&out, options->body);
    ASSERT(!out.overflow);
    fetch->request_size = out.size;
}

// EXHAUSTED: nothing was tried.  Another failure is in fetch->why.
static enum status fetch_connect(struct fetch *fetch, const struct fetch_peer *peer,
                                 struct tls_context *tls)
{
    int fd = -1;

    if (peer->tls && tls == NULL) {
        fetch->why = "TLS could not be set up";
        return STATUS_IO;
    }
    enum status status = tcp_connect(&peer->address, &fd);
    if (status == STATUS_OK) {
        status =
            transport_open(&fetch->transport, fetch->loop, fd, peer->tls ? tls : NULL, peer->host);
    }
    if (status != STATUS_OK) {
        fetch->why = status == STATUS_IO ? strerrordesc_np(errno) : status_text(status);
    }
    return status;
}

struct fetch *fetch_start(const struct fetch_options *options)
{
    struct fetch *fetch = calloc(1, sizeof(*fetch) + request_head_size_max + options->body.size);
    size_t response_size_max =
        options->response_size_max > 0 ? options->response_size_max : response_size_usual;
    // The kernel gives pages only to the bytes that are written.
    uint8_t *kept = malloc(response_size_max + head_size_max);
    if (fetch == NULL || kept == NULL) {
        free(fetch);
        free(kept);
        return NULL;
    }
    fetch->transport.source.ready = fetch_ready;
    fetch->loop = options->loop;
    fetch->timer.fire = fetch_expire;
    fetch->resume.fire = fetch_resume;
    fetch->recycle.run = fetch_free;
    fetch->takes_part = options->takes_part;
    fetch->done = options->done;
    fetch->owner = options->owner;
    fetch->kept = kept;
    fetch->response_size_max = response_size_max;
    fetch_write_request(fetch, options);
    http_response_start(&fetch->response, kept + response_size_max, head_size_max);

    if (fetch_connect(fetch, options->peer, options->tls) == STATUS_EXHAUSTED) {
        fetch_free(&fetch->recycle);
        return NULL;
    }
    // A failure that is known already is reported from the loop, like all results.
    loop_arm(options->loop, &fetch->timer, fetch->why == NULL ? options->timeout_ms : 0);
    return fetch;
}
