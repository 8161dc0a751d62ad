// SPDX-License-Identifier: Apache-2.0

#include "lab/probe_stream.h"

#include "base/base.h"
#include "base/text.h"
#include "json/json.h"
#include "net/tcp.h"
#include "sys/clock.h"

#include <errno.h>

void probe_stream_stop(struct probe_stream *stream, const char *why)
{
    if (stream->is_over) {
        return;
    }
    stream->is_over = true;
    stream->why = why;
    stream->end_us = clock_monotonic_ns() / 1000;
    transport_close(&stream->transport, stream->loop, TRANSPORT_ORDERLY);
}

// ---- what an event says

static bool probe_has_item(struct slice array)
{
    struct json json = json_open(array);
    struct json_item item;
    if (!json_next(&json, &item) || item.value.kind != JSON_ARRAY) {
        return false;
    }
    json_enter(&json);
    return json_next(&json, &item);
}

static void probe_read_usage(struct probe_stream *stream, struct slice usage)
{
    static const char *const names[] = {"prompt_tokens", "completion_tokens",
                                        "prompt_tokens_details"};
    static const char *const details[] = {"cached_tokens"};
    struct json_value found[ARRAY_COUNT(names)] = {0};
    struct json_value cached[ARRAY_COUNT(details)] = {0};
    if (json_find(usage, names, ARRAY_COUNT(names), found) != STATUS_OK) {
        return;
    }
    (void)json_uint(&found[0], &stream->prompt_tokens);
    (void)json_uint(&found[1], &stream->output_tokens);
    if (found[2].kind == JSON_OBJECT &&
        json_find(found[2].raw, details, ARRAY_COUNT(details), cached) == STATUS_OK) {
        stream->tells_cached = json_uint(&cached[0], &stream->cached_tokens);
    }
}

static void probe_read_event(struct probe_stream *stream, struct slice data, uint64_t now_us)
{
    static const char *const names[] = {"choices", "usage"};
    struct json_value found[ARRAY_COUNT(names)] = {0};
    if (data.size == 0 || slice_is(data, "[DONE]") ||
        json_find(data, names, ARRAY_COUNT(names), found) != STATUS_OK) {
        return;
    }
    if (found[0].kind == JSON_ARRAY && probe_has_item(found[0].raw)) {
        if (stream->token_count < probe_stream_token_max) {
            stream->token_us[stream->token_count] = now_us;
        }
        stream->token_count++;
    }
    if (found[1].kind == JSON_OBJECT) {
        probe_read_usage(stream, found[1].raw);
    }
}

static void probe_take_body(struct probe_stream *stream, struct slice bytes)
{
    uint64_t now_us = clock_monotonic_ns() / 1000;
    struct sse_event event;
    if (stream->body != NULL) {
        text_add(stream->body, bytes);
    }
    while (stream->has_events && sse_next(&stream->sse, &bytes, &event)) {
        probe_read_event(stream, event.data, now_us);
    }
}

// ---- what the loop says

// Reads what has come.
static enum status probe_read_response(struct probe_stream *stream, size_t size)
{
    struct slice data;
    bool had_head = stream->response.has_head;
    enum status status = http_response_read(&stream->response, stream->buffer, size, &data);
    if (!had_head && stream->response.has_head) {
        stream->status = stream->response.head.status;
        stream->has_events = http_head_type_is(&stream->response.head, "text/event-stream");
    }
    probe_take_body(stream, data);
    return status;
}

// False when there is nothing to go on with.
static bool probe_read_once(struct probe_stream *stream)
{
    size_t size = 0;
    enum status status =
        transport_read(&stream->transport, stream->buffer, sizeof(stream->buffer), &size);
    if (status == STATUS_AGAIN) {
        return false;
    }
    if (status == STATUS_IO) {
        probe_stream_stop(stream, strerrordesc_np(errno));
        return false;
    }
    status = status == STATUS_CLOSED ? http_response_close(&stream->response)
                                     : probe_read_response(stream, size);
    if (status == STATUS_OK) {
        probe_stream_stop(stream, NULL);
    } else if (status == STATUS_CLOSED) {
        probe_stream_stop(stream, "the connection was closed");
    } else if (status != STATUS_AGAIN) {
        probe_stream_stop(stream, "the response is not HTTP");
    }
    return !stream->is_over;
}

static enum status probe_stream_send(struct probe_stream *stream)
{
    if (!stream->is_connected) {
        if (!stream->transport.can_write) {
            return STATUS_AGAIN;
        }
        errno = tcp_error(stream->transport.source.fd);
        if (errno != 0) {
            return STATUS_IO;
        }
        stream->is_connected = true;
    }
    enum status status = transport_handshake(&stream->transport);
    while (status == STATUS_OK && stream->request.size > 0) {
        size_t size = 0;
        status = transport_write(&stream->transport, &stream->request, 1, &size);
        if (status == STATUS_OK) {
            stream->request.bytes += size;
            stream->request.size -= size;
            stream->sent_us = clock_monotonic_ns() / 1000;
        }
    }
    return status;
}

static void probe_stream_ready(struct loop_source *source, uint32_t events)
{
    struct probe_stream *stream = (struct probe_stream *)source;
    transport_note(&stream->transport, events);
    enum status status = probe_stream_send(stream);
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        probe_stream_stop(stream, stream->is_connected ? transport_why(&stream->transport)
                                                       : strerrordesc_np(errno));
        return;
    }
    // An engine may refuse a request before it has read all of it.
    while (stream->is_connected && !stream->transport.handshaking && stream->transport.can_read) {
        if (!probe_read_once(stream)) {
            return;
        }
    }
}

void probe_stream_start(struct probe_stream *stream, const struct probe_stream_options *options)
{
    int fd = -1;
    *stream = (struct probe_stream){
        .loop = options->loop, .body = options->body, .request = options->request};
    stream->transport.source.ready = probe_stream_ready;
    http_response_start(&stream->response, stream->head, sizeof(stream->head));
    sse_begin(&stream->sse, stream->event, sizeof(stream->event));
    enum status status = tcp_connect(options->address, &fd);
    if (status == STATUS_OK) {
        status = transport_open(&stream->transport, options->loop, fd, options->tls, options->host);
    }
    if (status != STATUS_OK) {
        probe_stream_stop(stream,
                          status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
    }
}
