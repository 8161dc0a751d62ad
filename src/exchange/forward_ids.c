// SPDX-License-Identifier: Apache-2.0
//
// Edits our token ids into a request, so that the engine does not tokenize it again.
//
//     vLLM, TensorRT-LLM  /v1/completions       "prompt": "text"  ->  "prompt": [1, 2]
//     SGLang              /v1/chat/completions  {...}             ->  {"input_ids": [1, 2], ...}
//     SGLang              /generate             "text": "text"    ->  "text": null, and input_ids
//     TensorRT-LLM        /v1/chat/completions  {...}             ->  {"prompt_token_ids": [1, 2],
//                                                                      ...}
//
// The ids are edits of the body (api/body_edit.h): another attempt makes them anew.

#include "base/base.h"
#include "base/text.h"
#include "dialect/token_reader.h"
#include "exchange/exchange_internal.h"

// Ten digits and a comma.
enum { id_size_max = 11 };

struct ids_place {
    const char *member; // of the body's object, put before all others; NULL: in place of the text
    bool replaces;      // the text of the prompt goes; null takes its place if there is a member
};

static const struct {
    enum dialect_engine engine;
    enum prompt_api api;
    struct ids_place place;
} ids_places[] = {
    {DIALECT_VLLM, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_SGLANG, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_TRTLLM, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_PLAIN, PROMPT_COMPLETION, {.replaces = true}},
    {DIALECT_SGLANG, PROMPT_CHAT, {.member = "input_ids"}},
    {DIALECT_SGLANG, PROMPT_GENERATE, {.member = "input_ids", .replaces = true}},
    {DIALECT_TRTLLM, PROMPT_CHAT, {.member = "prompt_token_ids"}},
};

static const struct ids_place *ids_place_for(const struct route_request *request)
{
    for (size_t i = 0; i < ARRAY_COUNT(ids_places); i++) {
        const struct ids_place *place = &ids_places[i].place;
        if (ids_places[i].engine == request->dialect->engine &&
            ids_places[i].api == request->prompt->api) {
            return place->replaces && request->prompt->literal_size == 0 ? NULL : place;
        }
    }
    return NULL;
}

static void ids_write(const struct route_request *request, struct text *out)
{
    text_add_str(out, "[");
    for (uint32_t i = 0; i < request->id_count; i++) {
        text_add_u64(out, request->ids[i]);
        text_add_str(out, i + 1 < request->id_count ? "," : "");
    }
    text_add_str(out, "]");
}

void forward_ids(struct exchange *x, const struct route_request *route_request)
{
    struct body_store *bodies = &x->worker->bodies;
    struct request *request = x->request;
    const struct prompt *prompt = route_request->prompt;

    body_store_put(bodies, &request->ids);
    if (route_request->dialect == NULL || !route_request->dialect->forwards_ids) {
        return;
    }
    const struct ids_place *place = ids_place_for(route_request);
    size_t most = (size_t)route_request->id_count * id_size_max + 64;
    // Without memory for their text the engine tokenizes, as it would without us.
    if (place == NULL || request->body_size + most > bodies->sizes[body_class_count - 1] ||
        !body_store_take(bodies, most, &request->ids)) {
        return;
    }
    ASSERT(place->member != NULL || place->replaces);
    struct text out = text_over(request->ids.bytes, request->ids.capacity);
    if (place->member != NULL) {
        text_add_format(&out, "\"%s\":", place->member);
    }
    ids_write(route_request, &out);
    text_add_str(&out, place->member != NULL ? "," : "");
    ASSERT(!out.overflow);
    if (place->member != NULL) {
        body_edits_add(&request->edits, prompt->inside_at, 0, text_slice(&out));
    }
    if (place->replaces) {
        body_edits_add(&request->edits, prompt->literal_at, prompt->literal_size,
                       place->member != NULL ? slice_str("null") : text_slice(&out));
    }
}
