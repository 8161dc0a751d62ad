// SPDX-License-Identifier: Apache-2.0
//
// roster.h -- merges the sources that list backends into the fleet.
//
//     configuration   backends, read again at each reload
//     admin API       one origin at a time
//
// An origin is one line of a source.  An origin with an address is one backend.  An origin with a
// DNS name is one backend for each address of the name (dns_source.h).  If a server has
// data-parallel ranks, each rank of each address is a backend.  Backends that do not fit
// limits.backends wait until there is room.
//
//     http://10.0.0.7:8000           -> http://10.0.0.7:8000
//     http://engines:8000            -> http://engines:8000#10.0.0.7, http://engines:8000#10.0.0.8
//     http://10.0.0.7:8000, 2 ranks  -> http://10.0.0.7:8000#rank=0, http://10.0.0.7:8000#rank=1
//     http://engines:8000, 2 ranks   -> http://engines:8000#10.0.0.7#rank=0, ...
//
// Threads: the keeper's.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct config;
struct config_backend;
struct fleet;
struct kv_poller;
struct loop;
struct prober;
struct roster;
struct scraper;

struct roster_options {
    struct loop *loop;
    struct fleet *fleet;
    struct prober *prober;
    struct scraper *scraper;      // may be NULL
    struct kv_poller *poller;     // may be NULL
    const struct config *config;  // until roster_set_config
    void (*changed)(void *owner); // the fleet has changes to publish
    void *owner;
};

// NULL when memory is short.  The backends of the configuration are in the fleet when it returns,
// those behind names as soon as DNS responds.
struct roster *roster_create(const struct roster_options *options);

// Between turns of the loop only.  Clears the caller's pointer, which may be NULL.
void roster_destroy(struct roster **roster);

// Adds the backends of a new configuration, removes those that only the old one had, and changes
// weights and the models of pools.  A line whose pool, models, key, ranks or events changed is a
// new backend.  Backends from the admin API stay as long as their pool does.
void roster_set_config(struct roster *roster, const struct config *config);

// For the admin API.  `spec->pool` counts in the configuration in force.  MALFORMED: the url is
// there already.  EXHAUSTED: limits.backends, which bounds origins as well, so that names without
// an address do not pile up.  `*out` is the backend, or its first rank; NULL for a name that has
// yet to be resolved; untouched on failure.
enum status roster_add(struct roster *roster, const struct config_backend *spec,
                       struct backend **out);

// Removes the whole origin of the backend: all addresses of its name, all ranks of its server.
// MALFORMED: it stands behind a name of the configuration, whose records decide.
enum status roster_remove(struct roster *roster, struct backend *backend);

// Whether there is an origin of that url, spelt as it was added.
bool roster_has(const struct roster *roster, const char *url);

// Removes an origin with all its backends.  It may have none: a name that does not resolve is
// removed this way.  MALFORMED: the origin is unknown, or it is a name of the configuration.
enum status roster_remove_url(struct roster *roster, const char *url);

// Whether the first query of every name has ended, well or not.
bool roster_has_resolved_all(const struct roster *roster);
