// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_connection.h"

#include "base/base.h"
#include "base/text.h"
#include "net/dns.h"
#include "net/tcp.h"
#include "net/transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    read_size = 64 << 10,
    // After this many reads in a turn, other sources of the loop come first.
    store_reads_per_turn = 16,
    store_resume_ms = 1,
    watch_ms = 50,
};

enum connection_state {
    CONNECTION_CLOSED,
    CONNECTION_RESOLVING,
    CONNECTION_CONNECTING, // and TLS
    CONNECTION_HELLO,      // until `CONNECTION_READY`: waits for the reply to this command
    CONNECTION_AUTH,
    CONNECTION_SELECT,
    CONNECTION_READY,
};

struct pending_reply {
    uint64_t about;
    uint64_t due_ms;
    uint32_t what;
};

struct store_connection {
    struct transport transport; // first: `ready` finds us from here
    struct store_connection_options options;
    enum connection_state state;
    struct store_host host;
    struct store_host resolving; // what the open query is for; no name: none is open
    uint32_t attempts;           // picks one of several addresses
    uint64_t connect_due_ms;
    struct timer watch;
    struct timer resume;
    struct store_codec *codec;
    bool is_broken; // a write failed; told from the loop
    uint64_t bytes_in;
    uint64_t bytes_out;
    size_t out_start; // of `out`; the bytes between wait for the kernel
    size_t out_end;
    size_t out_capacity;
    uint32_t pending_start;
    uint32_t pending_count;
    struct pending_reply pending[store_pending_max]; // a ring, oldest first
    char why[store_why_size];
    uint8_t in[read_size];
    uint8_t out[];
};

static void connection_ready(struct loop_source *source, uint32_t events);
static void connection_watch(struct timer *timer);
static void connection_resume(struct timer *timer);

enum status store_connection_create(const struct store_connection_options *options,
                                    struct store_connection **out)
{
    size_t capacity = options->out_size_max + store_out_reserve;
    struct store_connection *connection = calloc(1, sizeof(*connection) + capacity);
    if (connection == NULL) {
        return STATUS_EXHAUSTED;
    }
    connection->options = *options;
    connection->out_capacity = capacity;
    connection->transport.source.ready = connection_ready;
    connection->watch.fire = connection_watch;
    connection->resume.fire = connection_resume;
    *out = connection;
    return STATUS_OK;
}

// Closing a socket with unread bytes resets the connection, and a server that is reset may not read
// our last commands.
static void connection_drain(struct store_connection *connection)
{
    size_t size = 0;
    uint32_t reads = 0;

    transport_finish(&connection->transport);
    while (reads < store_reads_per_turn &&
           transport_read(&connection->transport, connection->in, sizeof(connection->in), &size) ==
               STATUS_OK) {
        reads++;
    }
}

void store_connection_close(struct store_connection *connection)
{
    struct loop *loop = connection->options.loop;

    if (connection->state == CONNECTION_READY && transport_is_open(&connection->transport)) {
        connection_drain(connection);
    }

    loop_disarm(loop, &connection->watch);
    loop_disarm(loop, &connection->resume);
    transport_close(&connection->transport, loop, TRANSPORT_ORDERLY);
    store_codec_destroy(&connection->codec);
    connection->state = CONNECTION_CLOSED;
    connection->out_start = 0;
    connection->out_end = 0;
    connection->pending_count = 0;
    connection->is_broken = false;
}

void store_connection_destroy(struct store_connection **connection_ptr)
{
    struct store_connection *connection = *connection_ptr;
    *connection_ptr = NULL;

    if (connection != NULL) {
        store_connection_close(connection);
        free(connection);
    }
}

// A store could quote the password back.
static void connection_hide_password(struct store_connection *connection, struct store_error *error)
{
    const struct store_login *login = connection->options.login;
    if (login != NULL && login->has_password && strstr(error->text, login->password) != NULL) {
        snprintf(error->text, sizeof(error->text), "(an error that quotes the password)");
    }
}

static void connection_lose(struct store_connection *connection, const struct store_error *error,
                            const char *format, ...) __attribute__((format(printf, 3, 4)));

static void connection_lose(struct store_connection *connection, const struct store_error *error,
                            const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(connection->why, sizeof(connection->why), format, args);
    va_end(args);
    store_connection_close(connection);
    connection->options.events->lost(connection->options.owner, connection->why, error);
}

// `why` is already set.
static void connection_lose_why(struct store_connection *connection)
{
    store_connection_close(connection);
    connection->options.events->lost(connection->options.owner, connection->why, NULL);
}

static uint64_t connection_now_ms(const struct store_connection *connection)
{
    return loop_now_ms(connection->options.loop);
}

// For failures inside calls of the owner: the loss is told from the loop.
static void connection_break(struct store_connection *connection, const char *why)
{
    snprintf(connection->why, sizeof(connection->why), "%s", why);
    connection->is_broken = true;
    loop_arm(connection->options.loop, &connection->watch, 1);
}

static enum status connection_flush(struct store_connection *connection)
{
    enum status status = STATUS_OK;

    while (status == STATUS_OK && connection->out_start < connection->out_end) {
        struct slice rest = slice_of(connection->out + connection->out_start,
                                     connection->out_end - connection->out_start);
        size_t size = 0;
        status = transport_write(&connection->transport, &rest, 1, &size);
        if (status == STATUS_OK) {
            connection->out_start += size;
            connection->bytes_out += size;
        }
    }
    return status == STATUS_AGAIN ? STATUS_OK : status;
}

// Puts a command behind the others; whether there is room for it was asked before.
static bool connection_put(struct store_connection *connection, const struct store_command *command)
{
    size_t waiting = connection->out_end - connection->out_start;
    size_t size_max = 32; // upper bound of the encoded size; lengths have at most 20 digits
    for (uint32_t i = 0; i < command->word_count; i++) {
        size_max += command->words[i].size + 32;
    }
    if (connection->out_capacity - connection->out_end < size_max && connection->out_start > 0) {
        memmove(connection->out, connection->out + connection->out_start, waiting);
        connection->out_start = 0;
        connection->out_end = waiting;
    }
    size_t capacity = connection->out_capacity - connection->out_end;
    if (command->is_frame) {
        size_t room = connection->options.out_size_max - waiting;
        capacity = room < capacity ? room : capacity;
    }
    struct text text = text_over(connection->out + connection->out_end, capacity);
    if (store_codec_write(command->words, command->word_count, &text) != STATUS_OK ||
        text.overflow) {
        return false;
    }
    connection->out_end += text.size;
    uint32_t at = (connection->pending_start + connection->pending_count) % store_pending_max;
    connection->pending[at] = (struct pending_reply){
        .about = command->about,
        .due_ms = connection_now_ms(connection) + command->timeout_ms,
        .what = command->what,
    };
    connection->pending_count++;
    return true;
}

static bool connection_write(struct store_connection *connection,
                             const struct store_command *command)
{
    uint32_t pending_max =
        command->is_frame ? store_pending_max - store_pending_reserve : store_pending_max;
    size_t waiting = connection->out_end - connection->out_start;

    if (connection->pending_count >= pending_max ||
        (command->is_frame && waiting >= connection->options.out_size_max) ||
        !connection_put(connection, command)) {
        return false;
    }
    if (!command->has_successor && connection->transport.can_write &&
        connection_flush(connection) != STATUS_OK) {
        connection_break(connection, transport_why(&connection->transport));
    }
    return true;
}

bool store_connection_send(struct store_connection *connection, const struct store_command *command)
{
    return connection->state == CONNECTION_READY && !connection->is_broken &&
           connection_write(connection, command);
}

size_t store_connection_room(const struct store_connection *connection)
{
    size_t waiting = connection->out_end - connection->out_start;
    size_t out_size_max = connection->options.out_size_max;

    if (connection->state != CONNECTION_READY || connection->is_broken ||
        connection->pending_count + 1 >= store_pending_max - store_pending_reserve) {
        return 0;
    }
    return waiting < out_size_max ? out_size_max - waiting : 0;
}

bool store_connection_is_closed(const struct store_connection *connection)
{
    return connection->state == CONNECTION_CLOSED;
}

bool store_connection_is_ready(const struct store_connection *connection)
{
    return connection->state == CONNECTION_READY;
}

uint64_t store_connection_bytes_in(const struct store_connection *connection)
{
    return connection->bytes_in;
}

uint64_t store_connection_bytes_out(const struct store_connection *connection)
{
    return connection->bytes_out;
}

// ---- greeting

static void connection_ask(struct store_connection *connection, enum connection_state state,
                           const struct slice *words, uint32_t word_count)
{
    struct store_command command = {
        .words = words,
        .word_count = word_count,
        .timeout_ms = connection->options.connect_timeout_ms,
    };
    connection->state = state;
    if (!connection_write(connection, &command)) {
        connection_break(connection, "no memory");
    }
}

static void connection_greet(struct store_connection *connection)
{
    const struct store_login *login = connection->options.login;
    struct slice words[7];
    uint32_t count = 0;

    if (login == NULL) {
        connection->state = CONNECTION_READY;
        connection->options.events->ready(connection->options.owner);
        return;
    }
    words[count++] = slice_str("HELLO");
    words[count++] = slice_str("2");
    if (login->has_password) {
        words[count++] = slice_str("AUTH");
        words[count++] = slice_str(login->user[0] != '\0' ? login->user : "default");
        words[count++] = slice_str(login->password);
    }
    if (login->client_name[0] != '\0') {
        words[count++] = slice_str("SETNAME");
        words[count++] = slice_str(login->client_name);
    }
    connection_ask(connection, CONNECTION_HELLO, words, count);
}

static void connection_select(struct store_connection *connection)
{
    const struct store_login *login = connection->options.login;
    char digits[16];

    if (login->database == 0) {
        connection->state = CONNECTION_READY;
        connection->options.events->ready(connection->options.owner);
        return;
    }
    snprintf(digits, sizeof(digits), "%u", login->database);
    struct slice words[] = {slice_str("SELECT"), slice_str(digits)};
    connection_ask(connection, CONNECTION_SELECT, words, ARRAY_COUNT(words));
}

// For servers without HELLO, and users who may not call it.
static void connection_authenticate(struct store_connection *connection)
{
    const struct store_login *login = connection->options.login;
    struct slice words[3] = {slice_str("AUTH")};
    uint32_t count = 1;

    if (!login->has_password) {
        connection_select(connection);
        return;
    }
    if (login->user[0] != '\0') {
        words[count++] = slice_str(login->user);
    }
    words[count++] = slice_str(login->password);
    connection_ask(connection, CONNECTION_AUTH, words, count);
}

// The reply to HELLO is a flat list of names and values.
static bool hello_says_replica(const struct store_reply *reply)
{
    for (uint32_t i = 0; i + 1 < store_reply_count(reply); i += 2) {
        if (slice_is(store_reply_text(store_reply_at(reply, i)), "role")) {
            return !slice_is(store_reply_text(store_reply_at(reply, i + 1)), "master");
        }
    }
    return false;
}

static const char *greeting_name(enum connection_state state)
{
    if (state == CONNECTION_HELLO) {
        return "HELLO";
    }
    return state == CONNECTION_AUTH ? "AUTH" : "SELECT";
}

static void connection_greeting_failed(struct store_connection *connection,
                                       const struct store_reply *reply)
{
    struct store_error error;

    store_error_read(store_reply_text(reply), &error);
    connection_hide_password(connection, &error);
    bool is_unknown = error.remedy == STORE_UNKNOWN_COMMAND;
    bool is_forbidden = slice_starts_with(store_reply_text(reply), "NOPERM ");
    if (connection->state == CONNECTION_HELLO && (is_unknown || is_forbidden)) {
        connection_authenticate(connection);
        return;
    }
    connection_lose(connection, &error, "%s: %s", greeting_name(connection->state), error.text);
}

static void connection_greeting_reply(struct store_connection *connection,
                                      const struct store_reply *reply)
{
    if (store_reply_kind(reply) == STORE_REPLY_ERROR) {
        connection_greeting_failed(connection, reply);
    } else if (connection->state == CONNECTION_HELLO && connection->options.login->must_be_master &&
               hello_says_replica(reply)) {
        struct store_error error = {.remedy = STORE_RELOCATE, .text = "the server is a replica"};
        connection_lose(connection, &error, "%s", error.text);
    } else if (connection->state == CONNECTION_SELECT) {
        connection->state = CONNECTION_READY;
        connection->options.events->ready(connection->options.owner);
    } else {
        connection_select(connection);
    }
}

// ---- replies

static void connection_take_reply(struct store_connection *connection,
                                  const struct store_reply *reply)
{
    if (connection->pending_count == 0) {
        connection_lose(connection, NULL, "sent a reply that no command asked for");
        return;
    }
    struct pending_reply pending = connection->pending[connection->pending_start];
    connection->pending_start = (connection->pending_start + 1) % store_pending_max;
    connection->pending_count--;
    if (connection->state == CONNECTION_READY) {
        connection->options.events->reply(connection->options.owner, pending.what, pending.about,
                                          reply);
    } else {
        connection_greeting_reply(connection, reply);
    }
}

static void connection_lose_codec(struct store_connection *connection, enum status status)
{
    struct store_error error = {.remedy = STORE_CLEAR, .text = "a reply is too large"};

    if (status == STATUS_TOO_LARGE) {
        connection_lose(connection, &error, "%s", error.text);
    } else {
        connection_lose(connection, NULL, "%s",
                        status == STATUS_MALFORMED ? "sent an invalid reply" : "no memory");
    }
}

static void connection_take_bytes(struct store_connection *connection, struct slice bytes)
{
    enum status status = store_codec_feed(connection->codec, bytes);

    while (status == STATUS_OK) {
        struct store_reply *reply = NULL;
        status = store_codec_next(connection->codec, &reply);
        if (status == STATUS_OK) {
            connection_take_reply(connection, reply);
            store_reply_free(&reply);
            if (connection->state == CONNECTION_CLOSED) {
                return;
            }
        }
    }
    if (status != STATUS_AGAIN) {
        connection_lose_codec(connection, status);
    }
}

static void connection_read(struct store_connection *connection)
{
    for (uint32_t reads = 0; connection->transport.can_read; reads++) {
        size_t size = 0;
        if (reads == store_reads_per_turn) {
            loop_arm(connection->options.loop, &connection->resume, store_resume_ms);
            return;
        }
        enum status status =
            transport_read(&connection->transport, connection->in, sizeof(connection->in), &size);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK) {
            connection_lose(connection, NULL, "%s",
                            status == STATUS_CLOSED ? "the server closed the connection"
                                                    : transport_why(&connection->transport));
            return;
        }
        connection->bytes_in += size;
        connection_take_bytes(connection, slice_of(connection->in, size));
        if (connection->state == CONNECTION_CLOSED) {
            return;
        }
    }
}

static void connection_resume(struct timer *timer)
{
    connection_read(CONTAINER_OF(timer, struct store_connection, resume));
}

// ---- connecting

// OK: connected, and TLS is through.  IO: `why` is set.
static enum status connection_establish(struct store_connection *connection)
{
    if (!connection->transport.can_write) {
        return STATUS_AGAIN;
    }
    int error = tcp_error(connection->transport.source.fd);
    if (error != 0) {
        snprintf(connection->why, sizeof(connection->why), "%s", strerrordesc_np(error));
        return STATUS_IO;
    }
    enum status status = transport_handshake(&connection->transport);
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        snprintf(connection->why, sizeof(connection->why), "TLS: %s",
                 status == STATUS_CLOSED ? "the server closed the connection"
                                         : transport_why(&connection->transport));
        return STATUS_IO;
    }
    return status;
}

static void connection_ready(struct loop_source *source, uint32_t events)
{
    struct store_connection *connection = (struct store_connection *)source;

    transport_note(&connection->transport, events);
    if (connection->state == CONNECTION_CONNECTING) {
        enum status status = connection_establish(connection);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK) {
            connection_lose_why(connection);
            return;
        }
        connection_greet(connection);
    } else if (connection_flush(connection) != STATUS_OK) {
        connection_lose(connection, NULL, "%s", transport_why(&connection->transport));
        return;
    }
    if (connection->state != CONNECTION_CLOSED) {
        connection_read(connection);
    }
}

static void connection_watch(struct timer *timer)
{
    struct store_connection *connection = CONTAINER_OF(timer, struct store_connection, watch);
    uint64_t now_ms = connection_now_ms(connection);
    const struct pending_reply *oldest = &connection->pending[connection->pending_start];

    if (connection->is_broken) {
        connection_lose_why(connection);
    } else if (connection->state == CONNECTION_RESOLVING && now_ms >= connection->connect_due_ms) {
        connection_lose(connection, NULL, "no response from DNS servers");
    } else if (connection->state < CONNECTION_READY && now_ms >= connection->connect_due_ms) {
        connection_lose(connection, NULL,
                        connection->state == CONNECTION_CONNECTING ? "connecting timed out"
                                                                   : "no reply to the greeting");
    } else if (connection->pending_count > 0 && now_ms >= oldest->due_ms) {
        connection_lose(connection, NULL, "no reply in time");
    } else {
        loop_arm(connection->options.loop, timer, watch_ms);
    }
}

static void connection_connect(struct store_connection *connection, const struct address *address)
{
    const struct store_connection_options *options = &connection->options;
    int fd = -1;

    connection->state = CONNECTION_CONNECTING;
    connection->connect_due_ms = connection_now_ms(connection) + options->connect_timeout_ms;
    enum status status = tcp_connect(address, &fd);
    if (status == STATUS_OK) {
        status = transport_open(&connection->transport, options->loop, fd, options->tls,
                                connection->host.name);
    }
    if (status != STATUS_OK) {
        connection_break(connection,
                         status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
    }
}

static void connection_resolve(struct store_connection *connection);

static void connection_resolved(void *owner, const struct dns_answer *answer)
{
    struct store_connection *connection = owner;
    bool is_wanted = strcmp(connection->resolving.name, connection->host.name) == 0 &&
                     connection->resolving.port == connection->host.port;

    connection->resolving.name[0] = '\0';
    if (connection->state != CONNECTION_RESOLVING) {
        return;
    }
    if (!is_wanted) {
        connection_resolve(connection);
    } else if (answer->status != STATUS_OK) {
        char why[store_why_size];
        snprintf(why, sizeof(why), "%.100s: %.100s", connection->host.name, answer->why);
        connection_break(connection, why);
    } else {
        uint32_t at = connection->attempts++ % answer->address_count;
        connection_connect(connection, &answer->addresses[at]);
    }
}

static void connection_resolve(struct store_connection *connection)
{
    connection->resolving = connection->host;
    dns_resolve(connection->options.dns, connection->host.name, connection->host.port,
                connection_resolved, connection);
}

void store_connection_open(struct store_connection *connection, const struct store_host *host)
{
    ASSERT(connection->state == CONNECTION_CLOSED);

    connection->host = *host;
    connection->state = CONNECTION_RESOLVING;
    connection->connect_due_ms =
        connection_now_ms(connection) + connection->options.connect_timeout_ms;
    loop_arm(connection->options.loop, &connection->watch, watch_ms);
    if (store_codec_create(&connection->options.bounds, &connection->codec) != STATUS_OK) {
        connection_break(connection, "no memory");
        return;
    }
    // A query cannot be cancelled: the answer to the last one starts the next.
    if (connection->resolving.name[0] == '\0') {
        connection_resolve(connection);
    }
}
