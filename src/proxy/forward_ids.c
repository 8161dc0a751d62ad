// SPDX-License-Identifier: Apache-2.0
//
// Puts our ids into a request, so that the engine does not tokenize again.
//
//     vLLM, TensorRT-LLM  /v1/completions        "prompt": "text"  ->  "prompt": [1, 2, 3]
//     SGLang              /v1/chat/completions   {...}             ->  {"input_ids": [1, 2, 3], ...}
//     SGLang              /generate              "text": "text"    ->  "text": null, and input_ids
//     TensorRT-LLM        /v1/chat/completions   {...}             ->  {"prompt_token_ids": [1, 2, 3], ...}
//
// The body that was read is replaced by a new one in a block of its own; another attempt sends that, too.

#include "base/base.h"
#include "base/text.h"
#include "dialect/token_reader.h"
#include "proxy/exchange_internal.h"

// Ten digits and a comma.
enum { id_size_max = 11 };

struct edit {
    const char *member;      // to be put before all others, or NULL
    bool replaces;           // the text of the prompt goes
    const char *replacement; // what takes its place; NULL: the ids
};

static const struct {
    enum dialect_engine engine;
    enum prompt_api api;
    struct edit edit;
} edits[] = {
    {DIALECT_VLLM, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_SGLANG, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_TRTLLM, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_PLAIN, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_SGLANG, PROMPT_CHAT, {.member = "input_ids"}},
    {DIALECT_SGLANG,
     PROMPT_GENERATE,
     {.member = "input_ids", .replaces = true, .replacement = "null"}},
    {DIALECT_TRTLLM, PROMPT_CHAT, {.member = "prompt_token_ids"}},
};

static const struct edit *edit_for(const struct route_request *request)
{
    for (size_t i = 0; i < ARRAY_COUNT(edits); i++) {
        const struct edit *edit = &edits[i].edit;
        if (edits[i].engine == request->dialect->engine && edits[i].api == request->prompt->api) {
            return edit->replaces && request->prompt->literal_size == 0 ? NULL : edit;
        }
    }
    return NULL;
}

static void add_ids(const struct route_request *request, struct text *out)
{
    text_add_str(out, "[");
    for (uint32_t i = 0; i < request->id_count; i++) {
        text_add_u64(out, request->ids[i]);
        text_add_str(out, i + 1 < request->id_count ? "," : "");
    }
    text_add_str(out, "]");
}

static void add_edited(const struct route_request *request, const struct edit *edit,
                       struct slice body, struct text *out)
{
    const struct prompt *prompt = request->prompt;
    size_t at = prompt->inside_at;

    text_add(out, slice_of(body.bytes, at));
    if (edit->member != NULL) {
        text_add_format(out, "\"%s\":", edit->member);
        add_ids(request, out);
        text_add_str(out, ",");
    }
    if (edit->replaces) {
        text_add(out, slice_of(body.bytes + at, prompt->literal_at - at));
        at = prompt->literal_at + prompt->literal_size;
        if (edit->replacement != NULL) {
            text_add_str(out, edit->replacement);
        } else {
            add_ids(request, out);
        }
    }
    text_add(out, slice_of(body.bytes + at, body.size - at));
}

bool forward_ids(struct exchange *x, const struct route_request *request)
{
    struct body_store *bodies = &x->worker->bodies;
    struct body_block block = {0};

    if (request->dialect == NULL || !request->dialect->forwards_ids) {
        return false;
    }
    const struct edit *edit = edit_for(request);
    size_t most = x->body_size + x->trailer_size + (size_t)request->id_count * id_size_max + 64;
    // Without room the engine tokenizes, as it would without us.
    if (edit == NULL || most > bodies->sizes[body_class_count - 1] ||
        !body_store_take(bodies, most, &block)) {
        return false;
    }
    struct text out = text_over(block.bytes, block.capacity);
    add_edited(request, edit, slice_of(x->body, x->body_size), &out);
    size_t size = out.size;
    text_add(&out, slice_of(x->body + x->body_size, x->trailer_size));
    ASSERT(!out.overflow);
    body_store_put(bodies, &x->block);
    x->block = block;
    x->body = block.bytes;
    x->body_size = size;
    x->is_rewritten = true;
    return true;
}
