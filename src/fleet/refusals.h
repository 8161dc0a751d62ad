// SPDX-License-Identifier: Apache-2.0
//
// refusals.h -- the kinds of requests that one backend answers without output, while other backends
// produce output for them.
//
// A backend that responds at once with an error, or with a 200 that is empty, is always idle, so
// every policy sends it more, and its health probes succeed.  But the client may be to blame: then
// every backend would refuse.  So a refusal alone proves nothing.  Another backend is asked for the
// same request, and its output is the proof:
//
//     output         the share of refusals falls
//     refusal        it rises; from refusal_suspect on the backend is suspect: the refusal is kept
//                    (exchange/kept_refusal.c), and another backend gets the request.  To see
//                    refusals behind a 200 in time, its responses wait until they show output
//                    (exchange/preview.h)
//       also there   the request is to blame: the share is zero again.  If only the other backend
//                    has had output of late, just this refusal is taken back
//       output       a proof; after refusal_proofs of them the backend is out for this kind
//       failure      nothing: the refusal passes on
//     out            for eject_time, twice as long each time in a row; then one request on trial
//
// While the other backend is asked, this one counts as busy, for at most refusal_ask_ms, unless it
// has had output of the kind as lately, and fewer than refusal_run refusals since.
//
// Where no other backend can be asked, nearly nothing but refusals is a proof too, if another one
// has output of the kind and hardly refuses.  It is none while an answer is awaited, or soon after
// a request was to blame: then the refusals may be those of one client.
//
// A backend that has been proven for refusal_kinds of its kinds, and had output of none since the
// first, is out for all kinds for as long as for the last of these.
//
// A kind is a hash of path, model, whether the response is streamed, and the size of a long body
// (prompt_keys.c).  The table keeps the kinds that came last; one that was suspect or out within a
// minute stays.
//
// Threads: any.  No locks: a lost race costs one request more or less on a faulty backend.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    refusal_kind_count = 32,
    refusal_proofs = 2,
    refusal_kinds = 3,
    // So many refusals without an output between them are hardly a client's.
    refusal_run = 8,
    refusal_ask_ms = 2000,
    // A backend that has refused is not asked for a second opinion for so long.  For ever would
    // be wrong: while black holes draw all traffic, a good one could not clear itself.
    refusal_noted_ms = 2000,
    // After a request that was to blame, no other is asked about for so long, if the backend seems
    // well: a client's bad requests must not double the load.
    refusal_rest_ms = 50,
    // Output that is older than this says nothing of the backend today.
    refusal_fresh_ms = 10000,
};

struct refusal_record {
    atomic_uint_fast64_t output_ms;      // the last output, to a second; 0: none
    atomic_uint_fast64_t refused_ms;     // the last refusal
    atomic_uint_fast64_t out_until_ms;   // 0: in
    atomic_uint_fast64_t asked_until_ms; // another backend is asked
    atomic_uint_fast64_t rests_until_ms; // no other backend is asked
    atomic_uint_fast64_t blamed_ms;      // a request was to blame; 0: never
    _Atomic float share;                 // of refusals, 0 to 1
    atomic_uint run;                     // refusals since the last output
    atomic_uint proofs;
    atomic_uint ejections; // in a row
    atomic_bool trial;     // a trial request is in flight
};

struct refusals {
    _Alignas(64) atomic_uint_fast64_t kinds[refusal_kind_count]; // 0: free
    struct refusal_record rows[refusal_kind_count];
    atomic_uint barren_kinds;             // ejections of kinds since the last output of any kind
    atomic_uint_fast64_t barren_until_ms; // out for all kinds
    atomic_bool any;                      // some row has refusals
};

struct refusal_rules {
    uint32_t eject_time_ms;
    uint32_t eject_time_max_ms;
};

enum refusal_state {
    REFUSAL_NONE,
    REFUSAL_NOTED, // it has refused this kind lately: not the one to ask for a second opinion
    REFUSAL_ASKED, // another backend is being asked
    REFUSAL_OUT,   // proven, or on trial with another request
};

enum refusal_state refusals_look(const struct refusals *refusals, uint64_t kind, uint64_t now_ms);

// Counts a request in.  False when another one is on trial; never false with `anyway`.  *on_trial
// says whether this one is; it then owes refusals_end_trial.
bool refusals_begin(struct refusals *refusals, uint64_t kind, uint64_t now_ms, bool anyway,
                    bool *on_trial);
void refusals_end_trial(struct refusals *refusals, uint64_t kind);

// A response with output, or the first output of one.
void refusals_note_output(struct refusals *refusals, uint64_t kind, bool on_trial, uint64_t now_ms);

// A response without output.  A trial ejects it again at once.  Whether another backend should be
// asked.
bool refusals_note(struct refusals *refusals, uint64_t kind, bool on_trial, uint64_t now_ms,
                   const struct refusal_rules *rules);

// Whether another backend may be asked: not when a request has just been to blame.
bool refusals_may_ask(const struct refusals *refusals, uint64_t kind, uint64_t now_ms);
// It is asked from now on.
void refusals_ask(struct refusals *refusals, uint64_t kind, uint64_t now_ms);

// It refused too.  `has_output`: it has output of this kind of late, so the request is to blame,
// and no other backend is asked for a while, if this one has output too.
void refusals_absolve(struct refusals *refusals, uint64_t kind, bool has_output, uint64_t now_ms);

// It produced output.  Whether this backend is out from now on.
bool refusals_prove(struct refusals *refusals, uint64_t kind, uint64_t now_ms,
                    const struct refusal_rules *rules);

// Whether the next refusal is asked about.
bool refusals_are_suspect(const struct refusals *refusals, uint64_t kind);

// For a request that cannot go to another backend: whether nearly all responses of late were
// refusals, and no request was to blame, so that output elsewhere for the same kind is proof
// enough.
bool refusals_are_usual(const struct refusals *refusals, uint64_t kind, uint64_t now_ms);
// Whether it has had output of the kind within refusal_fresh_ms, and hardly refuses.
bool refusals_are_rare(const struct refusals *refusals, uint64_t kind, uint64_t now_ms);
void refusals_eject(struct refusals *refusals, uint64_t kind, uint64_t now_ms,
                    const struct refusal_rules *rules);

// Whether it has produced output of that kind within refusal_fresh_ms.
bool refusals_has_output(const struct refusals *refusals, uint64_t kind, uint64_t now_ms);

// Whether any kind has refusals.
bool refusals_any(const struct refusals *refusals);

// Kinds that it is out for.
uint32_t refusals_out_count(const struct refusals *refusals, uint64_t now_ms);
