// SPDX-License-Identifier: Apache-2.0
//
// scraper.h -- asks every backend for its load: the metrics page of its engine.
//
// GET load.path every load.interval; the page becomes a report to the backend's load
// (fleet/load.h).  TensorRT-LLM lists its last steps as JSON there and may have the full text at
// another path: that path is tried once, and kept while it has a known name.
//
//     text with a known name       report it       next in load.interval
//     JSON                         report it       /prometheus/metrics at once, the first time
//     404, or no known name        no metrics      next in a minute
//     other, or no response        failed          next in load.interval, twice that, ... a minute
//
// No response changes the health of a backend.
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

// Takes effect at once, the interval included; backends without metrics are asked again.
void scraper_set_config(struct scraper *scraper, const struct config *config);

// Starts and stops asking a backend.
void scraper_watch(struct scraper *scraper, struct backend *backend);
void scraper_forget(struct scraper *scraper, const struct backend *backend);
