// SPDX-License-Identifier: Apache-2.0
//
// dns.h -- names to addresses, without blocking and with their time to live.
//
// A name is looked up as by the system: in the hosts file, then at the servers, with the search
// list of resolv.conf, which is read once.  A truncated response is asked for again over TCP.
//
// CLOSED (no such name) and IO (no server responded) are distinct: callers may drop known addresses
// on the first, and keep it on the second.  A name without addresses is CLOSED only if servers say
// so for both families.  One family is enough for OK: some servers respond to only one.
//
// c-ares writes to connections with writev(2): the program must ignore SIGPIPE.
//
// Threads: belongs to the thread of its loop.  Memory: a query owns itself until its callback ran;
// it, and what c-ares needs, is allocated when it is asked.
#pragma once

#include "base/address.h"
#include "base/status.h"

struct dns;
struct loop;

enum {
    dns_address_count_max = 64,
    // For records without a time to live: the hosts file, and servers that say zero, which would
    // otherwise mean to ask without pause.
    dns_ttl_default_ms = 5000,
    // For records that live longer than a day, and for address literals.
    dns_ttl_max_ms = 24 * 3600 * 1000,
};

struct dns_options {
    const char *servers; // "address[:port],...", IPv6 in brackets; NULL: the system's
    uint32_t timeout_ms; // of the first attempt; each round over all servers doubles it; 0: 1000
    uint32_t tries;      // rounds; 0: 3
};

struct dns_answer {
    enum status status; // OK; CLOSED: the name has no address; IO: no server responded
    const char *why;    // for the log, when status is not OK; lives as long as the program
    // With ports, IPv4 before IPv6, sorted by their bytes, without duplicates.  If more are
    // found, the first in that order are kept.
    struct address addresses[dns_address_count_max];
    uint32_t address_count; // at least one when status is OK
    uint32_t ttl_ms; // the shortest of all records, aliases too; never zero when status is OK
};

// May call dns_resolve, but not dns_destroy.
typedef void dns_done_fn(void *owner, const struct dns_answer *answer);

// Keeps `loop`.  `options` may be NULL.  MALFORMED: `servers` cannot be read.
enum status dns_create(struct loop *loop, const struct dns_options *options, struct dns **out);

// Between turns of the loop only.  Open queries are dropped without their callback.  Clears the
// caller's pointer; `*dns` may be NULL.
void dns_destroy(struct dns **dns);

// Calls `done` once, later or at once.  Asks for both families.
void dns_resolve(struct dns *dns, const char *host, uint16_t port, dns_done_fn *done, void *owner);
