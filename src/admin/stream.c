// SPDX-License-Identifier: Apache-2.0

#include "admin/stream.h"

#include "admin/admin.h"
#include "admin/decision_list.h"
#include "admin/document/overview_json.h"
#include "base/base.h"
#include "json/json_writer.h"
#include "net/transport.h"
#include "sys/clock.h"
#include "sys/loop.h"

#include <stdlib.h>

enum { round_size_max = 8 << 20 }; // thousands of backends with their models

// One message for all streams at the same position; freed with its last reader.
struct stream_round {
    uint32_t reader_count;
    // The position of its readers before and after it.
    uint64_t point_ms;
    uint64_t serial;
    uint64_t next_point_ms;
    uint64_t next_serial;
    size_t size;
    uint8_t bytes[];
};

static void stream_add_head(struct text *out)
{
    text_add_str(out, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                      "cache-control: no-store\r\nconnection: close\r\n\r\n: ping\n\n");
}

// False, like add_decisions: memory is short.
static bool add_overview(struct streams *streams, struct stream_round *round, struct text *out)
{
    uint64_t now_ms = loop_now_ms(streams->options->loop);
    uint64_t wall_ms = clock_wall_ms();
    struct overview_request request = {
        .now_ms = now_ms,
        .uptime_ms = now_ms - streams->start_ms,
        .wall_ms = wall_ms,
        // The clock may have been set back: do not wait until it reaches the old time.
        .since_ms = round->point_ms < wall_ms ? round->point_ms : wall_ms,
    };

    struct json_writer json = json_writer_over(out);
    text_add_str(out, "event: overview\ndata: ");
    bool is_put = overview_json_put(streams->options, &request, &round->next_point_ms, &json);
    text_add_str(out, "\n\n");
    return is_put;
}

static bool add_decisions(struct streams *streams, struct stream_round *round, struct text *out)
{
    struct decision_query query = {.since = round->serial, .limit = stream_decisions_max};
    struct decision_list list;
    struct json_writer json = json_writer_over(out);
    size_t before = out->size;

    text_add_str(out, "event: decisions\ndata: ");
    if (!decision_list_put(streams->options, &query, &list, &json)) {
        return false;
    }
    round->next_serial = list.serial;
    if (list.count > 0) {
        text_add_str(out, "\n\n");
    } else {
        out->size = before;
    }
    return true;
}

// For all streams at the position of this one.  NULL: memory is short.
static struct stream_round *build(struct streams *streams, const struct stream *stream,
                                  bool is_first)
{
    struct stream_round *round = malloc(sizeof(*round) + round_size_max);
    if (round == NULL) {
        return NULL;
    }
    *round = (struct stream_round){.point_ms = stream->point_ms, .serial = stream->serial};
    struct text out = text_over(round->bytes, round_size_max);

    if (is_first) {
        stream_add_head(&out);
    }
    size_t head_size = out.size;
    if (!add_overview(streams, round, &out) || !add_decisions(streams, round, &out) ||
        out.overflow) {
        // The fleet is too large for one message, or memory is short: send a sign of life only.
        out = text_over(round->bytes, round_size_max);
        out.size = head_size;
        text_add_str(&out, ": ping\n\n");
        round->next_point_ms = round->point_ms;
        round->next_serial = round->serial;
    }
    round->size = out.size;
    struct stream_round *fitted = realloc(round, sizeof(*round) + round->size);
    return fitted != NULL ? fitted : round;
}

static void stream_release(struct stream *stream)
{
    struct stream_round *round = stream->round;
    stream->round = NULL;
    if (round != NULL && --round->reader_count == 0) {
        free(round);
    }
}

static void hand(struct stream *stream, struct stream_round *round)
{
    round->reader_count++;
    stream->round = round;
    stream->sent = 0;
    stream->point_ms = round->next_point_ms;
    stream->serial = round->next_serial;
}

// The round of this tick for the position of this stream; NULL: not built yet.
static struct stream_round *find_like(const struct stream *stream,
                                      struct stream_round *const rounds[stream_count_max])
{
    for (int i = 0; i < stream_count_max && rounds[i] != NULL; i++) {
        if (rounds[i]->point_ms == stream->point_ms && rounds[i]->serial == stream->serial) {
            return rounds[i];
        }
    }
    return NULL;
}

// Gives every idle stream its round, and ends those that are stuck.
static void hand_all(struct streams *streams, uint64_t now_ms)
{
    struct stream_round *rounds[stream_count_max] = {0};
    int round_count = 0;
    struct list_node *next;

    for (struct list_node *node = streams->open; node != NULL; node = next) {
        struct stream *stream = CONTAINER_OF(node, struct stream, all);
        next = node->next;
        if (stream->round != NULL) {
            if (now_ms - stream->progress_ms >= stream_stuck_ms) {
                stream->ended(stream);
            }
            continue;
        }
        struct stream_round *round = find_like(stream, rounds);
        if (round == NULL) {
            round = build(streams, stream, false);
            if (round == NULL) {
                continue; // the next tick tries again
            }
            rounds[round_count++] = round;
        }
        stream->progress_ms = now_ms;
        hand(stream, round);
    }
}

// Those that have a round and have taken nothing of it; what was written to sooner might end a
// round that others of its kind have yet to be handed.
static void stream_write_all(struct streams *streams)
{
    struct list_node *next;

    for (struct list_node *node = streams->open; node != NULL; node = next) {
        struct stream *stream = CONTAINER_OF(node, struct stream, all);
        next = node->next;
        enum status status = stream->round != NULL ? stream_write(stream) : STATUS_OK;
        if (status != STATUS_OK && status != STATUS_AGAIN) {
            stream->ended(stream);
        }
    }
}

static void stream_tick(struct timer *timer)
{
    struct streams *streams = CONTAINER_OF(timer, struct streams, timer);
    struct loop *loop = streams->options->loop;

    hand_all(streams, loop_now_ms(loop));
    stream_write_all(streams);
    if (streams->count > 0) {
        loop_arm(loop, timer, stream_step_ms);
    }
}

void streams_init(struct streams *streams, const struct admin_options *options, uint64_t start_ms)
{
    *streams =
        (struct streams){.options = options, .start_ms = start_ms, .timer.fire = stream_tick};
}

void streams_fini(struct streams *streams)
{
    ASSERT(streams->count == 0);
    loop_disarm(streams->options->loop, &streams->timer);
}

bool stream_open(struct streams *streams, struct stream *stream, struct transport *transport,
                 void (*ended)(struct stream *stream))
{
    struct loop *loop = streams->options->loop;

    if (streams->count == stream_count_max) {
        return false;
    }
    *stream = (struct stream){.streams = streams,
                              .transport = transport,
                              .progress_ms = loop_now_ms(loop),
                              .ended = ended};
    struct stream_round *first = build(streams, stream, true);
    if (first == NULL) {
        return false;
    }
    if (streams->count == 0) {
        loop_arm(loop, &streams->timer, stream_step_ms);
    }
    list_push(&streams->open, &stream->all);
    streams->count++;
    hand(stream, first);
    return true;
}

enum status stream_write(struct stream *stream)
{
    while (stream->round != NULL) {
        struct slice rest =
            slice_of(stream->round->bytes + stream->sent, stream->round->size - stream->sent);
        size_t size = 0;
        enum status status = transport_write(stream->transport, &rest, 1, &size);
        if (status != STATUS_OK) {
            return status;
        }
        stream->sent += size;
        stream->progress_ms = loop_now_ms(stream->streams->options->loop);
        if (stream->sent == stream->round->size) {
            stream_release(stream);
        }
    }
    return STATUS_OK;
}

void stream_close(struct stream *stream)
{
    if (!list_has(&stream->all)) {
        return;
    }
    stream_release(stream);
    list_remove(&stream->all);
    stream->streams->count--;
}
