// SPDX-License-Identifier: Apache-2.0
//
// session.h -- the prompts of one user, turn by turn.
//
// A session is a list of pieces that grows at its end.  Each turn adds a message of the user or a
// tool, and the response; the prompt of a turn is everything but its own response:
//
//     [ common ][ shared by a group ][ own 0 ][ answer 0 ][ own 1 ][ answer 1 ] ...
//       `-------- prompt of turn 0 -------'
//       `----------------- history of turn 1 ------------'
//       `----------------------- prompt of turn 1 -------------'
//
// A request that belongs to no conversation is a session of one turn.
//
// Pure: a session is a function of its script and number.  Memory: from the heap, one block each.
#pragma once

#include "base/list.h"
#include "sim/workload/content.h"
#include "sim/workload/work_kind.h"

struct mooncake_trace;

// Common to the sessions of one workload.
struct script {
    const struct work_kind *kind;
    uint64_t seed;
    double share; // of a prompt that its group has in common; 0: the kind's
    struct zipf groups[work_prompt_max];
};

void script_init(struct script *script, const struct work_kind *kind, double share, uint64_t seed);
void script_fini(struct script *script);

struct session {
    const struct work_prompt *prompt; // NULL: it has one turn, of a trace
    uint64_t id;                      // 0: its requests are told no session
    uint64_t number;
    // Its owner's:
    uint64_t starter;
    struct list_node node;
    // The present turn:
    double own_scale; // factor on the tokens that turns add, from the share
    struct rng rng;
    uint64_t stream; // seed of the ids of its own pieces
    uint32_t turn;
    uint32_t turn_count;
    uint32_t history_tokens;
    uint32_t prompt_tokens;
    uint32_t output_tokens;
    uint32_t piece_count;  // of the present turn's prompt; the response follows
    struct piece pieces[]; // of all turns
};

// At its first turn.
struct session *session_create(const struct script *script, uint64_t number);

// A request of a trace.  Copies of other numbers have nothing in common with it.
struct session *session_of_trace(const struct mooncake_trace *trace, uint32_t index, uint32_t copy);

void session_destroy(struct session **session);

// Goes to the next turn; false when it was at its last.
bool session_go_on(struct session *session);

// The time it takes before the turn it has come to.
double session_pause_s(const struct script *script, struct session *session);
