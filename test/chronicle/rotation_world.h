// SPDX-License-Identifier: Apache-2.0
//
// rotation_world.h -- requests that are done twice, exactly: by a fleet that chooses, and by one in
// rotation.
//
// Every block is in the caches (cache_twin.h), every backend does one prompt after the other in the
// order in which they came.  Receipts describe the first fleet, in the order in which requests
// ended; the estimate has to find the results of the second.
#pragma once

#include "cache_twin.h"
#include "chronicle/chronicle.h"
#include "metrics/receipt_fixture.h"

#include <math.h>

enum { world_member_max = 8, document_max = 600, session_max = 300, world_request_max = 16000 };

// Milliseconds: for one uncached token, and for all that is not prefill.
static const double world_token_ms = 0.05;
static const double world_other_ms = 20;

// How a prompt is made: documents that are shared, chats that grow, or nothing in common.
struct workload {
    const char *name;
    uint32_t document_count; // 0: none; taken by Zipf's law
    uint32_t document_least; // blocks
    uint32_t document_most;
    uint32_t session_count; // 0: none
    uint32_t tail_least;    // blocks: what is new behind a document, or in a turn
    uint32_t tail_most;
    uint32_t mean_blocks; // about
};

enum workload_name { DOCUMENTS, FEW, SHORT, VERY_SHORT, LONG, CHATS, UNIQUE, WORKLOAD_COUNT };

static const struct workload workloads[WORKLOAD_COUNT] = {
    [DOCUMENTS] = {"documents", 400, 20, 300, 0, 1, 40, 180},
    [FEW] = {"few documents", 12, 50, 200, 0, 1, 30, 140},
    [SHORT] = {"short prompts", 600, 1, 8, 0, 1, 6, 8},
    [VERY_SHORT] = {"very short prompts", 200, 1, 3, 0, 1, 1, 3},
    [LONG] = {"long documents", 30, 800, 4000, 0, 20, 200, 2500},
    [CHATS] = {"chats", 0, 0, 0, 300, 5, 60, 330},
    [UNIQUE] = {"nothing in common", 0, 0, 0, 0, 5, 100, 52},
};

enum choice { BY_CONTENT, AT_RANDOM, LEAST_BUSY };

struct world_options {
    enum workload_name work;
    enum choice choice;
    uint32_t member_count;
    uint64_t cache_tokens;
    uint32_t request_count;
    double told_factor; // what engines tell of what they found; 0: all of it
    double load;        // of the prefill that would be without caches; 0: requests are far apart
    double answer_s;    // how long answers take on average, after the first token
    bool is_untold;     // engines do not tell, and decisions expect what is there
};

// A request of the world, and what rotation would have made of it.
struct world_request {
    struct fixture_receipt made;
    uint64_t end_us;
    uint32_t chosen;
    uint32_t rotation_tokens;
    double ttft_ms;
    double rotation_ttft_ms;
};

struct world_fleet {
    struct cache_twin caches[world_member_max];
    double free_ms[world_member_max];
};

struct world {
    struct world_options options;
    const struct workload *work;
    struct rng rng;
    double now_ms;
    struct world_fleet real;
    struct world_fleet rotation;
    double zipf[document_max];
    uint32_t document_blocks[document_max];
    struct fixture_prompt sessions[session_max];
    double session_end_ms[session_max];
    uint64_t fresh;
    struct fixture_prompt prompt;
    uint32_t content; // what the prompt begins with
    struct world_request requests[world_request_max];
};

static struct world world;

static inline double world_uniform(void)
{
    return ((double)(rng_next(&world.rng) >> 11) + 0.5) / (double)(1ULL << 53);
}

static inline uint32_t world_between(uint32_t least, uint32_t most)
{
    return least + rng_below(&world.rng, most - least + 1);
}

static inline void world_members(struct chronicle_member *out, uint64_t told_cache_tokens)
{
    for (uint32_t i = 0; i < world.options.member_count; i++) {
        out[i] = (struct chronicle_member){.id = 100 + i,
                                           .slot = i,
                                           .pool = 3,
                                           .is_usable = true,
                                           .cache_tokens = told_cache_tokens,
                                           .token_ms = (float)world_token_ms};
    }
}

static inline uint32_t draw_document(void)
{
    uint32_t count = world.work->document_count;
    double at = world_uniform() * world.zipf[count - 1];
    uint32_t document = 0;
    while (document + 1 < count && world.zipf[document] < at) {
        document++;
    }
    return document;
}

static inline void add_tail(struct fixture_prompt *prompt)
{
    for (uint32_t i = world_between(world.work->tail_least, world.work->tail_most); i > 0; i--) {
        prompt_add(prompt, (1ULL << 40) + world.fresh++);
    }
}

static inline void draw_turn(void)
{
    world.content = rng_below(&world.rng, world.work->session_count);
    // A session that waits for its response sends nothing; if all wait, time passes.
    while (world.session_end_ms[world.content] > world.now_ms) {
        world.content = rng_below(&world.rng, world.work->session_count);
        world.now_ms += 1;
    }
    struct fixture_prompt *session = &world.sessions[world.content];
    if (session->block_count > 600) {
        prompt_clear(session);
    }
    add_tail(session);
    world.prompt.block_count = session->block_count;
    memcpy(world.prompt.keys, session->keys, session->block_count * sizeof(uint64_t));
}

static inline void draw_prompt(void)
{
    prompt_clear(&world.prompt);
    world.content = rng_below(&world.rng, UINT32_MAX);
    if (world.work->session_count > 0) {
        draw_turn();
        return;
    }
    if (world.work->document_count > 0) {
        world.content = draw_document();
        for (uint32_t i = 0; i < world.document_blocks[world.content]; i++) {
            prompt_add(&world.prompt, ((uint64_t)world.content << 20) + i);
        }
    }
    add_tail(&world.prompt);
}

static inline uint32_t world_choose(void)
{
    uint32_t count = world.options.member_count;
    if (world.options.choice == BY_CONTENT) {
        return (uint32_t)rng_mix(world.content) % count;
    }
    uint32_t chosen = rng_below(&world.rng, count);
    for (uint32_t i = 0; i < count && world.options.choice == LEAST_BUSY; i++) {
        chosen = world.real.free_ms[i] < world.real.free_ms[chosen] ? i : chosen;
    }
    return chosen;
}

// Returns the tokens that were cached.
static inline uint32_t world_compute(struct world_fleet *fleet, uint32_t member, double *ttft_ms)
{
    uint32_t blocks = world.prompt.block_count;
    uint32_t found = twin_compute(&fleet->caches[member], world.prompt.keys, blocks);
    double begin_ms = fmax(world.now_ms, fleet->free_ms[member]);
    fleet->free_ms[member] =
        begin_ms + (blocks - found) * (double)fixture_block_tokens * world_token_ms;
    *ttft_ms = fleet->free_ms[member] - world.now_ms + world_other_ms;
    return found * fixture_block_tokens;
}

static inline void world_pass(uint32_t index)
{
    struct world_request *request = &world.requests[index];
    double factor = world.options.told_factor > 0 ? world.options.told_factor : 1;
    double gap_ms = world.options.load > 0
                        ? world.work->mean_blocks * (double)fixture_block_tokens * world_token_ms /
                              world.options.member_count / world.options.load
                        : 1000000;

    world.now_ms += -log(world_uniform()) * gap_ms;
    draw_prompt();
    request->chosen = world_choose();
    uint32_t found = world_compute(&world.real, request->chosen, &request->ttft_ms);
    uint32_t rotation = world_compute(&world.rotation, index % world.options.member_count,
                                      &request->rotation_ttft_ms);
    uint32_t told = (uint32_t)(factor * found);
    double end_ms = request->ttft_ms - log(world_uniform()) * world.options.answer_s * 1000;
    if (world.work->session_count > 0) {
        world.session_end_ms[world.content] = world.now_ms + end_ms;
    }
    request->rotation_tokens = (uint32_t)(factor * rotation);
    struct receipt receipt = {
        .number = index,
        .wall_us = 1700000000000000ULL + (uint64_t)(world.now_ms * 1000),
        .decision.chosen.backend = 100 + request->chosen,
        .decision.chosen.slot = request->chosen,
        .decision.pool = 3,
        .outcome = RECEIPT_OK,
        .first_us = (uint64_t)(request->ttft_ms * 1000),
        .end_us = (uint64_t)(end_ms * 1000),
        .prompt_tokens = world.prompt.block_count * fixture_block_tokens,
        .decision.chosen.expected_tokens = told,
        .cached_tokens = world.options.is_untold ? 0 : told,
        .has_cached_tokens = !world.options.is_untold,
        .saved_us = (uint64_t)(told * world_token_ms * 1000),
        .block_tokens = fixture_block_tokens,
    };
    request->end_us = receipt.wall_us + receipt.end_us;
    receipt_make(&request->made, receipt, &world.prompt, (struct receipt_parts){0});
}

static inline int world_by_end(const void *a, const void *b)
{
    const struct world_request *one = a;
    const struct world_request *other = b;
    return (one->end_us > other->end_us) - (one->end_us < other->end_us);
}

// Fills world.requests, in the order of their ends.
static inline void world_run(const struct world_options *options)
{
    double sum = 0;

    ASSERT(options->request_count <= world_request_max);
    memset(&world, 0, sizeof(world));
    world.options = *options;
    world.work = &workloads[options->work];
    world.rng = (struct rng){42};
    for (uint32_t i = 0; i < options->member_count; i++) {
        twin_init(&world.real.caches[i], options->cache_tokens, fixture_block_tokens);
        twin_init(&world.rotation.caches[i], options->cache_tokens, fixture_block_tokens);
    }
    for (uint32_t i = 0; i < world.work->document_count; i++) {
        sum += 1.0 / (i + 1);
        world.zipf[i] = sum;
        world.document_blocks[i] =
            world_between(world.work->document_least, world.work->document_most);
    }
    for (uint32_t i = 0; i < options->request_count; i++) {
        world_pass(i);
    }
    qsort(world.requests, options->request_count, sizeof(world.requests[0]), world_by_end);
    for (uint32_t i = 0; i < options->member_count; i++) {
        twin_fini(&world.real.caches[i]);
        twin_fini(&world.rotation.caches[i]);
    }
}

static inline const struct receipt *world_receipt(uint32_t index)
{
    return (const struct receipt *)world.requests[index].made.bytes;
}
