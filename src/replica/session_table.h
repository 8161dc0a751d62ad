// SPDX-License-Identifier: Apache-2.0
//
// session_table.h -- which backend each session lives at, as the routers agree.
//
// A session is a register: the move with the larger stamp wins, whoever hears of it in whatever
// order.  Stamps are hybrid clocks (hybrid_clock.h), so a router that has heard of a move stamps
// its own later.
//
// The table has a fixed number of places, four for each hash, which the sessions with the largest
// stamps have.  A session that fell out is learned again with its next request.
//
// Threads: one.  Memory: taken by _open.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct shared_session {
    uint64_t key;
    uint64_t stamp;   // 0: an empty place
    uint64_t backend; // its identity
};

struct session_table {
    struct shared_session *places;
    uint32_t mask; // of groups of four
};

// `place_count` is a power of two, at least 4.  False when memory is short.
bool session_table_open(struct session_table *table, uint32_t place_count);
void session_table_close(struct session_table *table);

// False: a later move is known already, or four later sessions have its places.  *before is the
// backend it was at, 0: unknown.
bool session_table_move(struct session_table *table, const struct shared_session *session,
                        uint64_t *before);

// NULL: unknown.
const struct shared_session *session_table_find(const struct session_table *table, uint64_t key);

// For walks: NULL behind the last place; a session with stamp 0 is an empty place.
const struct shared_session *session_table_at(const struct session_table *table, uint32_t position);
