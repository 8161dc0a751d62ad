// SPDX-License-Identifier: Apache-2.0
//
// load.h -- the load of the proxy benchmark: one tool for all cases and all proxies.
//
//     closed    every connection sends its next request when the answer is in: throughput
//     open      requests start at a fixed rate, whatever the answers do: latency
//     idle      every connection sends one request, then all are held: memory
//     streams   every connection starts a stream, then all are held: memory
//
// In `open` a latency runs from the time at which the request was due, not from the time at which
// it was sent, so that a proxy which stalls is charged for all the requests that the stall held up.
// Requests that are due when every connection is busy wait and are charged for it.
//
// The load and the origin (origin.h) live in one process, on one core, and take turns in one loop:
// no scheduler stands between them, and a stream can run in lockstep with its reader.
//
// `warmpath load` and `warmpath engine` cannot take their place: those replay workloads against
// engines that take their time.  `warmpath load` spends 145 µs of CPU on a request, because it
// writes a prompt of its own for each; this one spends 10 µs, so that one core can load a proxy
// with 40,000 requests a second.  It also holds 10,000 connections, runs events in lockstep, and
// knows the time that another program had the core.  Responses are read with the same
// http/response.
//
// Says `begin` and `end` on standard output around the time that is measured, or `holding` once all
// connections are held.
#pragma once

#include "base/histogram.h"
#include "origin.h"
#include "usage.h"

enum load_mode { LOAD_CLOSED, LOAD_OPEN, LOAD_IDLE, LOAD_STREAMS };

struct load_options {
    enum load_mode mode;
    uint64_t port; // of the proxy, on 127.0.0.1
    uint64_t connections;
    uint64_t body_size;
    uint64_t
        chats;     // conversations that take turns, each request with a new end; 0: always one body
    uint64_t rate; // requests a second, in `open`
    uint64_t spin; // 1: never sleep, so that the server need not wake us
    uint64_t warmup_ms;
    uint64_t measure_ms;
    const char *path;
    const char *watch; // threads of the proxy, see usage.h
};

struct load_result {
    uint64_t answers;
    uint64_t answer_bytes; // of their bodies
    uint64_t missing;      // were due in `open` and did not come
    uint64_t reads;
    uint64_t failures; // responses other than a complete 200, connections lost
    uint64_t reconnects;
    uint64_t measured_ns;
    struct usage server; // within what is measured
    struct usage self;
    struct histogram whole;  // until the last byte
    struct histogram first;  // until the first byte of the body
    struct histogram events; // of each event, from its writing
};

struct load;

enum { load_connections_max = 16384 };

// Keeps `origin`.  NULL when memory is short.  Lives until the process ends.
struct load *load_create(int epoll, struct origin *origin);

// False when a thread to watch is not there; the run is then to be released.
bool load_start(struct load *load, const struct load_options *options, uint64_t now_ns);

// Lets go of what is held.
void load_release(struct load *load);

// Opens, sends and times what is due.  False once the run is over and nothing is under way.
bool load_step(struct load *load, uint64_t now_ns);

// Epoll gave back a WATCHED_OTHER that is ours.
void load_wake(struct load *load, enum watched *watched, uint32_t events, uint64_t now_ns);

// How long nothing is due.
uint64_t load_wait_ns(const struct load *load, uint64_t now_ns);

// Of the last run.
const struct load_result *load_result(const struct load *load);
