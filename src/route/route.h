// SPDX-License-Identifier: Apache-2.0
//
// route.h -- from a request to a backend.
//
// Reads from the body what routing needs, finds who serves the model, leaves out who cannot be used,
// asks what each of the others holds of the prompt and has to do, and lets the pool's policy choose:
//
//     body --prompt--> keys --index--> what each backend holds --+
//                      load of each backend ---------------------+--> policy --> backend
//                      traffic of the pool ----------------------+
//
// Of the backends that were not tried yet, the best tier that has any is used: ready ones; else those
// that asked for a pause; else, since trying beats refusing, those that are down.
//
// Threads: one struct route per thread, which shares nothing but knowledge.h and the backends' own
// counters.  Memory: allocated by route_create; deciding allocates nothing.
#pragma once

#include "api/prompt.h"
#include "base/rng.h"
#include "base/slice.h"
#include "fleet/fleet.h"
#include "policy/decision.h"

struct dialect;
struct token_result;
struct token_thread;
struct knowledge;

enum { route_tried_max = 16 };

// Where the request came in.
struct route_input {
    enum prompt_api api;
    struct slice body;
    const struct reading *reading; // of the body; NULL: it is read here
    struct slice session;          // as the headers name it; empty: as the body does, if it does
    uint64_t wall_s;               // since 1970; some chat templates print the date
    const struct token_result
        *token_result; // its ids, where they have been computed before; or NULL
    bool is_timed;     // what it takes to route it is told, if a clock was handed in
};

// Keys by blocks of another size, for engines of the same group that cut prompts otherwise.
struct route_chain {
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t block_tokens;
};

// Sizes of blocks in one group; engines with yet another one are judged by what we sent them.
enum { route_size_max = 4 };

// What it says.  Slices and keys are good until the next route_read of the same route.
struct route_request {
    struct slice model;   // empty when the body names none
    uint64_t session_key; // 0 when there is no session
    const struct prompt *prompt;
    struct dialect *dialect; // NULL: the ids below are not ours
    uint32_t shape;          // of the request, by the dialect
    const uint32_t *ids;
    uint32_t id_count;
    struct prefix_chain *chain; // NULL: nobody looks at prompts in this pool
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t prompt_tokens; // as counted, or estimated from the size of the text
    uint32_t block_tokens;  // of one block; at least 1
    float block_share;      // the same, not rounded
    bool by_token_ids;      // the keys are those of token ids, not of text
    struct route_chain others[route_size_max - 1];
    uint32_t other_count;
    uint32_t parse_ns; // that it took to read the body, if it is timed
    uint32_t name_ns;  // and to name its blocks, ids included
};

struct route_tried {
    uint64_t ids[route_tried_max];
    uint32_t count;
    uint32_t gone; // bit i: ids[i] stands for a server that is gone, with all of its ranks
};

enum route_verdict {
    ROUTE_CHOSEN,
    ROUTE_NO_SUCH_MODEL,
    ROUTE_NO_BACKEND, // nobody is left who serves it
};

// What a backend has of the prompt, by its events, by what we sent there, or by both.  Blocks are the
// request's.
struct route_holding {
    uint32_t blocks;
    uint32_t confirmed;       // of them, what the engine has shown to have
    uint32_t tokens;          // in the blocks
    uint32_t reported_tokens; // that its KV events report
    uint32_t host_tokens;     // of these, in host memory and not on the GPU
    uint32_t disk_tokens;     // and on disk only
    uint32_t worth_tokens;    // as if all of them were on the GPU
    uint32_t expected_tokens; // that its answer will say were cached
    bool by_events; // its KV events are live: they report all blocks but those on their way
};

struct route_choice {
    struct decision
        *decision;           // set by the caller: where route_choose writes it, and where it stays
    struct backend *backend; // counted in by backend_begin; the caller owes backend_end
    bool on_trial;
    uint32_t match_ns; // that it took to find out who holds what and has to do what
    uint32_t decide_ns;
};

struct route_options {
    const struct policy *const *policies; // one for each pool; further pools go by the first
    uint32_t pool_count;
    uint32_t target_count_max;
    struct policy_knobs knobs;
    uint32_t block_size;   // bytes of a block of text
    uint32_t block_tokens; // of a block of ids, where the engine does not tell
    float host_worth;      // of a token in host memory, against one on the GPU: 0..1
    float disk_worth;
    bool names_all; // prompts get keys even where the policy does not look at them
    struct token_thread *token_thread; // NULL: prompts are named by their text.  Kept
    size_t token_text_max;             // of prompts that are encoded here and at once
    struct knowledge *knowledge;
    uint32_t sender; // our number for the mail
    uint64_t seed;
    uint64_t (*clock_ns)(void); // to tell what routing itself takes; NULL: nobody asks
};

struct route;

// NULL when memory is short.  Keeps `knowledge`.
struct route *route_create(const struct route_options *options);
void route_destroy(struct route **route);

// Only whom it is for: enough for route_has_more.
void route_read_model(struct route *route, const struct route_input *input,
                      struct route_request *out);

// Whether somebody has a use for the ids of this request.
bool route_wants_ids(const struct route *route, const struct fleet_view *view,
                     const struct route_request *request);

// What the body says, if it is a JSON object; otherwise nothing.
void route_read(struct route *route, const struct fleet_view *view, const struct route_input *input,
                struct route_request *out);

// Writes `out->decision`, and counts the chosen backend in.
enum route_verdict route_choose(struct route *route, const struct fleet_view *view,
                                const struct route_request *request,
                                const struct route_tried *tried, uint64_t now_us,
                                struct route_choice *out);

// The best of the others as they looked to the last route_choose, which was for this request and has chosen
// `chosen`; best first, by the policy's own measure, or by what they have to do where it has none.
uint32_t route_rivals(const struct route *route, const struct fleet_view *view,
                      const struct route_request *request, const struct backend *chosen,
                      uint64_t now_us, struct decision_party out[decision_rival_max]);

// Every candidate as the policy saw it, and whom it would choose; nobody is counted in.  Good until
// the next call.
struct route_explanation {
    const struct policy_target *targets;
    struct backend *const *backends;
    const struct decision_party *parties;
    uint32_t chosen; // index into the three
    struct decision decision;
};
enum route_verdict route_explain(struct route *route, const struct fleet_view *view,
                                 const struct route_request *request, uint64_t now_us,
                                 struct route_explanation *out);

// Nobody listens where the last one was: its other ranks need no try.
void route_try_gone(struct route_tried *tried, const struct backend *backend);

bool route_was_tried(const struct route_tried *tried, const struct backend *backend);

// Whether anybody of that tier or a better one is left to choose, without choosing.
bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms);
