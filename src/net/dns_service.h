// SPDX-License-Identifier: Apache-2.0
//
// dns_service.h -- the addresses and ports of a service, from its SRV records (RFC 2782).
//
//     _warmpath._tcp.example.com ---- SRV ----> 10 7946 a.example.com ----> 10.0.0.1:7946
//                                               10 7947 b.example.com ----> 10.0.0.2:7947
//
// The SRV records are looked up first, then all targets in parallel.  Names must be complete: the
// search list is not applied, because with it c-ares reports a failing server as a name that does
// not exist.  The hosts file is not applied to targets either.
//
// Of more than dns_service_record_count_max records, those with the lowest priority numbers are
// used.  Weights are ignored: the caller gets all addresses, sorted.
//
// Threads and memory: as for dns.h.
#pragma once

#include "net/dns.h"

enum { dns_service_record_count_max = 32 };

// Calls `done` once, later or at once; the addresses have the ports of their records.
//
// CLOSED: the name has no SRV record, the service is not offered (its target is "."), or every
// target lacks an address.  A target without an address is skipped while others have one.
// IO: the servers do not respond, the response is malformed, or a target could not be resolved; the
// caller may keep known addresses.
//
// The time to live is the shortest one of all records, and at most dns_ttl_default_ms while a
// target lacks an address.
void dns_resolve_service(struct dns *dns, const char *name, dns_done_fn *done, void *owner);
