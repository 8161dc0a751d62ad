// SPDX-License-Identifier: Apache-2.0
//
// dns_internal.h -- what the lookup of a service shares with the lookup of a host.
#pragma once

#include "net/dns.h"
#include "sys/loop.h"

#include <ares.h>

struct dns_service;
struct dns_socket;

struct dns {
    struct timer timer; // first: it comes back as this
    struct loop *loop;
    ares_channel channel;
    uint32_t depth;  // of calls into c-ares, which calls us back, which may call again
    bool unfinished; // some socket was left with something to read
    uint32_t socket_count;
    struct dns_socket *sockets;
    struct dns_service *services; // those whose callback has not run yet
};

// dns.c

// Every call into c-ares stands between these two.
void dns_enter(struct dns *dns);
void dns_leave(struct dns *dns);

// Keeps the list sorted.  When it is full, the last in order is dropped.
void dns_answer_insert(struct dns_answer *answer, const struct address *address);

// `ttl_s` is the TTL of a record; zero and less mean dns_ttl_default_ms.
void dns_ttl_shorten(uint32_t *ttl_ms, int ttl_s);

// The status for a result of c-ares.
enum status dns_status_of(int result);

// dns_service.c

// Frees the open lookups of services, without their callbacks.  No query of c-ares is left.
void dns_service_drop_all(struct dns *dns);
