// SPDX-License-Identifier: Apache-2.0
//
// tcp.h -- TCP sockets, all non-blocking and closed on exec.  (Not socket.h: <sys/socket.h> is
// taken.)
//
// Statuses: AGAIN, the kernel has no data or no room now; CLOSED, an orderly end of stream; IO,
// anything else, errno set.
#pragma once

#include "base/address.h"
#include "base/slice.h"
#include "base/status.h"

struct text;

// "127.0.0.1:80", "[::1]:80", ":80" or "*:80" (every address).  MALFORMED: another form.
enum status address_parse(const char *text, struct address *out);

// From a literal and a port; MALFORMED when `host` is a name.
enum status address_from_literal(const char *host, uint16_t port, struct address *out);

// In the form that address_parse reads.  The port of the first is appended by the second only.
void address_format_host(const struct address *address, struct text *out);
void address_format(const struct address *address, struct text *out);

// Bound and listening, with SO_REUSEPORT: each worker has its own queue of new connections.
enum status tcp_listen(const struct address *address, int *out);

// Whether the address is free, also of listeners with SO_REUSEPORT.  IO: it is in use, or not
// local.
enum status tcp_probe_bind(const struct address *address);

// EXHAUSTED when descriptors are short: the connection stays in the queue.
enum status tcp_accept(int listener, int *out, struct address *peer);

// Starts connecting.  EXHAUSTED: out of descriptors, memory or local ports, which is not the peer's
// fault.  The socket becomes writable when it is done; call tcp_error then.
enum status tcp_connect(const struct address *address, int *out);

// 0, or the errno that a connection died of.
int tcp_error(int fd);

// The address a listener got, for tests that bind to port 0.
enum status tcp_local(int fd, struct address *out);

enum status tcp_read(int fd, void *bytes, size_t capacity, size_t *size);

// Gathers up to 8 slices.
enum status tcp_write(int fd, const struct slice *slices, uint32_t slice_count, size_t *size);

// The peer will see a reset instead of an orderly end.
void tcp_abort_on_close(int fd);

void tcp_close(int *fd);

// Lifts the soft limit on open descriptors to the hard one and returns it.
uint64_t tcp_limit_raise(void);
