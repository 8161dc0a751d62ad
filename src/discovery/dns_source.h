// SPDX-License-Identifier: Apache-2.0
//
// dns_source.h -- follows DNS names: tells their addresses again and again, as their records
// expire.
//
//     resolved       tell the addresses   again after the time to live (dns.ttl_min, dns.ttl_max)
//     not all fit    tell the addresses   again in two seconds
//     not resolved   log it once          again in two seconds; the last known addresses stay
//
// Threads: the keeper's.
#pragma once

#include "base/address.h"

struct config;
struct dns_name;
struct dns_source;
struct loop;

// Takes all addresses of a name, at least one.  False: not all of them fit.  May not leave the
// name.
typedef bool dns_name_found_fn(void *owner, const struct address *addresses, uint32_t count);

// NULL when memory is short.
struct dns_source *dns_source_create(struct loop *loop);

// Between turns of the loop only, after every name was left.  Clears the caller's pointer, which
// may be NULL.
void dns_source_destroy(struct dns_source **source);

// Must be called before the first name is resolved.  dns.servers is read once, at the first name.
void dns_source_set_config(struct dns_source *source, const struct config *config);

// Names that were left while their query was in flight take memory until it ends.
uint32_t dns_source_leaving_count(const struct dns_source *source);

// `host` is copied.  Call dns_name_resolve next.
struct dns_name *dns_name_follow(struct dns_source *source, const char *host, uint16_t port,
                                 dns_name_found_fn *found, void *owner);

// `found` is not called afterwards.  Clears the caller's pointer, which may be NULL.
void dns_name_leave(struct dns_name **name);

// Resolves now, unless a query is in flight.
void dns_name_resolve(struct dns_name *name);

// Whether a query has ended, well or not.
bool dns_name_has_resolved(const struct dns_name *name);
