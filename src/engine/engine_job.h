// SPDX-License-Identifier: Apache-2.0
//
// engine_job.h -- a request for a simulated engine: from the body to what engine.h computes.
//
// A token of text is four bytes of the prompt as api/prompt.h renders it, and its id is those bytes as a
// little-endian number; ids that the client sends are taken as they are.  The answer follows from the prompt, so the keys of all blocks, the
// answer's included, are known before the first token is made:
//
//     bytes  [ prompt ............ ][ turn of the assistant ][ answer ........ ]
//     keys   [ k0 ][ k1 ][ k2 ][ k3 ][ k4 ][ k5 ] ...
//
// and the next turn of the conversation, which repeats the answer, has the same ones.
//
// Threads: one owner.  Memory: one block from the heap, of 12 bytes for each block of the cache that
// the request can fill, and 4 for each token when ids are kept, and its salt.
#pragma once

#include "engine/engine_answer.h"
#include "sim/engine/engine.h"

enum { engine_job_error_size = 320, engine_model_name_size = 256, engine_adapter_max = 64 };

// What every request to one engine is measured against.
struct engine_job_rules {
    const struct profile *profile;
    struct engine_model models[1 + engine_adapter_max]; // the model, and its adapters
    uint32_t model_count;
    uint32_t output_tokens; // of an answer whose length the client does not say
    uint64_t seed;          // answers of another seed read otherwise
    bool keeps_ids;         // somebody wants the token ids of blocks
};

// The fields above the line are set by _read; those below are for whoever runs the job.
struct engine_job {
    struct engine_request request;
    struct engine_answer answer; // its counts are not kept up to date
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
    uint32_t stall_token; // the answer pauses before this one; UINT32_MAX: it does not
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

// The token ids of one whole block, which are kept: those that the client sent; of text, and of the answer,
// the four bytes of each token as a little-endian number.  So the next turn, which repeats the answer
// as text or as such ids, has the same ones.
void engine_job_block_ids(const struct engine_job *job, uint32_t block, uint32_t block_tokens,
                          uint32_t *out);
