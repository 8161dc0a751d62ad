// SPDX-License-Identifier: Apache-2.0
//
// origin.h -- the stand-in backend of the benchmarks: small and fast.  It reads requests without
// our HTTP code, so that a misreading of HTTP on our side cannot hide here.
//
//     POST /any/path                        1 KB of JSON, after the whole body was read
//     POST /any/path?events=N&gap_us=G      a chunked stream of N server-sent events, the first at
//                                           once, then one every G microseconds
//     POST /any/path?events=N&lockstep=1    each event as soon as the client has the one before
//     GET  /health                          200
//     GET  /v1/models                       a list with the one model `bench`
//
// Every event is a write of its own.  With neither gap nor lockstep the streams take turns, one
// event each, as fast as the sockets take them.
//
// Lockstep needs a client in the same process, which calls origin_advance for each event that has
// come.  It is there because a proxy that lags behind an eager origin finds many events in one read
// and looks fast for it; in lockstep every event is forwarded by itself, however slow the proxy.
//
// Requests bring a Content-Length; another framing gets 411: no proxy under test has a reason to
// change it, and a silent change must show.
//
// Threads: one owner, whose epoll it shares: what the owner registers must begin with an
// enum watched, too.  Memory: a fixed table of connections, indexed by descriptor.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The first field of whatever epoll gives back.
enum watched { WATCHED_OTHER, WATCHED_LISTENER, WATCHED_ORIGIN };

struct origin;

enum { origin_ports_max = 8 };

// Listens on 127.0.0.1, on each of the ports that is not zero.  NULL, with the reason on standard
// error, when it cannot.  Lives until the process ends.
struct origin *origin_create(int epoll, const uint64_t ports[static origin_ports_max]);

// Epoll gave back a WATCHED_LISTENER or a WATCHED_ORIGIN.
void origin_wake(struct origin *origin, enum watched *watched, uint32_t events, uint64_t now_ns);

// Writes the events that are due.
void origin_step(struct origin *origin, uint64_t now_ns);

// How long nothing is due.
uint64_t origin_wait_ns(const struct origin *origin, uint64_t now_ns);

// The client has the latest event of this stream.  Does nothing unless it is in lockstep.
void origin_advance(struct origin *origin, uint32_t stream, uint64_t now_ns);
