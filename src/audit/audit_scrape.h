// SPDX-License-Identifier: Apache-2.0
//
// audit_scrape.h -- asks every replica of a fleet for its metrics page, a round at a time.
//
// Names are looked up once, in the first round; a name with several addresses is as many replicas.
// One page may not be all: TensorRT-LLM has text at /prometheus/metrics beside the steps at
// /metrics, and SGLang tells the time of its prefills at /v1/loads.  These are asked too, and not
// again when they are not there.
//
// Threads: belongs to the thread of its loop.  Limits: audit_replica_max replicas, what is beyond
// is left out; a few are asked at a time.
#pragma once

#include "audit/audit_history.h"
#include "base/status.h"

struct audit_scrape;
struct loop;

enum { audit_replica_max = 1024 };

struct audit_scrape_options {
    struct loop *loop;
    const char *const *urls; // good ones
    uint32_t url_count;
    const char *path;
    uint32_t timeout_ms;
    const char *api_key; // NULL: none
    const char *ca;      // file of trusted certificates; NULL: the system's
    bool insecure;       // certificates are not verified
};

struct audit_scraped {
    const char *name; // the URL, and its address where that has several
    struct audit_history history;
};

// Keeps what the options point to.  EXHAUSTED: memory is short.
enum status audit_scrape_create(const struct audit_scrape_options *options,
                                struct audit_scrape **out);

// Between turns of the loop.  Clears the caller's pointer, which may be NULL.
void audit_scrape_destroy(struct audit_scrape **scrape);

// One round, which `done` ends, from the loop or at once.  Not while another one is under way.
void audit_scrape_start(struct audit_scrape *scrape, void (*done)(void *owner), void *owner);

uint32_t audit_scrape_count(const struct audit_scrape *scrape);
const struct audit_scraped *audit_scrape_at(const struct audit_scrape *scrape, uint32_t index);
