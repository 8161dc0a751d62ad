// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "base/hash.h"
#include "dialect/token_reader.h"
#include "fleet/load.h"
#include "fleet/traffic.h"
#include "knowledge/knowledge.h"
#include "route/prompt_keys_internal.h"

#include <stdlib.h>

enum {
    // A million tokens of text are 16,384 blocks of 256 bytes.  The first half of them decides
    // where the prompt goes.
    key_count_max = prefix_update_keys_max,
    token_size = sizeof(uint32_t),
};

bool prompt_keys_init(struct prompt_keys *keys, const struct route_options *options)
{
    ASSERT(options->block_size > 0 && options->block_size <= prefix_block_size_max);

    *keys = (struct prompt_keys){
        .text_block = options->block_size,
        .token_block = options->block_tokens,
        .has_events = knowledge_ledger(options->knowledge) != NULL,
        .dialects = token_thread_set(options->token_thread),
        .token_text_max = options->token_text_max,
        .own_reader = prompt_reader_create(),
        .keys = calloc((size_t)key_count_max * route_size_max, sizeof(uint64_t)),
    };
    if (options->token_thread != NULL) {
        keys->token_reader = token_reader_create(options->token_thread, options->token_text_max);
    }
    return keys->own_reader != NULL && keys->keys != NULL &&
           (keys->token_reader != NULL || options->token_thread == NULL);
}

void prompt_keys_fini(struct prompt_keys *keys)
{
    token_reader_destroy(&keys->token_reader);
    prompt_reader_destroy(&keys->own_reader);
    free(keys->keys);
    *keys = (struct prompt_keys){0};
}

// The shortest context in use is longer than a body of this size.
enum { short_body_size = 16384 };

// Engines refuse by what they serve: a path, a model, streams or whole responses, tools, and
// prompts that fit their context.  So the doubling of a long body is part of the kind.
static uint64_t request_kind(const struct route_input *input, const struct prompt *prompt)
{
    if (input->path.size == 0) {
        return 0;
    }
    uint64_t doublings = 63 - (uint64_t)__builtin_clzll(input->body.size / short_body_size | 1);
    uint64_t traits = (uint64_t)prompt->stream | (uint64_t)prompt->has_tools << 1 | doublings << 2;
    uint64_t seed = hash_bytes(prompt->model, traits);
    return hash_bytes(input->path, seed) | 1;
}

// Zero means no session, so a session's key is never zero.
static uint64_t session_key(struct slice session)
{
    return session.size == 0 ? 0 : hash_bytes(session, 0) | 1;
}

void prompt_keys_read(struct prompt_keys *keys, const struct route_input *input,
                      struct route_request *out)
{
    struct prompt *prompt = &keys->prompt;

    if (input->reading != NULL) {
        keys->reader = input->reading->reader;
        *prompt = input->reading->prompt;
        ASSERT(keys->reader != NULL || prompt->form == PROMPT_NOTHING);
    } else {
        keys->reader = keys->own_reader;
        prompt_read(keys->reader, input->api, input->body, prompt);
    }
    *out = (struct route_request){
        .model = prompt->model,
        .session_key = session_key(input->session.size > 0 ? input->session : prompt->session),
        .kind = request_kind(input, prompt),
        .prompt = prompt,
        .block_tokens = 1,
    };
}

void prompt_keys_encode(struct prompt_keys *keys, const struct route_input *input,
                        struct route_request *out)
{
    struct prompt *prompt = &keys->prompt;
    struct token_result found = {0};

    ASSERT(prompt->form == PROMPT_TEXT && keys->dialects != NULL);
    if (input->token_result != NULL) {
        found = *input->token_result;
    } else if (input->body.size <= keys->token_text_max) {
        struct dialect *dialect = dialect_set_find(keys->dialects, out->served);
        enum status status =
            dialect == NULL ? STATUS_MALFORMED
                            : token_reader_begin(keys->token_reader,
                                                 &(struct token_request){.dialect = dialect,
                                                                         .api = input->api,
                                                                         .body = input->body,
                                                                         .salt = prompt->salt,
                                                                         .wall_s = input->wall_s},
                                                 SIZE_MAX, &found);
        ASSERT(status != STATUS_AGAIN); // SIZE_MAX: it encodes the prompt in one portion
    }
    if (found.dialect == NULL) {
        return;
    }
    prompt->form = PROMPT_TOKENS;
    prompt->token_count = found.count;
    out->dialect = found.dialect;
    out->shape = found.shape;
    out->ids = found.ids;
    out->id_count = found.count;
}

static void block_sizes_add(struct block_sizes *sizes, uint32_t tokens)
{
    bool is_usable = tokens > 0 && tokens <= prefix_block_size_max / token_size;
    for (uint32_t i = 0; i < sizes->count; i++) {
        is_usable &= sizes->tokens[i] != tokens;
    }
    if (is_usable && sizes->count < route_size_max) {
        sizes->tokens[sizes->count++] = tokens;
    }
}

// The sizes that the engines of the group report, or else the configured one.  They hardly ever
// change, and a large group takes long to ask: they are read again once a second.
static const struct block_sizes *block_sizes_of(struct prompt_keys *keys,
                                                const struct fleet_view *view,
                                                const struct fleet_group *group, uint64_t wall_s)
{
    struct block_sizes *sizes = &keys->sizes[group->first % prompt_keys_groups];

    if (sizes->count > 0 && sizes->generation == view->generation && sizes->wall_s == wall_s &&
        sizes->first == group->first) {
        return sizes;
    }
    *sizes = (struct block_sizes){
        .generation = view->generation, .wall_s = wall_s, .first = group->first};
    for (uint32_t i = 0; i < group->count; i++) {
        const struct fleet_member *member = &view->members[view->lists[group->first + i]];
        block_sizes_add(sizes, load_block_tokens(&member->backend->load));
    }
    if (sizes->count == 0) {
        sizes->tokens[sizes->count++] = keys->token_block;
    }
    return sizes;
}

static void hash_into(const struct prompt_keys *keys, const struct route_request *request,
                      struct prefix_chain *chain)
{
    if (request->dialect != NULL) {
        prefix_chain_add(chain, slice_of(request->ids, (size_t)request->id_count * token_size));
    } else if (keys->prompt.form != PROMPT_NOTHING) {
        prompt_hash(keys->reader, &keys->prompt, chain);
    }
    ASSERT(chain->key_count <= key_count_max);
}

// An engine that sends KV events serves one model and reports the names of adapters only, so
// keys that are compared with its events leave the model out.
static void hash_ids(struct prompt_keys *keys, const struct fleet_view *view,
                     const struct block_sizes *sizes, struct route_request *out)
{
    const struct prompt *prompt = &keys->prompt;
    struct prefix_space space = {
        .model = out->served, .adapter = prompt->adapter, .salt = prompt->salt};

    ASSERT(sizes->count > 0 && sizes->count <= route_size_max);
    if (keys->has_events) {
        const struct fleet_view_model *model = fleet_view_model(view, out->served);
        space.model = (struct slice){0};
        space.adapter = model != NULL && model->is_adapter ? out->served : prompt->adapter;
        out->other_count = sizes->count - 1;
    }
    uint64_t seed = prefix_seed(&space);
    out->by_token_ids = true;
    out->block_tokens = sizes->tokens[0];
    out->block_share = (float)out->block_tokens;
    out->prompt_tokens = saturate_u32(prompt->token_count);
    prefix_chain_begin(&keys->chain, seed, out->block_tokens * token_size, keys->keys,
                       key_count_max);
    hash_into(keys, out, &keys->chain);
    for (uint32_t i = 0; i < out->other_count; i++) {
        struct prefix_chain chain;
        uint64_t *other = keys->keys + (size_t)(i + 1) * key_count_max;
        prefix_chain_begin(&chain, seed, sizes->tokens[i + 1] * token_size, other, key_count_max);
        hash_into(keys, out, &chain);
        out->others[i] = (struct route_chain){
            .keys = other, .key_count = chain.key_count, .block_tokens = sizes->tokens[i + 1]};
    }
}

static void hash_text(struct prompt_keys *keys, const struct traffic *traffic,
                      struct route_request *out)
{
    const struct prompt *prompt = &keys->prompt;
    struct prefix_space space = {
        .model = out->served, .adapter = prompt->adapter, .salt = prompt->salt};

    out->prompt_tokens = traffic_tokens_of(traffic, prompt->text_size);
    out->block_share = (float)traffic_tokens_of(traffic, (uint64_t)keys->text_block * 1024) / 1024;
    out->block_tokens = out->block_share > 1 ? (uint32_t)out->block_share : 1;
    prefix_chain_begin(&keys->chain, prefix_text_seed(&space), keys->text_block, keys->keys,
                       key_count_max);
    hash_into(keys, out, &keys->chain);
}

void prompt_keys_hash(struct prompt_keys *keys, const struct fleet_view *view,
                      const struct fleet_group *group, const struct traffic *traffic,
                      const struct route_input *input, struct route_request *out)
{
    ASSERT(out->prompt == &keys->prompt); // prompt_keys_read was called for this request
    if (keys->prompt.form == PROMPT_NOTHING) {
        // The body's size is the best estimate of a prompt that was not understood.
        keys->prompt.text_size = input->body.size;
    }
    if (keys->prompt.form == PROMPT_TOKENS) {
        hash_ids(keys, view, block_sizes_of(keys, view, group, input->wall_s), out);
    } else {
        hash_text(keys, traffic, out);
    }
    ASSERT(out->block_tokens > 0);
    out->chain = &keys->chain;
    out->keys = keys->keys;
    out->key_count = keys->chain.key_count;
}
