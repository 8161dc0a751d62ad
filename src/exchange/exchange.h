// SPDX-License-Identifier: Apache-2.0
//
// exchange.h -- one request and its response, from the first byte in to the last byte out.
//
// An exchange is a list of steps (exchange_internal.h names them in order).  A step does what it
// can without blocking and returns the step to run next; when it must wait it arranges for its
// wake-up and returns NULL, and the same step runs again later.  A step never waits in the middle:
// what holds at its first line still holds at its last.
//
// Threads: owned by one worker; no field is shared.
#pragma once

#include <stddef.h>

struct client;
struct exchange;

// Of a slot in worker->exchanges.
size_t exchange_size(void);

// Begins with the bytes in client->in.
void exchange_start(struct client *client);

// Runs steps until one of them parks or the exchange is over; then client->exchange is NULL and the
// client may be closed.
void exchange_run(struct exchange *x);

// The connection to the backend has news; `owner` is the exchange.
void exchange_wake(void *owner);

// The deadline of the present phase has passed.
void exchange_expire(struct exchange *x);

// The client is gone, or must go: ends everything at once.
void exchange_abort(struct exchange *x);
