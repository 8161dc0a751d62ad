// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_job.h"

#include "base/base.h"
#include "base/hash.h"
#include "json/json.h"
#include "sim/workload/content.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { run_tokens = 64 };

__attribute__((format(printf, 3, 4))) static struct engine_job *
job_refuse(struct engine_refusal *refusal, uint32_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    refusal->status = status;
    vsnprintf(refusal->message, sizeof(refusal->message), format, arguments);
    va_end(arguments);
    return NULL;
}

// Why a body has no prompt.
static struct engine_job *job_refuse_body(struct slice body, enum prompt_api api,
                                          struct engine_refusal *refusal)
{
    const char *name = api == PROMPT_CHAT ? "messages" : "prompt";
    struct json_value value = {0};
    if (json_find(body, &name, 1, &value) != STATUS_OK) {
        return job_refuse(refusal, 400, "the body is not valid JSON");
    }
    if (value.kind == JSON_ABSENT) {
        return job_refuse(refusal, 400, "%s: field required", name);
    }
    return job_refuse(refusal, 400, "%s: %s", name,
                      api == PROMPT_CHAT ? "must be a list with at least one message"
                                         : "must be a text or a list of token ids");
}

// The first one is served under no name, too.
static const struct engine_model *job_find_model(const struct engine_job_rules *rules,
                                                 struct slice name)
{
    for (uint32_t i = 0; i < rules->model_count; i++) {
        if (name.size == 0 || slice_is(name, rules->models[i].name)) {
            return &rules->models[i];
        }
    }
    return NULL;
}

// The sizes of a request, in tokens.
struct measure {
    uint64_t prompt_tokens;
    uint64_t output_tokens;
};

static bool job_measure(const struct engine_job_rules *rules, const struct engine *engine,
                        const struct prompt *prompt, struct measure *out,
                        struct engine_refusal *refusal)
{
    uint64_t context_max = rules->profile->context_max;
    uint64_t tokens = prompt->form == PROMPT_TOKENS
                          ? prompt->token_count
                          : (prompt->text_size + content_token_size - 1) / content_token_size;
    uint64_t left = tokens < context_max ? context_max - tokens : 0;
    uint64_t wanted = prompt->output_max > 0        ? prompt->output_max
                      : rules->output_tokens < left ? rules->output_tokens
                                                    : left;

    out->prompt_tokens = tokens;
    out->output_tokens = wanted;
    if (tokens == 0) {
        job_refuse(refusal, 400, "the prompt is empty");
        return false;
    }
    if (wanted == 0 || wanted > context_max || !engine_fits(engine, tokens, wanted)) {
        job_refuse(refusal, 400,
                   "the prompt has %" PRIu64 " tokens and the response may have %" PRIu64
                   ", which is more than the maximum context length of %" PRIu64
                   " tokens or than the KV cache of %" PRIu64 " tokens",
                   tokens, wanted, context_max, rules->profile->kv_tokens);
        return false;
    }
    return true;
}

// The response's part of the chain.
static void job_add_response(struct prefix_chain *chain, const struct prompt *prompt,
                             uint64_t text_id, uint64_t tokens)
{
    char words[run_tokens * content_token_size];
    if (prompt->form == PROMPT_TEXT && prompt->api == PROMPT_CHAT) {
        prompt_begin_answer(chain);
    }
    for (uint32_t from = 0; from < tokens; from += run_tokens) {
        uint32_t part = tokens - from < run_tokens ? (uint32_t)(tokens - from) : run_tokens;
        content_text(text_id, from, part, words);
        prefix_chain_add(chain, slice_of(words, (size_t)part * content_token_size));
    }
}

static void job_name_blocks(struct engine_job *job, const struct engine_job_rules *rules,
                            struct prompt_reader *reader, const struct prompt *prompt,
                            const struct engine_model *model)
{
    uint32_t block_tokens = rules->profile->block_tokens;
    uint64_t tokens = (uint64_t)job->request.prompt_tokens + job->request.output_tokens;
    struct prefix_space space = {
        .model = slice_str(rules->models[0].name),
        .adapter = model->parent != NULL ? slice_str(model->name) : prompt->adapter,
        .salt = prompt->salt,
    };
    uint64_t seed = prompt->form == PROMPT_TOKENS ? prefix_seed(&space) : prefix_text_seed(&space);
    struct prefix_chain chain;

    prefix_chain_begin(&chain, seed, block_tokens * content_token_size, job->keys,
                       (uint32_t)(tokens / block_tokens));
    chain.copy = job->bytes;
    prompt_hash(reader, prompt, &chain);
    uint64_t text_id =
        hash_pair(hash_bytes(slice_of(chain.block, chain.pending), chain.last), rules->seed);
    job->response.text_id = text_id;
    job_add_response(&chain, prompt, text_id, job->request.output_tokens);
    job->request.keys = job->keys;
    job->request.key_count = chain.key_count;
}

static struct engine_job *job_allocate(const struct engine *engine, const struct measure *size,
                                       struct slice salt, bool keeps_ids)
{
    uint64_t tokens = size->prompt_tokens + size->output_tokens;
    uint32_t block_count = engine_blocks_of(engine, tokens);
    struct engine_job *job =
        calloc(1, sizeof(*job) + block_count * (sizeof(uint64_t) + sizeof(uint32_t)) +
                      (keeps_ids ? tokens * content_token_size + salt.size + 1 : 0));
    if (job == NULL) {
        return NULL;
    }
    job->request.blocks = (uint32_t *)(job->keys + block_count);
    job->bytes = keeps_ids ? (uint8_t *)(job->request.blocks + block_count) : NULL;
    if (keeps_ids && salt.size > 0) {
        // Its terminating zero is there already.
        job->salt = memcpy(job->bytes + tokens * content_token_size, salt.bytes, salt.size);
    }
    job->request.prompt_tokens = (uint32_t)size->prompt_tokens;
    job->request.output_tokens = (uint32_t)size->output_tokens;
    job->stall_token = UINT32_MAX;
    return job;
}

struct engine_job *engine_job_read(const struct engine_job_rules *rules,
                                   const struct engine *engine, struct prompt_reader *reader,
                                   enum prompt_api api, struct slice body,
                                   struct engine_refusal *refusal)
{
    struct prompt prompt;
    struct measure size;

    prompt_read(reader, api, body, &prompt);
    if (prompt.form == PROMPT_NOTHING) {
        return job_refuse_body(body, api, refusal);
    }
    const struct engine_model *model = job_find_model(rules, prompt.model);
    if (model == NULL) {
        return job_refuse(refusal, 404, "the model `%.*s` does not exist",
                          (int)(prompt.model.size < 128 ? prompt.model.size : 128),
                          (const char *)prompt.model.bytes);
    }
    if (prompt.sequences != 1) {
        return job_refuse(refusal, 400,
                          "only one prompt and one response per request are simulated");
    }
    if (!job_measure(rules, engine, &prompt, &size, refusal)) {
        return NULL;
    }
    struct engine_job *job = job_allocate(engine, &size, prompt.salt, rules->keeps_ids);
    if (job == NULL) {
        return job_refuse(refusal, 503, "memory is short");
    }
    job->is_streamed = prompt.stream;
    job->wants_usage = prompt.wants_usage;
    job->response = (struct engine_response){
        .api = api,
        .model = model->name,
        .prompt_tokens = job->request.prompt_tokens,
        .is_limited = prompt.output_max > 0,
    };
    if (model->parent != NULL) {
        job->adapter = model->name;
        job->adapter_id = (uint32_t)(model - rules->models);
    }
    job_name_blocks(job, rules, reader, &prompt, model);
    return job;
}

void engine_job_destroy(struct engine_job **job)
{
    free(*job);
    *job = NULL;
}

void engine_job_block_ids(const struct engine_job *job, uint32_t block, uint32_t block_tokens,
                          uint32_t *out)
{
    ASSERT(job->bytes != NULL && block < job->request.key_count);
    const uint8_t *at = job->bytes + (size_t)block * block_tokens * content_token_size;
    for (uint32_t i = 0; i < block_tokens; i++, at += content_token_size) {
        out[i] = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    }
}
