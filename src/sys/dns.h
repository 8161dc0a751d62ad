// SPDX-License-Identifier: Apache-2.0
//
// dns.h -- names to addresses, without blocking and with their time to live.
//
// Threads: belongs to the thread of its loop.  Memory: a query owns itself until its callback ran.
#pragma once

#include "base/address.h"
#include "base/status.h"

struct dns;
struct loop;

enum { dns_address_count_max = 64 };

struct dns_answer {
    enum status status; // OK; CLOSED: the name has no address; IO: no server answered
    const char *why;    // for the log, when status is not OK
    struct address addresses[dns_address_count_max]; // port filled in, sorted, without duplicates
    uint32_t address_count;
    uint32_t ttl_ms; // the shortest of all records
};

typedef void dns_done_fn(void *owner, const struct dns_answer *answer);

// `servers` is "address[:port],..." or NULL for the system's; keeps `loop`.
enum status dns_create(struct loop *loop, const char *servers, struct dns **out);

// Open queries are dropped without their callback.  Clears the caller's pointer; `*dns` may be NULL.
void dns_destroy(struct dns **dns);

// Calls `done` once, later or at once.  Asks for both families.
void dns_resolve(struct dns *dns, const char *host, uint16_t port, dns_done_fn *done, void *owner);
