// SPDX-License-Identifier: Apache-2.0
//
// prober.h -- asks every backend, for ever: are you well, and what do you serve?
//
// Health: GET health.path every health.interval.  An answer below 500 is a sign of life (an engine
// without that path says 404); `fall` failures in a row take a backend out, `rise` successes bring it
// back.  The first answer decides at once, so a fleet is known as it starts.  A backend that is out
// is asked as before: nobody is forgotten.
//
// Models: GET /v1/models every models.interval and whenever a backend comes up.  What is not a list
// of models changes nothing.
//
// Data-parallel ranks of one server are one process: its first rank is asked, and the answer holds for
// all.  A probe can cost a generated token, which should not be computed once for each.
//
// Threads: the keeper's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct backend;
struct config;
struct fleet;
struct loop;
struct prober;

struct prober_options {
    struct loop *loop;
    struct fleet *fleet;
    const struct config *config;  // until prober_set_config
    void (*changed)(void *owner); // the fleet has news to publish
    void *owner;
};

// NULL when memory is short.
struct prober *prober_create(const struct prober_options *options);
void prober_destroy(struct prober **prober);

// Takes effect at once, the intervals included.  Without probes nobody is down by them.
void prober_set_config(struct prober *prober, const struct config *config);

// Begins and ends asking a backend.  The first rank of a server comes first, and ranks go together.
void prober_watch(struct prober *prober, struct backend *backend);
void prober_forget(struct prober *prober, const struct backend *backend);

// Whether every backend has been heard of, or given up on, once.
bool prober_has_asked_all(const struct prober *prober);
