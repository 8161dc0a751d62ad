// SPDX-License-Identifier: Apache-2.0

#include "admin/admin.h"

#include "admin/admin_api.h"
#include "admin/metrics_response.h"
#include "admin/stream.h"
#include "admin/web.h"
#include "base/base.h"
#include "base/list.h"
#include "base/text.h"
#include "config/config.h"
#include "http/head.h"
#include "http/problem.h"
#include "net/tcp.h"
#include "net/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    connection_count_max = 64,
    head_size_max = 65536,
    request_size_max = 8 << 20,  // a request to be explained may be long
    response_size_max = 8 << 20, // thousands of backends with their models
    time_ms_max = 10000,
};

struct connection {
    struct transport transport; // first: `ready` finds us from here
    struct admin *admin;
    struct admin_listener *listener; // that accepted it
    struct list_node all;            // in admin->connections
    struct timer timer;
    struct loop_deferred recycle;
    struct http_head head;
    uint8_t *in; // of request_size_max; pages are touched when bytes arrive
    uint32_t in_size;
    uint8_t *out; // NULL until there is a response
    size_t out_size;
    size_t sent;
    struct stream stream; // instead of a response
    bool is_stream;
};

struct admin_listener {
    struct loop_source source; // first: `ready` finds us from here; fd -1: not open
    struct admin *admin;
    uint32_t connection_count;
};

struct admin {
    struct admin_listener api;
    struct admin_listener metrics; // GET /metrics and nothing else, without a token
    struct admin_options options;
    struct list_node *connections;
    uint64_t start_ms;
    struct streams streams;
};

static void admin_recycle(struct loop_deferred *deferred)
{
    struct connection *c = CONTAINER_OF(deferred, struct connection, recycle);
    free(c->in);
    free(c->out);
    free(c);
}

static void admin_drop(struct connection *c)
{
    struct loop *loop = c->admin->options.loop;
    stream_close(&c->stream);
    list_remove(&c->all);
    c->listener->connection_count--;
    loop_disarm(loop, &c->timer);
    transport_close(&c->transport, loop, TRANSPORT_ORDERLY);
    loop_defer(loop, &c->recycle);
}

// In constant time, so that the token cannot be guessed byte by byte.
static bool token_is_good(const struct connection *c)
{
    const struct config *config = *c->admin->options.config;
    const struct http_field *field = http_head_find(&c->head, HTTP_NAME_AUTHORIZATION);
    static const char scheme[] = "Bearer ";

    if (field == NULL || config->admin.token == NULL) {
        return false;
    }
    struct slice given = http_field_value(&c->head, field);
    if (given.size < sizeof(scheme) - 1 ||
        !slice_equal_nocase(slice_of(given.bytes, sizeof(scheme) - 1), slice_str(scheme))) {
        return false;
    }
    given = slice_of(given.bytes + sizeof(scheme) - 1, given.size - (sizeof(scheme) - 1));
    struct slice wanted = slice_str(config->admin.token);
    volatile uint8_t differs = given.size != wanted.size;
    for (size_t i = 0; i < given.size; i++) {
        differs |= (uint8_t)(given.bytes[i] ^ wanted.bytes[wanted.size > 0 ? i % wanted.size : 0]);
    }
    return differs == 0;
}

static void admin_refuse(struct text *out, enum http_problem problem, const char *detail)
{
    http_problem_response(&(struct http_problem_response){.problem = problem,
                                                          .detail = slice_str(detail),
                                                          .close = true},
                          out);
}

static enum http_problem size_problem(const struct connection *c)
{
    if (c->head.target_is_long) {
        return HTTP_PROBLEM_LONG_URI;
    }
    return c->head.size == 0 ? HTTP_PROBLEM_LARGE_HEAD : HTTP_PROBLEM_LARGE_BODY;
}

static void stream_ended(struct stream *stream)
{
    admin_drop(CONTAINER_OF(stream, struct connection, stream));
}

// False: all streams are taken, or memory is short.
static bool begin_stream(struct connection *c)
{
    c->is_stream = stream_open(&c->admin->streams, &c->stream, &c->transport, stream_ended);
    if (c->is_stream) {
        loop_disarm(c->admin->options.loop, &c->timer); // streams have their own limits
    }
    return c->is_stream;
}

static struct admin_request request_of(const struct connection *c)
{
    size_t here = c->in_size - c->head.size;
    size_t wanted = c->head.content_length;
    return (struct admin_request){
        .method = http_head_method(&c->head),
        .path = http_head_path(&c->head),
        .target = http_head_target(&c->head),
        .body = slice_of(c->in + c->head.size, here < wanted ? here : wanted),
    };
}

static bool asks_for_metrics(const struct admin_request *request)
{
    return slice_is(request->path, "/metrics") && slice_is(request->method, "GET");
}

// Paths that need no token.
static void respond_without_token(struct connection *c, const struct admin_request *request,
                                  struct text *out)
{
    struct admin *admin = c->admin;

    if (c->listener != &admin->metrics) {
        admin_refuse(out, HTTP_PROBLEM_UNAUTHORIZED, "");
    } else if (asks_for_metrics(request)) {
        metrics_response(&admin->options, loop_now_ms(admin->options.loop), out);
    } else {
        admin_refuse(out, HTTP_PROBLEM_NOT_FOUND, "metrics.listen serves only GET /metrics");
    }
}

// EXHAUSTED: memory is short; c->out stays NULL.
static enum status make_response(struct connection *c, enum status status)
{
    struct admin *admin = c->admin;
    uint64_t now_ms = loop_now_ms(admin->options.loop);
    struct admin_request request = status == STATUS_OK ? request_of(c) : (struct admin_request){0};
    bool needs_token =
        status == STATUS_OK && (c->listener == &admin->metrics ||
                                (!slice_is(request.path, "/health") && !token_is_good(c)));
    size_t size_max =
        asks_for_metrics(&request) ? metrics_response_size_max(&admin->options) : response_size_max;

    if (admin_api_is_stream(&request) && !needs_token && begin_stream(c)) {
        return STATUS_OK;
    }
    c->out = malloc(size_max);
    if (c->out == NULL) {
        return STATUS_EXHAUSTED;
    }
    struct text out = text_over(c->out, size_max);
    if (status == STATUS_MALFORMED) {
        admin_refuse(&out, HTTP_PROBLEM_MALFORMED, c->head.why);
    } else if (status == STATUS_TOO_LARGE) {
        admin_refuse(&out, size_problem(c), "the admin API has its own limits");
    } else if (c->listener == &admin->api && web_respond(request.method, request.path, &out)) {
        // The page needs no token; its data does.
    } else if (needs_token) {
        respond_without_token(c, &request, &out);
    } else {
        admin_api_respond(&admin->options, &request, now_ms, now_ms - admin->start_ms, &out);
    }
    c->out_size = out.size;
    return STATUS_OK;
}

// OK: the request is complete, or it is refused without reading the rest.
static enum status admin_scan(struct connection *c)
{
    if (c->head.size == 0) {
        enum status status = http_head_feed(&c->head, slice_of(c->in, c->in_size));
        if (status != STATUS_OK) {
            return status;
        }
        if (c->head.framing == HTTP_CHUNKED) {
            c->head.why = "the admin API needs a content-length, not chunks";
            return STATUS_MALFORMED;
        }
        if (!token_is_good(c)) {
            return STATUS_OK; // without a token the body is not read
        }
    }
    if (c->head.content_length > request_size_max - c->head.size) {
        return STATUS_TOO_LARGE;
    }
    return c->in_size >= c->head.size + c->head.content_length ? STATUS_OK : STATUS_AGAIN;
}

static enum status admin_read_request(struct connection *c)
{
    while (c->out == NULL && !c->is_stream) {
        size_t size = 0;
        if (c->in_size == request_size_max) {
            return make_response(c, STATUS_TOO_LARGE);
        }
        enum status status =
            transport_read(&c->transport, c->in + c->in_size, request_size_max - c->in_size, &size);
        if (status != STATUS_OK) {
            return status;
        }
        c->in_size += (uint32_t)size;
        status = admin_scan(c);
        if (status != STATUS_AGAIN) {
            return make_response(c, status);
        }
    }
    return STATUS_OK;
}

static enum status write_response(struct connection *c)
{
    while (c->sent < c->out_size) {
        struct slice rest = slice_of(c->out + c->sent, c->out_size - c->sent);
        size_t size = 0;
        enum status status = transport_write(&c->transport, &rest, 1, &size);
        if (status != STATUS_OK) {
            return status;
        }
        c->sent += size;
    }
    return STATUS_CLOSED; // all of it is sent
}

// AGAIN while the stream is open.
static enum status tend_stream(struct connection *c)
{
    uint8_t byte;
    size_t size = 0;
    // The client has nothing more to send: further bytes end the stream, as its close does.
    if (transport_read(&c->transport, &byte, 1, &size) != STATUS_AGAIN) {
        return STATUS_CLOSED;
    }
    enum status status = stream_write(&c->stream);
    return status == STATUS_OK ? STATUS_AGAIN : status;
}

static void admin_connection_ready(struct loop_source *source, uint32_t events)
{
    struct connection *c = (struct connection *)source;
    transport_note(&c->transport, events);
    enum status status = admin_read_request(c);
    if (status == STATUS_OK) {
        status = c->is_stream ? tend_stream(c) : write_response(c);
    }
    if (status != STATUS_AGAIN) {
        admin_drop(c);
    }
}

static void connection_expire(struct timer *timer)
{
    admin_drop(CONTAINER_OF(timer, struct connection, timer));
}

static void admin_take(struct admin_listener *listener, int fd)
{
    struct admin *admin = listener->admin;
    struct connection *c = calloc(1, sizeof(*c));
    if (c != NULL) {
        c->in = malloc(request_size_max);
    }
    if (c == NULL || c->in == NULL || listener->connection_count == connection_count_max) {
        if (c != NULL) {
            free(c->in);
        }
        free(c);
        tcp_close(&fd);
        return;
    }
    c->transport.source.ready = admin_connection_ready;
    c->admin = admin;
    c->listener = listener;
    c->timer.fire = connection_expire;
    c->recycle.run = admin_recycle;
    http_head_start(&c->head, HTTP_KIND_REQUEST,
                    (struct http_limits){.head_size = head_size_max, .target_size = 4096});
    if (transport_open(&c->transport, admin->options.loop, fd, NULL, NULL) != STATUS_OK) {
        free(c->in);
        free(c);
        return;
    }
    list_push(&admin->connections, &c->all);
    listener->connection_count++;
    loop_arm(admin->options.loop, &c->timer, time_ms_max);
}

static void admin_listener_ready(struct loop_source *source, uint32_t events)
{
    struct admin_listener *listener = (struct admin_listener *)source;
    struct address peer;
    int fd = -1;

    (void)events;
    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        admin_take(listener, fd);
    }
}

static void listener_init(struct admin_listener *listener, struct admin *admin)
{
    *listener = (struct admin_listener){.source = {.fd = -1, .ready = admin_listener_ready},
                                        .admin = admin};
}

static enum status listener_open(struct admin_listener *listener, const char *where,
                                 const char *what, char error[admin_error_size])
{
    struct address address;

    if (where == NULL ||
        (address_parse(where, &address) == STATUS_OK && tcp_probe_bind(&address) == STATUS_OK &&
         tcp_listen(&address, &listener->source.fd) == STATUS_OK &&
         loop_add(listener->admin->options.loop, &listener->source) == STATUS_OK)) {
        return STATUS_OK;
    }
    snprintf(error, admin_error_size, "cannot listen on %s for %s: %s", where, what,
             strerrordesc_np(errno));
    return STATUS_IO;
}

static void listener_close(struct admin_listener *listener)
{
    if (listener->source.fd != -1) {
        loop_remove(listener->admin->options.loop, &listener->source);
        tcp_close(&listener->source.fd);
    }
}

enum status admin_open(const struct admin_options *options, struct admin **out,
                       char error[admin_error_size])
{
    struct admin *admin = calloc(1, sizeof(*admin));

    ASSERT(admin != NULL);
    admin->options = *options;
    admin->start_ms = loop_now_ms(options->loop);
    streams_init(&admin->streams, &admin->options, admin->start_ms);
    listener_init(&admin->api, admin);
    listener_init(&admin->metrics, admin);
    if (listener_open(&admin->api, options->listen, "the admin API", error) != STATUS_OK ||
        listener_open(&admin->metrics, options->metrics_listen, "metrics", error) != STATUS_OK) {
        admin_close(&admin);
        return STATUS_IO;
    }
    *out = admin;
    return STATUS_OK;
}

void admin_close(struct admin **admin_ptr)
{
    struct admin *admin = *admin_ptr;
    *admin_ptr = NULL;

    if (admin == NULL) {
        return;
    }
    while (admin->connections != NULL) {
        admin_drop(CONTAINER_OF(admin->connections, struct connection, all));
    }
    streams_fini(&admin->streams);
    listener_close(&admin->api);
    listener_close(&admin->metrics);
    free(admin);
}
