// SPDX-License-Identifier: Apache-2.0
//
// prober.h -- asks every backend whether it is healthy and which models it serves.
//
// Health: GET health.path every health.interval.  Any response below 500 is a success (an engine
// without that path responds 404); `fall` failures in a row take a backend down, `rise` successes
// bring it up.  The first response decides at once, so that a fleet is known as it starts.  A
// backend that is down is asked as often as before.
//
// Models: GET /v1/models every models.interval, and whenever a backend comes up.  A response that
// is not a list of models changes nothing.  After an empty list the models are unknown.
//
// Data-parallel ranks of one server are one process: its first rank is asked, and the response
// holds for all, because an engine may generate a token to check its health.
//
// Threads: the keeper's.
#pragma once

#include <stdbool.h>

struct backend;
struct config;
struct fleet;
struct loop;
struct prober;

struct prober_options {
    struct loop *loop;
    struct fleet *fleet;
    const struct config *config;  // until prober_set_config
    void (*changed)(void *owner); // the fleet has changes to publish
    void *owner;
};

// NULL when memory is short.
struct prober *prober_create(const struct prober_options *options);
void prober_destroy(struct prober **prober);

// Takes effect at once, the intervals included.  With health.interval 0 the probe of every backend
// becomes unknown.
void prober_set_config(struct prober *prober, const struct config *config);

// Starts and stops asking a backend.  The first rank of a server comes first, and ranks go
// together.
void prober_watch(struct prober *prober, struct backend *backend);
void prober_forget(struct prober *prober, const struct backend *backend);

// Whether every backend has responded, or failed to, at least once.
bool prober_has_asked_all(const struct prober *prober);
