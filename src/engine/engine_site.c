// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "engine/engine_site_internal.h"
#include "engine/kv_publisher.h"
#include "net/tcp.h"
#include "sys/log.h"

#include <errno.h>
#include <stdio.h>

enum {
    // Another process may have taken the port meanwhile: try again.
    restart_retry_ms = 100,
};

static void accept_all(struct engine_site *site)
{
    struct address peer;
    enum status status = STATUS_OK;
    int fd = -1;

    while ((status = tcp_accept(site->listener.fd, &fd, &peer)) == STATUS_OK) {
        engine_connection_accept(site, fd);
    }
    if (status == STATUS_EXHAUSTED) {
        log_warn("engine: no descriptor for another connection");
    }
}

static void site_listener_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    accept_all((struct engine_site *)source);
}

static enum status listen_at(struct engine_site *site)
{
    site->listener = (struct loop_source){.fd = -1, .ready = site_listener_ready};
    if (tcp_listen(&site->address, &site->listener.fd) != STATUS_OK) {
        return STATUS_IO;
    }
    if (loop_add(site->group->loop, &site->listener) != STATUS_OK) {
        tcp_close(&site->listener.fd);
        return STATUS_IO;
    }
    return STATUS_OK;
}

static void stop_listening(struct engine_site *site)
{
    if (site->listener.magic != 0) {
        loop_remove(site->group->loop, &site->listener);
        tcp_close(&site->listener.fd);
    }
}

// Clients that wait for a response see a reset, the others a close, as when a process dies.
static void site_cut_connections(struct engine_site *site)
{
    struct list_node *node = site->connections;
    while (node != NULL) {
        struct engine_connection *c = CONTAINER_OF(node, struct engine_connection, all);
        node = node->next;
        engine_connection_drop(c, c->job != NULL ? TRANSPORT_ABORT : TRANSPORT_ORDERLY);
    }
}

static void site_restart(struct timer *timer)
{
    struct engine_site *site = CONTAINER_OF(timer, struct engine_site, restart);
    bool is_back = true;
    for (uint32_t i = 0; i < site->rank_count && is_back; i++) {
        is_back = engine_node_restart(site->ranks[i].node);
    }
    if (!is_back || listen_at(site) != STATUS_OK) {
        loop_arm(site->group->loop, timer, restart_retry_ms);
    }
}

static void site_apply_mishap(struct loop_deferred *deferred)
{
    struct engine_site *site = CONTAINER_OF(deferred, struct engine_site, apply_mishap);
    struct engine_mishap mishap = site->mishap;

    site->is_mishap_due = false;
    site->mishap = (struct engine_mishap){0};
    if (mishap.crash_s > 0) {
        // First: a client that sees the reset and reconnects is refused.
        stop_listening(site);
        for (uint32_t i = 0; i < site->rank_count; i++) {
            if (site->ranks[i].publisher != NULL) {
                kv_publisher_stop(site->ranks[i].publisher);
            }
        }
        loop_arm(site->group->loop, &site->restart, (uint64_t)(mishap.crash_s * 1000));
    }
    site_cut_connections(site);
}

// Hands on the faults that nodes and publishers apply; the API applies the others itself.
static void site_apply_faults(struct engine_site *site)
{
    for (uint32_t i = 0; i < site->rank_count; i++) {
        engine_node_slow_down(site->ranks[i].node, site->faults.slow);
        if (site->ranks[i].publisher != NULL) {
            kv_publisher_set_loss(site->ranks[i].publisher, site->faults.events_loss);
        }
    }
}

enum status engine_site_order(struct engine_site *site, struct slice body,
                              char error[engine_faults_error_size])
{
    struct engine_mishap mishap = {0};
    enum status status = engine_faults_read(body, &site->faults, &mishap, error);

    if (status != STATUS_OK) {
        return status;
    }
    site_apply_faults(site);
    for (uint32_t i = 0; i < site->rank_count; i++) {
        if (mishap.flush) {
            engine_node_flush(site->ranks[i].node);
        }
        if (mishap.freeze_ms > 0) {
            engine_node_freeze(site->ranks[i].node, mishap.freeze_ms);
        }
    }
    if (mishap.reset || mishap.crash_s > 0) {
        site->mishap = mishap;
        // At the end of the turn, so that the response to the order is sent.
        if (!site->is_mishap_due) {
            site->is_mishap_due = true;
            loop_defer(site->group->loop, &site->apply_mishap);
        }
    }
    return STATUS_OK;
}

void engine_site_clear_faults(struct engine_site *site)
{
    site->faults = engine_faults_none;
    site_apply_faults(site);
    if (timer_is_armed(&site->restart)) {
        loop_disarm(site->group->loop, &site->restart);
        site_restart(&site->restart);
    }
}

// The port of a rank; 0: the kernel chooses, or there is none.
static uint16_t rank_port(uint16_t first, const struct engine_server_options *options,
                          uint32_t index, uint32_t rank)
{
    return (uint16_t)(first > 0 ? first + index * options->rank_count + rank : 0);
}

static enum status open_rank(struct engine_site *site, const struct engine_server_options *options,
                             uint32_t index, char error[engine_server_error_size])
{
    _Static_assert((int)engine_server_error_size >= (int)kv_publisher_error_size, "it fits");
    uint32_t number = site->rank_count;
    struct engine_rank *rank = &site->ranks[number];
    const struct kv_publisher_options publisher = {
        .loop = site->group->loop,
        .host = options->host,
        .port = rank_port(options->events_port, options, index, number),
        .replay_port = rank_port(options->replay_port, options, index, number),
        .has_replay = options->replay_port > 0,
        .rank = (int32_t)number,
        .format = options->events,
        .block_tokens = options->profile->block_tokens,
        .seed = hash_pair(hash_pair(options->seed, index), number),
    };
    enum status status = options->events != NULL
                             ? kv_publisher_create(&publisher, &rank->publisher, error)
                             : STATUS_OK;

    if (status != STATUS_OK) {
        return status;
    }
    rank->node = engine_node_create(&(struct engine_node_options){
        .loop = site->group->loop,
        .profile = options->profile,
        .speed = options->speed,
        .progress = engine_connection_progress,
        .owner = site,
        .publisher = rank->publisher,
    });
    if (rank->node == NULL) {
        snprintf(error, engine_server_error_size, "out of memory for another engine");
        kv_publisher_destroy(&rank->publisher);
        return STATUS_EXHAUSTED;
    }
    site->rank_count++;
    return STATUS_OK;
}

static void close_ranks(struct engine_site *site)
{
    for (uint32_t i = 0; i < site->rank_count; i++) {
        engine_node_destroy(&site->ranks[i].node);
        kv_publisher_destroy(&site->ranks[i].publisher);
    }
    site->rank_count = 0;
}

static struct engine_job_rules site_rules(const struct engine_server_options *options)
{
    struct engine_job_rules rules = {
        .profile = options->profile,
        .models = {{.name = options->profile->name}},
        .model_count = 1,
        .output_tokens = options->output_tokens,
        .seed = options->seed,
        .keeps_ids = options->events != NULL,
    };
    for (uint32_t i = 0; i < options->adapter_count && i < engine_adapter_max; i++) {
        rules.models[rules.model_count++] =
            (struct engine_model){.name = options->adapters[i], .parent = options->profile->name};
    }
    return rules;
}

enum status engine_site_open(struct engine_site *site, struct engine_group *group,
                             const struct engine_server_options *options, uint32_t index,
                             char error[engine_server_error_size])
{
    uint32_t port = options->port > 0 ? options->port + index : 0;

    site->group = group;
    site->rules = site_rules(options);
    site->faults = engine_faults_none;
    site->faults.events_loss = options->events_loss;
    site->rng.state = hash_pair(options->seed, index);
    site->apply_mishap.run = site_apply_mishap;
    site->restart.fire = site_restart;
    if (port > UINT16_MAX ||
        address_from_literal(options->host, (uint16_t)port, &site->address) != STATUS_OK) {
        snprintf(error, engine_server_error_size, "cannot listen on %s, port %u: no such address",
                 options->host, port);
        return STATUS_MALFORMED;
    }
    char place[64];
    struct text text = text_over(place, sizeof(place));
    address_format(&site->address, &text);
    // tcp_listen alone would share a port that is in use.
    if (tcp_probe_bind(&site->address) != STATUS_OK || listen_at(site) != STATUS_OK ||
        tcp_local(site->listener.fd, &site->address) != STATUS_OK) {
        snprintf(error, engine_server_error_size, "cannot listen on %.*s: %s", (int)text.size,
                 place, strerrordesc_np(errno));
        stop_listening(site);
        return STATUS_IO;
    }
    while (site->rank_count < options->rank_count) {
        enum status status = open_rank(site, options, index, error);
        if (status != STATUS_OK) {
            close_ranks(site);
            stop_listening(site);
            return status;
        }
    }
    site_apply_faults(site);
    return STATUS_OK;
}

void engine_site_disconnect(struct engine_site *site)
{
    if (site->rank_count == 0) {
        return;
    }
    stop_listening(site);
    loop_disarm(site->group->loop, &site->restart);
    site_cut_connections(site);
}

void engine_site_close(struct engine_site *site)
{
    close_ranks(site);
}
