// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_client.h"

#include "base/base.h"
#include "base/list.h"
#include "net/tcp.h"
#include "net/transport.h"
#include "sys/clock.h"
#include "sys/loop.h"
#include "sys/pages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    read_size = 65536,
    // After this many reads other connections have their turn.
    reads_per_turn = 16,
    resume_ms = 1,
    // A server that closes as we send is heard of within a round trip; later it meant the request.
    stale_us = 100000,
    length_size = 64,
};

enum link_state {
    LINK_CLOSED,
    LINK_CONNECTING,
    LINK_SENDING,
    LINK_READING,
    LINK_IDLE,
    LINK_FAILED
};

struct drive_link {
    struct transport transport; // first: `ready` finds us from here
    struct drive_client *client;
    struct list_node node; // among the idle or the free
    struct loop_deferred recycle;
    struct timer timer;
    struct timer resume; // events are edges: unread bytes cause no further event
    enum link_state state;
    bool is_reused;
    bool has_bytes;     // of the response
    bool was_sent_once; // and met a connection that the server had closed
    bool sends_again;
    enum drive_error known; // an error before the request was sent; the timer reports it
    struct drive_request *request;
    uint8_t *out;
    size_t out_size;
    size_t out_sent;
    struct drive_response response; // last: it ends in a buffer that is seldom used
};

struct drive_client {
    struct drive_client_options options;
    struct drive_client_counts counts;
    size_t head_size;
    struct drive_link *links; // connections_max of them
    uint32_t fresh;           // links from here on were never used
    struct list_node *free;
    struct list_node *idle;
    uint32_t next_address;
    uint8_t bytes[read_size];
};

static void link_ready(struct loop_source *source, uint32_t events);
static void link_expire(struct timer *timer);
static void link_resume(struct timer *timer);
static void link_recycle(struct loop_deferred *deferred);

struct drive_client *drive_client_create(const struct drive_client_options *options)
{
    ASSERT(options->connections_max > 0 && options->connections_max <= drive_connections_max);

    struct drive_client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return NULL;
    }
    client->options = *options;
    client->head_size = strlen(options->head);
    client->links = pages_reserve(sizeof(struct drive_link) * options->connections_max);
    if (client->links == NULL) {
        drive_client_destroy(&client);
    }
    return client;
}

static void release_request(struct drive_link *link)
{
    free(link->out);
    link->out = NULL;
    link->request = NULL;
}

void drive_client_destroy(struct drive_client **client_ptr)
{
    struct drive_client *client = *client_ptr;
    *client_ptr = NULL;

    if (client == NULL) {
        return;
    }
    for (uint32_t i = 0; client->links != NULL && i < client->fresh; i++) {
        struct drive_link *link = &client->links[i];
        loop_disarm(client->options.loop, &link->timer);
        loop_disarm(client->options.loop, &link->resume);
        transport_close(&link->transport, client->options.loop, TRANSPORT_ABORT);
        drive_response_end(&link->response);
        release_request(link);
    }
    if (client->links != NULL) {
        pages_release(&client->links, sizeof(struct drive_link) * client->options.connections_max);
    }
    free(client);
}

struct drive_client_counts drive_client_counts(const struct drive_client *client)
{
    return client->counts;
}

bool drive_client_has_room(const struct drive_client *client)
{
    return client->idle != NULL || client->free != NULL ||
           client->fresh < client->options.connections_max;
}

// The latest one first: the kernel's buffers are warm, and the others may time out.
static struct drive_link *take_link(struct drive_client *client)
{
    struct list_node *node = client->idle != NULL ? client->idle : client->free;
    if (node != NULL) {
        list_remove(node);
        return CONTAINER_OF(node, struct drive_link, node);
    }
    ASSERT(client->fresh < client->options.connections_max);
    struct drive_link *link = &client->links[client->fresh++];
    link->client = client;
    link->transport.source.ready = link_ready;
    link->timer.fire = link_expire;
    link->resume.fire = link_resume;
    link->recycle.run = link_recycle;
    return link;
}

static void close_link(struct drive_link *link, enum transport_end end)
{
    struct loop *loop = link->client->options.loop;
    list_remove(&link->node);
    loop_disarm(loop, &link->resume);
    transport_close(&link->transport, loop, end);
    link->state = LINK_CLOSED;
    loop_defer(loop, &link->recycle);
}

// Reports the end of the request.  The link is free for other requests by then.
static void link_finish(struct drive_link *link)
{
    struct drive_client *client = link->client;
    struct drive_request *request = link->request;
    bool is_kept =
        link->state == LINK_READING && link->response.keep_alive && !link->transport.hung_up;

    loop_disarm(client->options.loop, &link->timer);
    loop_disarm(client->options.loop, &link->resume);
    release_request(link);
    client->counts.in_flight--;
    if (is_kept) {
        link->state = LINK_IDLE;
    } else {
        close_link(link,
                   link->response.error == DRIVE_TIMEOUT ? TRANSPORT_ABORT : TRANSPORT_ORDERLY);
    }
    client->options.done(client->options.owner, request, &link->response);
    drive_response_end(&link->response);
    if (is_kept) {
        list_push(&client->idle, &link->node);
    }
}

static void link_fail(struct drive_link *link, enum drive_error error)
{
    link->response.error = error;
    link->response.keep_alive = false;
    link_finish(link);
}

// Reports the error from the loop, never from inside drive_client_send.
static void fail_later(struct drive_link *link, enum drive_error error)
{
    link->known = error;
    link->state = LINK_FAILED;
    loop_arm(link->client->options.loop, &link->timer, 0);
}

static void link_expire(struct timer *timer)
{
    struct drive_link *link = CONTAINER_OF(timer, struct drive_link, timer);
    if (link->sends_again) {
        loop_arm(link->client->options.loop, timer,
                 resume_ms); // it is closed, and opens in this turn
        return;
    }
    link_fail(link, link->known != DRIVE_FINE ? link->known : DRIVE_TIMEOUT);
}

// The server had closed the connection before it saw the request.
static bool is_stale(const struct drive_link *link)
{
    uint64_t now_us = loop_now_us(link->client->options.loop);
    return link->is_reused && !link->has_bytes && !link->was_sent_once &&
           now_us - link->request->sent_us < stale_us;
}

static void break_off(struct drive_link *link, bool is_orderly)
{
    if (is_stale(link)) {
        link->client->counts.stale++;
        link->sends_again = true;
        close_link(link, TRANSPORT_ORDERLY);
        return;
    }
    drive_response_cut(&link->response, is_orderly, loop_now_us(link->client->options.loop));
    link_finish(link);
}

// Head and body, in memory of their own.
static enum drive_error link_write_request(struct drive_link *link)
{
    const struct drive_client_options *options = &link->client->options;
    const struct work_item *item = &link->request->item;
    size_t body_max = drive_text_size(options->shape, item, options->memory);
    size_t before = link->client->head_size + length_size;

    if (body_max > drive_request_size_max) {
        return DRIVE_TOO_LARGE;
    }
    link->out = malloc(before + body_max);
    if (link->out == NULL) {
        return DRIVE_EXHAUSTED;
    }
    struct text body = text_over(link->out + before, body_max);
    drive_text_write(options->shape, item, options->memory, &body);
    ASSERT(!body.overflow);

    // The head ends where the body begins: its length is known only now.
    char length[length_size];
    int length_used = snprintf(length, sizeof(length), "content-length: %zu\r\n\r\n", body.size);
    size_t begin = length_size - (size_t)length_used;
    memcpy(link->out + begin, options->head, link->client->head_size);
    memcpy(link->out + begin + link->client->head_size, length, (size_t)length_used);
    link->out_sent = begin;
    link->out_size = before + body.size;
    return DRIVE_FINE;
}

static enum drive_error connect_error(int error)
{
    if (error == ECONNREFUSED) {
        return DRIVE_REFUSED;
    }
    return error == ECONNRESET ? DRIVE_RESET : DRIVE_UNREACHABLE;
}

static void connect_link(struct drive_link *link)
{
    struct drive_client *client = link->client;
    const struct drive_client_options *options = &client->options;
    const struct address *address =
        &options->addresses[client->next_address++ % options->address_count];
    int fd = -1;

    link->is_reused = false;
    link->state = LINK_CONNECTING;
    enum status status = tcp_connect(address, &fd);
    if (status == STATUS_OK) {
        client->counts.connections++;
        status = transport_open(&link->transport, options->loop, fd, options->tls, options->host);
    }
    if (status == STATUS_EXHAUSTED) {
        fail_later(link, DRIVE_EXHAUSTED);
    } else if (status != STATUS_OK) {
        fail_later(link, connect_error(errno));
    }
}

static bool send_rest(struct drive_link *link)
{
    while (link->out_sent < link->out_size) {
        struct slice rest = slice_of(link->out + link->out_sent, link->out_size - link->out_sent);
        size_t size = 0;
        enum status status = transport_write(&link->transport, &rest, 1, &size);
        if (status == STATUS_AGAIN) {
            return true;
        }
        if (status != STATUS_OK) {
            return false;
        }
        link->out_sent += size;
    }
    free(link->out);
    link->out = NULL;
    link->state = LINK_READING;
    link->request->written_us = clock_monotonic_ns() / 1000;
    return true;
}

static void link_start(struct drive_link *link)
{
    const struct drive_client_options *options = &link->client->options;

    drive_response_begin(&link->response, &(struct drive_response_options){
                                              .api = drive_apis[options->shape->api].api,
                                              .keeps_text = link->request->keeps_text,
                                              .gaps = link->request->gaps,
                                              .token_us = link->request->token_us,
                                              .token_max = link->request->token_max,
                                          });
    link->known = DRIVE_FINE;
    link->has_bytes = false;
    link->sends_again = false;
    enum drive_error error = link_write_request(link);
    if (error != DRIVE_FINE) {
        fail_later(link, error);
    } else if (!transport_is_open(&link->transport)) {
        connect_link(link);
    } else {
        link->is_reused = true;
        link->state = LINK_SENDING;
        if (!send_rest(link)) {
            break_off(link, false); // stale: the request is sent again and not reported
        }
    }
}

void drive_client_send(struct drive_client *client, struct drive_request *request)
{
    struct drive_link *link = take_link(client);

    link->request = request;
    link->was_sent_once = false;
    request->sent_us = loop_now_us(client->options.loop);
    client->counts.in_flight++;
    if (client->counts.in_flight > client->counts.in_flight_max) {
        client->counts.in_flight_max = client->counts.in_flight;
    }
    loop_arm(client->options.loop, &link->timer, client->options.timeout_ms);
    link_start(link);
}

static void link_recycle(struct loop_deferred *deferred)
{
    struct drive_link *link = CONTAINER_OF(deferred, struct drive_link, recycle);

    if (link->sends_again) {
        free(link->out);
        link->was_sent_once = true;
        link_start(link);
        return;
    }
    list_push(&link->client->free, &link->node);
}

// AGAIN: there is not yet a connection to send on.
static enum status finish_connecting(struct drive_link *link)
{
    if (!link->transport.can_write) {
        return STATUS_AGAIN;
    }
    if (link->state != LINK_CONNECTING) {
        return STATUS_OK;
    }
    int error = tcp_error(link->transport.source.fd);
    if (error != 0) {
        link_fail(link, connect_error(error));
        return STATUS_CLOSED;
    }
    enum status status = transport_handshake(&link->transport);
    if (status == STATUS_OK) {
        link->state = LINK_SENDING;
    } else if (status != STATUS_AGAIN) {
        link_fail(link, DRIVE_TLS);
        return STATUS_CLOSED;
    }
    return status;
}

// One read; false when there is nothing to go on with.
static bool link_read_once(struct drive_link *link)
{
    struct drive_client *client = link->client;
    size_t size = 0;
    enum status status = transport_read(&link->transport, client->bytes, read_size, &size);

    if (status == STATUS_AGAIN) {
        return false;
    }
    if (status != STATUS_OK) {
        break_off(link, status == STATUS_CLOSED);
        return false;
    }
    link->has_bytes = true;
    uint64_t now_us = loop_now_us(client->options.loop);
    if (drive_response_feed(&link->response, client->bytes, size, now_us)) {
        link_finish(link);
        return false;
    }
    return true;
}

static void link_read(struct drive_link *link)
{
    for (uint32_t reads = 0; link->transport.can_read; reads++) {
        if (reads == reads_per_turn) {
            loop_arm(link->client->options.loop, &link->resume, resume_ms);
            return;
        }
        if (!link_read_once(link)) {
            return;
        }
    }
}

static void link_resume(struct timer *timer)
{
    link_read(CONTAINER_OF(timer, struct drive_link, resume));
}

// An idle connection: bytes or a close both end it.
static void check_idle(struct drive_link *link)
{
    size_t size = 0;
    if (link->transport.can_read &&
        transport_read(&link->transport, link->client->bytes, read_size, &size) != STATUS_AGAIN) {
        close_link(link, TRANSPORT_ORDERLY);
    }
}

static void link_ready(struct loop_source *source, uint32_t events)
{
    struct drive_link *link = (struct drive_link *)source;

    transport_note(&link->transport, events);
    if (link->state == LINK_FAILED) {
        return;
    }
    if (link->state == LINK_IDLE) {
        check_idle(link);
        return;
    }
    if (link->state == LINK_CONNECTING && finish_connecting(link) != STATUS_OK) {
        return;
    }
    // Even if sending failed: the response may say why.
    bool is_sent = link->state != LINK_SENDING || send_rest(link);
    if (link->transport.can_read) {
        link_read(link);
    } else if (!is_sent) {
        break_off(link, false);
    }
}
