// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/text.h"
#include "cluster/mesh_internal.h"
#include "net/tcp.h"
#include "sys/log.h"

#include <stdio.h>

static void mesh_dial_fail(struct mesh_dial *dial, bool is_quiet, const char *why);

static void mesh_dial_fire(struct timer *timer)
{
    struct mesh_dial *dial = CONTAINER_OF(timer, struct mesh_dial, timer);
    const char *why = NULL;

    if (dial->connection == NULL && mesh_connection_dial(dial, &why) != STATUS_OK) {
        mesh_dial_fail(dial, false, why);
    }
}

// Half of the interval is random, so that routers which lost each other together do not meet in
// step.
static uint32_t mesh_backoff_ms(struct mesh_dial *dial)
{
    uint32_t doublings = dial->failures < 8 ? dial->failures - 1 : 7;
    uint32_t most_ms = mesh_backoff_min_ms << doublings;
    most_ms = most_ms < mesh_backoff_max_ms ? most_ms : mesh_backoff_max_ms;
    return most_ms / 2 + rng_below(&dial->link->rng, most_ms / 2 + 1);
}

static void mesh_dial_again(struct mesh_dial *dial)
{
    loop_arm(dial->link->loop, &dial->timer, dial->failures == 0 ? 0 : mesh_backoff_ms(dial));
}

static void mesh_dial_rest(struct mesh_dial *dial)
{
    uint32_t spread_ms = rng_below(&dial->link->rng, mesh_rest_ms / 4);
    loop_arm(dial->link->loop, &dial->timer, mesh_rest_ms + spread_ms);
}

static void mesh_dial_fail(struct mesh_dial *dial, bool is_quiet, const char *why)
{
    dial->failures += dial->failures < UINT32_MAX;
    dial->is_self = false;
    snprintf(dial->why, sizeof(dial->why), "%s", why);
    if (!is_quiet && mesh_said_is_new(&dial->said, why)) {
        log_warn("cluster: peer %s: not connected: %s", dial->text, why);
    }
    mesh_dial_again(dial);
}

void mesh_dial_ended(struct mesh_dial *dial, enum mesh_end how, const char *why)
{
    bool is_there = dial->router != 0 && mesh_peer_find(dial->link, dial->router) != NULL;
    if (how == MESH_END_REST || is_there) {
        mesh_dial_rest(dial);
    } else {
        mesh_dial_fail(dial, how == MESH_END_QUIET, why);
    }
}

static struct mesh_dial *mesh_dial_find(struct mesh_link *link, const struct address *address)
{
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        if (address_equal(&link->dials[i].address, address)) {
            return &link->dials[i];
        }
    }
    return NULL;
}

// NULL: there are too many addresses.
static struct mesh_dial *mesh_dial_add(struct mesh_link *link, const struct address *address)
{
    struct mesh_dial *dial = mesh_dial_find(link, &(struct address){0});
    if (dial == NULL) {
        log_warn_seldom(0, "cluster: peers have more than %d addresses; the others are not dialled",
                        mesh_dial_count_max);
        return NULL;
    }
    *dial = (struct mesh_dial){.link = link, .address = *address, .timer.fire = mesh_dial_fire};
    struct text text = text_over(dial->text, sizeof(dial->text) - 1);
    address_format(address, &text);
    dial->text[text.size] = '\0';
    mesh_dial_again(dial);
    return dial;
}

static void mesh_dial_drop(struct mesh_dial *dial)
{
    struct mesh_connection *connection = dial->connection;

    loop_disarm(dial->link->loop, &dial->timer);
    *dial = (struct mesh_dial){0};
    if (connection == NULL) {
        return;
    }
    connection->dial = NULL; // a peer that is there stays
    if (connection->phase != MESH_UP) {
        mesh_connection_end(connection, MESH_END_QUIET, "its address is no longer configured");
    }
}

void mesh_dial_set(struct mesh_link *link, uint32_t name, const struct address *addresses,
                   uint32_t count)
{
    uint64_t bit = 1ULL << name;

    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        link->dials[i].names &= ~bit;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct mesh_dial *dial = mesh_dial_find(link, &addresses[i]);
        dial = dial != NULL ? dial : mesh_dial_add(link, &addresses[i]);
        if (dial != NULL) {
            dial->names |= bit;
        }
    }
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        if (link->dials[i].address.size > 0 && link->dials[i].names == 0) {
            mesh_dial_drop(&link->dials[i]);
        }
    }
}

void mesh_dial_stop_all(struct mesh_link *link)
{
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        loop_disarm(link->loop, &link->dials[i].timer);
    }
}

void mesh_dial_found(struct mesh_dial *dial, const struct mesh_hello *hello)
{
    struct mesh_link *link = dial->link;

    dial->is_self = hello->router == link->router;
    dial->router = dial->is_self ? 0 : hello->router;
    snprintf(dial->router_name, sizeof(dial->router_name), "%.*s", (int)hello->name.size,
             (const char *)hello->name.bytes);
    struct mesh_peer *peer = dial->is_self ? NULL : mesh_peer_find(link, hello->router);
    if (peer != NULL) {
        memcpy(peer->address, dial->text, sizeof(peer->address)); // says more than a client's port
    }
}

void mesh_dial_router_came(struct mesh_link *link, uint64_t router)
{
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        struct mesh_dial *dial = &link->dials[i];
        if (dial->router != router) {
            continue;
        }
        dial->said.count = 0;
        if (dial->connection == NULL) {
            mesh_dial_rest(dial);
        }
    }
}

void mesh_dial_router_left(struct mesh_link *link, uint64_t router, uint64_t lasted_ms,
                           const char *why)
{
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        struct mesh_dial *dial = &link->dials[i];
        if (dial->router != router) {
            continue;
        }
        dial->failures = lasted_ms >= mesh_steady_ms ? 0 : dial->failures + 1;
        snprintf(dial->why, sizeof(dial->why), "%s", why);
        if (dial->connection == NULL) {
            mesh_dial_again(dial);
        }
    }
}

const struct mesh_dial *mesh_dial_of(const struct mesh_link *link, uint64_t router)
{
    for (uint32_t i = 0; i < mesh_dial_count_max; i++) {
        if (link->dials[i].router == router) {
            return &link->dials[i];
        }
    }
    return NULL;
}
