// SPDX-License-Identifier: Apache-2.0
//
// route.h -- from a request to a backend.
//
// Reads from the body what routing needs, finds the backends that serve the model, leaves out those
// that cannot be used, looks up what each of the others holds of the prompt and has to do, and lets
// the pool's policy choose:
//
//     body --prompt--> keys --index--> blocks that each backend holds --+
//                      load of each backend ----------------------------+--> policy --> backend
//                      traffic of the pool -----------------------------+
//
// The candidates are the backends of the best tier that has one which was not tried yet: ready;
// else paused at their own request; else down, because a try may succeed and a refusal cannot.
//
// Threads: one struct route per thread, which shares only knowledge.h and the backends' own
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
struct policy_memory;

enum { route_tried_max = 16 };

// The request as it came in.
struct route_input {
    enum prompt_api api;
    struct slice body;
    const struct reading *reading; // of the body; NULL: it is read here
    struct slice session;          // named by a header; empty: the body may name one
    struct slice path;             // of a request that should get output; empty: it is of no kind
    uint64_t wall_s;               // since 1970; some chat templates print the date
    const struct token_result *token_result; // its ids, if they were computed before; or NULL
    bool is_timed; // routing measures its own stages, if it was given a clock
};

// Keys for blocks of another size: the engines of a group need not agree on one.
struct route_chain {
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t block_tokens;
};

// Block sizes of one group.  An engine with yet another one is judged by what was sent to it.
enum { route_size_max = 4 };

// The request as routing sees it.  Slices and keys are valid until the next route_read of the same
// route.
struct route_request {
    struct slice model;   // empty when the body names none
    struct slice served;  // the model that serves it: the same, or the only one of the first pool
    uint64_t session_key; // 0: without a session
    uint64_t kind;        // of requests that a backend may refuse (refusals.h); 0: none
    bool is_second;       // a backend has refused it, and another one is asked
    const struct prompt *prompt;
    struct dialect
        *dialect;   // computed the ids below; NULL: there are none, or the client sent them
    uint32_t shape; // of the request, by the dialect
    const uint32_t *ids;
    uint32_t id_count;
    struct prefix_chain *chain; // NULL: the pool's policy does not read prompts
    const uint64_t *keys;
    uint32_t key_count;
    uint32_t prompt_tokens; // counted, or estimated from the size of the text
    uint32_t block_tokens;  // in one block; at least 1
    float block_share;      // the same, not rounded
    bool by_token_ids;      // the keys are those of token ids, not of text
    struct route_chain others[route_size_max - 1];
    uint32_t other_count;
    uint32_t parse_ns; // that it took to get the prompt; 0: not timed
    uint32_t hash_ns;  // and to hash its blocks, token ids included; 0: also if it has no keys
};

struct route_tried {
    uint64_t ids[route_tried_max];
    uint32_t count;
    uint32_t gone; // bit i: ids[i] stands for a server that is gone, with all of its ranks
};

enum route_verdict {
    ROUTE_CHOSEN,
    ROUTE_NO_SUCH_MODEL,
    ROUTE_NO_BACKEND, // every backend that serves the model was tried, or drains
};

// The part of the prompt that a backend holds, by its KV events, by what was sent to it, or by
// both.  Blocks are the request's.
struct route_holding {
    uint32_t blocks;
    uint32_t confirmed;       // of them, those that the engine has shown to hold
    uint32_t tokens;          // in the blocks
    uint32_t reported_tokens; // that its KV events report
    uint32_t host_tokens;     // of these, in host memory and not on the GPU
    uint32_t disk_tokens;     // and on disk only
    uint32_t worth_tokens;    // in GPU memory that save as much time
    uint32_t expected_tokens; // that its response will report as cached
    bool by_events;           // its live KV events report all blocks but those being computed
};

struct route_choice {
    struct decision
        *decision;           // set by the caller: route_choose writes it there, and it stays there
    struct backend *backend; // counted in by backend_begin; the caller owes backend_end
    bool on_trial;
    bool on_kind_trial; // the caller owes refusals_end_trial
    uint32_t match_ns;  // that the survey took
    uint32_t decide_ns;
};

struct route_options {
    const struct policy *const *policies; // one for each pool; further pools use the first
    uint32_t pool_count;
    // The memories of these policies, shared with other routes.  A policy with a state that has
    // NULL here gets one of its own.
    struct policy_memory *const *memories;
    uint32_t target_count_max;
    struct policy_knobs knobs;
    uint32_t block_size;   // bytes of a block of text
    uint32_t block_tokens; // of a block of ids, where no engine reports its size
    float host_worth;      // of a token in host memory, where one on the GPU is worth 1
    float disk_worth;
    bool hashes_all;                   // prompts get keys even if the policy does not read them
    struct token_thread *token_thread; // NULL: keys are those of text.  Kept
    size_t token_text_max;             // longer prompts are encoded in portions, by the caller
    struct knowledge *knowledge;
    uint32_t sender; // of updates to the index
    uint64_t seed;
    uint64_t (*clock_ns)(void); // measures the stages of routing; NULL: they are not measured
};

struct route;

// NULL when memory is short.  Keeps `knowledge`.
struct route *route_create(const struct route_options *options);
void route_destroy(struct route **route);

// Reads the model and the session only: enough for route_has_more.
void route_read_model(struct route *route, const struct route_input *input,
                      struct route_request *out);

// Whether the policy or the engine can use the token ids of this request.
bool route_wants_ids(const struct route *route, const struct fleet_view *view,
                     const struct route_request *request);

// Reads the whole request.  A body that is not a JSON object leaves `out` without model and prompt.
void route_read(struct route *route, const struct fleet_view *view, const struct route_input *input,
                struct route_request *out);

// Writes `out->decision`, and counts the request in at the chosen backend.
enum route_verdict route_choose(struct route *route, const struct fleet_view *view,
                                const struct route_request *request,
                                const struct route_tried *tried, uint64_t now_us,
                                struct route_choice *out);

// The best of the other candidates of the last route_choose, which was for this request and has
// chosen `chosen`.  Best first: by the policy's costs, or by requests in flight if it has none.
uint32_t route_rivals(const struct route *route, const struct fleet_view *view,
                      const struct route_request *request, const struct backend *chosen,
                      uint64_t now_us, struct decision_party out[decision_rival_max]);

// Every candidate as the policy saw it, and the one that it would choose.  The request is not
// counted in.  Valid until the next call.
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

// The last one tried refused the connection: the server is gone, and its other ranks are not tried.
void route_try_gone(struct route_tried *tried, const struct backend *backend);

bool route_was_tried(const struct route_tried *tried, const struct backend *backend);

// The tier of a backend for this request: that of its health, or down if it refuses such requests.
enum backend_tier route_tier(const struct route_request *request, const struct backend *backend,
                             uint64_t now_ms);

// Whether a backend of that tier or a better one is left to try.
bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms);
