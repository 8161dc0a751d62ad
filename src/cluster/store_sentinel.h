// SPDX-License-Identifier: Apache-2.0
//
// store_sentinel.h -- asks Sentinels for the address of the master.
//
//     sentinel 1 --refused--> sentinel 2 --unknown master--> sentinel 3 --address--> `found`
//
// Asks one Sentinel after the other, the one that knew the address last first.  A Sentinel that
// asks for a login gets that of the store.  During a failover the address may be that of the old
// master, so the caller must check the role of the server.
//
// Threads: belongs to the thread of its loop.  Memory: taken by create, as store_connection.
#pragma once

#include "base/status.h"
#include "cluster/store_url.h"

struct dns;
struct loop;
struct store_sentinel;
struct tls_context;

// Called from the loop's turns.  Neither may ask or destroy.
struct store_sentinel_events {
    void (*found)(void *owner, const struct store_host *host);
    void (*failed)(void *owner, const char *why); // the reason of the last Sentinel
};

struct store_sentinel_options {
    struct loop *loop;
    struct dns *dns;
    struct tls_context *tls;     // NULL: plain
    const struct store_url *url; // kept
    const struct store_sentinel_events *events;
    void *owner;
    uint32_t timeout_ms; // of each Sentinel: connecting, and again its reply
};

// EXHAUSTED: no memory.
enum status store_sentinel_create(const struct store_sentinel_options *options,
                                  struct store_sentinel **out);

// Between turns, and after dns_destroy.  Clears the caller's pointer, which may be NULL.
void store_sentinel_destroy(struct store_sentinel **sentinel);

// From a timer or between turns; no question may be open.
void store_sentinel_ask(struct store_sentinel *sentinel);
