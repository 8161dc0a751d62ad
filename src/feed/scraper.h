// SPDX-License-Identifier: Apache-2.0
//
// scraper.h -- asks every backend, for ever: how much have you to do?
//
// GET load.path every load.interval, one question at a time for each backend and never all of them
// at once; what the page says goes to the backend's load (fleet/load.h).  Whoever does not answer is
// asked ever more rarely, down to once a minute, and so is one that has no metrics; when its probes
// find it up again it is asked at once.  TensorRT-LLM lists its last steps as JSON there and may
// have better at another path: that is tried, and kept to if it has anything.
//
//     text with a known name       report it      next in load.interval
//     JSON                         report it      /prometheus/metrics at once, the first time
//     404, or no known name        has none       next in a minute
//     anything else, or nothing    failed         next in load.interval, twice that, ... a minute
//
// No answer changes the health of a backend.
//
// Threads: the keeper's.
#pragma once

struct backend;
struct config;
struct loop;
struct scraper;

struct scraper_options {
    struct loop *loop;
    const struct config *config; // until scraper_set_config
};

// NULL when memory is short.
struct scraper *scraper_create(const struct scraper_options *options);

// Clears the caller's pointer, which may be NULL.
void scraper_destroy(struct scraper **scraper);

// Takes effect at once, the interval included; whoever had no metrics is asked again.
void scraper_set_config(struct scraper *scraper, const struct config *config);

// Begins and ends asking a backend.
void scraper_watch(struct scraper *scraper, struct backend *backend);
void scraper_forget(struct scraper *scraper, const struct backend *backend);
