// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_sentinel.h"

#include "base/base.h"
#include "base/text.h"
#include "cluster/store_connection.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum { next_delay_ms = 1 };

enum sentinel_question { SENTINEL_AUTH = 1, SENTINEL_MASTER };

static const struct store_codec_bounds sentinel_bounds = {
    .bulk_size_max = 1024,
    .reply_size_max = 4096,
    .node_count_max = 16,
};

struct store_sentinel {
    struct store_sentinel_options options;
    struct store_connection *connection;
    struct timer next; // a connection is opened from a timer only
    uint32_t at;       // the host that is asked
    uint32_t tried;    // hosts that failed since the question was put
    bool logged_in;
    char why[store_why_size];
};

static void sentinel_next(struct timer *timer)
{
    struct store_sentinel *sentinel = CONTAINER_OF(timer, struct store_sentinel, next);

    sentinel->logged_in = false;
    store_connection_open(sentinel->connection, &sentinel->options.url->hosts[sentinel->at]);
}

// This Sentinel is of no use.
static void sentinel_skip(struct store_sentinel *sentinel, const char *why)
{
    const struct store_host *host = &sentinel->options.url->hosts[sentinel->at];

    snprintf(sentinel->why, sizeof(sentinel->why), "sentinel %.100s:%u: %.120s", host->name,
             host->port, why);
    store_connection_close(sentinel->connection);
    sentinel->at = (sentinel->at + 1) % sentinel->options.url->host_count;
    sentinel->tried++;
    if (sentinel->tried < sentinel->options.url->host_count) {
        loop_arm(sentinel->options.loop, &sentinel->next, next_delay_ms);
    } else {
        sentinel->options.events->failed(sentinel->options.owner, sentinel->why);
    }
}

static void sentinel_send(struct store_sentinel *sentinel, const struct slice *words,
                          uint32_t word_count, enum sentinel_question what)
{
    struct store_command command = {
        .words = words,
        .word_count = word_count,
        .what = what,
        .timeout_ms = sentinel->options.timeout_ms,
    };
    if (!store_connection_send(sentinel->connection, &command)) {
        sentinel_skip(sentinel, "no memory");
    }
}

static void sentinel_put_question(void *owner)
{
    struct store_sentinel *sentinel = owner;
    struct slice words[] = {
        slice_str("SENTINEL"),
        slice_str("GET-MASTER-ADDR-BY-NAME"),
        slice_str(sentinel->options.url->master),
    };
    sentinel_send(sentinel, words, ARRAY_COUNT(words), SENTINEL_MASTER);
}

static void sentinel_log_in(struct store_sentinel *sentinel)
{
    const struct store_url *url = sentinel->options.url;
    struct slice words[3] = {slice_str("AUTH")};
    uint32_t count = 1;

    sentinel->logged_in = true;
    if (url->user[0] != '\0') {
        words[count++] = slice_str(url->user);
    }
    words[count++] = slice_str(url->password);
    sentinel_send(sentinel, words, count, SENTINEL_AUTH);
}

static bool sentinel_read_host(const struct store_reply *reply, struct store_host *out)
{
    uint64_t port = 0;

    if (store_reply_count(reply) != 2) {
        return false;
    }
    struct slice name = store_reply_text(store_reply_at(reply, 0));
    struct slice digits = store_reply_text(store_reply_at(reply, 1));
    if (name.size == 0 || name.size >= sizeof(out->name) ||
        memchr(name.bytes, '\0', name.size) != NULL || !slice_parse_u64(digits, &port) ||
        port == 0 || port > UINT16_MAX) {
        return false;
    }
    memcpy(out->name, name.bytes, name.size);
    out->name[name.size] = '\0';
    out->port = (uint16_t)port;
    return true;
}

static void sentinel_take_error(struct store_sentinel *sentinel, const struct store_reply *reply)
{
    const struct store_url *url = sentinel->options.url;
    struct store_error error;

    store_error_read(store_reply_text(reply), &error);
    bool wants_login = slice_starts_with(store_reply_text(reply), "NOAUTH ");
    if (wants_login && !sentinel->logged_in && url->has_password) {
        sentinel_log_in(sentinel);
        return;
    }
    bool is_quoted = url->has_password && strstr(error.text, url->password) != NULL;
    sentinel_skip(sentinel, is_quoted ? "an error that quotes the password" : error.text);
}

static void sentinel_reply(void *owner, uint32_t what, uint64_t about,
                           const struct store_reply *reply)
{
    struct store_sentinel *sentinel = owner;
    struct store_host host;

    (void)about;
    if (store_reply_kind(reply) == STORE_REPLY_ERROR) {
        sentinel_take_error(sentinel, reply);
    } else if (what == SENTINEL_AUTH) {
        sentinel_put_question(sentinel);
    } else if (sentinel_read_host(reply, &host)) {
        store_connection_close(sentinel->connection);
        sentinel->options.events->found(sentinel->options.owner, &host);
    } else {
        char why[store_why_size];
        snprintf(why, sizeof(why), "does not know the master %.100s",
                 sentinel->options.url->master);
        sentinel_skip(sentinel, why);
    }
}

static void sentinel_lost(void *owner, const char *why, const struct store_error *error)
{
    (void)error;
    sentinel_skip(owner, why);
}

enum status store_sentinel_create(const struct store_sentinel_options *options,
                                  struct store_sentinel **out)
{
    static const struct store_connection_events events = {
        .ready = sentinel_put_question,
        .reply = sentinel_reply,
        .lost = sentinel_lost,
    };
    struct store_sentinel *sentinel = calloc(1, sizeof(*sentinel));
    if (sentinel == NULL) {
        return STATUS_EXHAUSTED;
    }
    sentinel->options = *options;
    sentinel->next.fire = sentinel_next;
    enum status status = store_connection_create(
        &(struct store_connection_options){
            .loop = options->loop,
            .dns = options->dns,
            .tls = options->tls,
            .events = &events,
            .owner = sentinel,
            .bounds = sentinel_bounds,
            .connect_timeout_ms = options->timeout_ms,
        },
        &sentinel->connection);
    if (status != STATUS_OK) {
        free(sentinel);
        return status;
    }
    *out = sentinel;
    return STATUS_OK;
}

void store_sentinel_destroy(struct store_sentinel **sentinel_ptr)
{
    struct store_sentinel *sentinel = *sentinel_ptr;
    *sentinel_ptr = NULL;

    if (sentinel != NULL) {
        loop_disarm(sentinel->options.loop, &sentinel->next);
        store_connection_destroy(&sentinel->connection);
        free(sentinel);
    }
}

void store_sentinel_ask(struct store_sentinel *sentinel)
{
    ASSERT(store_connection_is_closed(sentinel->connection) && !timer_is_armed(&sentinel->next));

    sentinel->tried = 0;
    sentinel_next(&sentinel->next);
}
