// SPDX-License-Identifier: Apache-2.0
//
// engine_job.h -- a request to a simulated engine, from the HTTP body to an engine_request.
//
// A token of text is four bytes of the prompt as api/prompt.h renders it, and its id is those bytes
// as a little-endian number; token ids from the client are used as they are.  The response is
// derived from the prompt, so the keys of all its blocks are known before the first token is
// computed:
//
//     bytes  [ prompt ............ ][ turn of the assistant ][ response ...... ]
//     keys   [ k0 ][ k1 ][ k2 ][ k3 ][ k4 ][ k5 ] ...
//
// The next turn of the conversation, which repeats the response, has the same keys.
//
// Threads: one owner.  Memory: one block from the heap, of 12 bytes for each block of the cache
// that the request can fill, and 4 for each token when ids are kept, and its salt.
#pragma once

#include "engine/engine_response.h"
#include "sim/engine/engine.h"

enum { engine_job_error_size = 320, engine_adapter_max = 64 };

// Limits and defaults for every request to one engine.
struct engine_job_rules {
    const struct profile *profile;
    struct engine_model models[1 + engine_adapter_max]; // the model, and its adapters
    uint32_t model_count;
    uint32_t output_tokens; // of a response, if the client sets no limit
    uint64_t seed;          // another seed gives other responses
    bool keeps_ids;         // token ids of blocks are needed
};

// The fields above the line are set by _read; those below belong to the caller that runs the job.
struct engine_job {
    struct engine_request request;
    struct engine_response response; // its counts are not kept up to date
    bool is_streamed;
    bool wants_usage;
    const char *adapter; // NULL: the model itself
    uint32_t adapter_id; // from 1
    const char *salt;    // where ids are kept; NULL: none
    uint8_t *bytes;      // of the tokens of all whole blocks, where ids are kept; or NULL
    // ----
    void *owner;
    uint32_t rank; // of the engine that runs it
    struct list_node ready;
    double arrived_us;
    double first_us; // 0: no token yet
    double last_us;
    uint32_t sent_tokens;
    uint32_t stall_token; // the response pauses before this one; UINT32_MAX: never
    bool is_done;         // the engine has no more to do with it
    uint64_t keys[];
};

struct engine_refusal {
    uint32_t status;
    char message[engine_job_error_size];
};

// NULL: refused, and why.  The reader is scratch.
struct engine_job *engine_job_read(const struct engine_job_rules *rules,
                                   const struct engine *engine, struct prompt_reader *reader,
                                   enum prompt_api api, struct slice body,
                                   struct engine_refusal *refusal);

// Clears the caller's pointer, which may be NULL.
void engine_job_destroy(struct engine_job **job);

// The token ids of one whole block.  Ids from the client are kept; of text and of the response, the
// four bytes of each token are a little-endian id.  The next turn, which repeats the response as
// text or as ids, has the same ones.
void engine_job_block_ids(const struct engine_job *job, uint32_t block, uint32_t block_tokens,
                          uint32_t *out);
