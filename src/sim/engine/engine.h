// SPDX-License-Identifier: Apache-2.0
//
// engine.h -- simulates the times and the cache of an inference engine.
//
// Continuous batching as vLLM does it.  Each step has room for so many tokens and so many
// sequences.  First the running requests get theirs, in the order of admission: one token each, or
// the next chunk of their prompt.  Then waiting ones are admitted, first come first served, as long
// as the whole prompt fits into the KV cache; a request that does not fit blocks those behind it.
// A running request that finds no block for its next token preempts the youngest one, which loses
// its blocks and starts over later.
//
//     waiting  [ r7 r8 ... ] --admit--> running [ r1 r2 ... r6 ] --last token--> done
//                  ^                                  |
//                  +---------- preempted -------------+
//
// The cache is kv_pool.h.  Blocks can be reused from the moment they are scheduled, and stay when
// their request has ended; the last token of a prompt is always computed, so a prompt that is
// cached whole computes its last block again.
//
// Pure: the caller owns time.  engine_step returns the time of a step, engine_step_end makes its
// tokens.  Threads: one owner.  Memory: taken by _create; requests are the caller's.
#pragma once

#include "base/list.h"
#include "sim/engine/profile.h"

struct engine;
struct engine_request;

// Called during a step: `token` from engine_step_end, all others from engine_step; those
// that remove blocks also from engine_flush.  Any may be NULL.
struct engine_observer {
    void *owner;
    // It has one output token more; is_last: it has ended and is the caller's again.
    void (*token)(void *owner, struct engine_request *request, bool is_last);
    // `count` blocks of the request from number `first` on can be reused from now on.
    void (*stored)(void *owner, struct engine_request *request, uint32_t first, uint32_t count);
    void (*removed)(void *owner, uint64_t key);
    void (*cleared)(void *owner);
    // The second tier: the host keeps a copy of this block, which is removed next; it has it no
    // more.
    void (*kept)(void *owner, uint32_t block, uint64_t key);
    void (*dropped)(void *owner, uint64_t key);
};

enum engine_phase { ENGINE_NOWHERE, ENGINE_WAITING, ENGINE_RUNNING };

// The caller fills in the fields above the line, and keeps all until the last token or
// engine_cancel.
struct engine_request {
    const uint64_t *keys; // of the blocks of prompt and response: key_count of them
    uint32_t *blocks;     // room for the numbers of all blocks of prompt and response, whole or not
    uint32_t key_count;
    uint32_t prompt_tokens; // at least 1
    uint32_t output_tokens; // at least 1
    bool reads_no_cache;    // computes all of its prompt
    // ----
    enum engine_phase phase;
    uint32_t cached_tokens; // found in the cache when it was first admitted
    uint32_t host_tokens;   // of them, in the host's tier
    uint32_t made_tokens;   // of output so far
    uint32_t computed;      // of prompt and output, in the cache
    uint32_t block_count;
    uint32_t named_count; // of its blocks, those that can be reused
    uint32_t preemptions;
    uint32_t chunk; // tokens of it in the present step
    struct list_node node;
};

struct engine_status {
    uint32_t running;
    uint32_t waiting;
    uint64_t used_tokens; // of the cache, by running requests
    uint64_t kv_tokens;   // of the cache, in all
    // Ever since:
    uint64_t query_tokens; // of admitted requests
    uint64_t hit_tokens;
    uint64_t prompt_tokens; // computed or found
    uint64_t output_tokens;
    uint64_t preemptions;
    uint64_t step_count;
    double busy_ms;
};

// NULL when memory is short.  Copies both.
struct engine *engine_create(const struct profile *profile, const struct engine_observer *observer);
void engine_destroy(struct engine **engine);

// Whether a request of that size can ever run.
bool engine_fits(const struct engine *engine, uint64_t prompt_tokens, uint64_t output_tokens);

// Blocks, whole or not, that prompt and response need.
uint32_t engine_blocks_of(const struct engine *engine, uint64_t tokens);

// Queues it, at any time.
void engine_submit(struct engine *engine, struct engine_request *request);

// Takes it out wherever it is, also in the middle of a step; its whole blocks stay cached.
void engine_cancel(struct engine *engine, struct engine_request *request);

// Any waiting or running request, or NULL.
struct engine_request *engine_any(const struct engine *engine);

// Schedules a step and returns how many ms it takes; 0: there is nothing to do.
double engine_step(struct engine *engine);

// The step that was begun is over.
void engine_step_end(struct engine *engine);

// Empties the cache, the host's as well.  Running requests keep their blocks, which no other
// request will find.
void engine_flush(struct engine *engine);

void engine_status(const struct engine *engine, struct engine_status *out);
