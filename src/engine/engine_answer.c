// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_answer.h"

#include "base/base.h"
#include "base/text.h"
#include "http/problem.h"
#include "sim/workload/content.h"

enum {
    // All of a document or an event but its text and the name of the model, generously.
    frame_size = 1024,
    run_tokens = 64,
};

static bool answer_is_chat(const struct engine_answer *answer)
{
    return answer->api == PROMPT_CHAT;
}

static const char *reason_of(const struct engine_answer *answer)
{
    return answer->is_limited ? "length" : "stop";
}

static void answer_add_text(const struct engine_answer *answer, uint32_t from, uint32_t tokens,
                            struct text *out)
{
    char words[run_tokens * content_token_size];
    while (tokens > 0) {
        uint32_t part = tokens < run_tokens ? tokens : run_tokens;
        content_text(answer->text_id, from, part, words);
        text_add(out, slice_of(words, (size_t)part * content_token_size));
        from += part;
        tokens -= part;
    }
}

static void add_beginning(const struct engine_answer *answer, const char *object, struct text *out)
{
    text_add_str(out, answer_is_chat(answer) ? "{\"id\":\"chatcmpl-" : "{\"id\":\"cmpl-");
    text_add_hex(out, answer->number);
    text_add_str(out, "\",\"object\":\"");
    text_add_str(out, object);
    text_add_str(out, "\",\"created\":");
    text_add_u64(out, answer->created_s);
    text_add_str(out, ",\"model\":");
    text_add_json(out, slice_str(answer->model));
}

static void add_usage(const struct engine_answer *answer, struct text *out)
{
    text_add_str(out, "\"usage\":{\"prompt_tokens\":");
    text_add_u64(out, answer->prompt_tokens);
    text_add_str(out, ",\"total_tokens\":");
    text_add_u64(out, (uint64_t)answer->prompt_tokens + answer->output_tokens);
    text_add_str(out, ",\"completion_tokens\":");
    text_add_u64(out, answer->output_tokens);
    text_add_str(out, ",\"prompt_tokens_details\":{\"cached_tokens\":");
    text_add_u64(out, answer->cached_tokens);
    text_add_str(out, "}}");
}

static void answer_begin_event(const struct engine_answer *answer, struct text *out)
{
    text_add_str(out, "data: ");
    add_beginning(answer, answer_is_chat(answer) ? "chat.completion.chunk" : "text_completion",
                  out);
}

static void add_reason(const char *reason, struct text *out)
{
    text_add_str(out, ",\"logprobs\":null,\"finish_reason\":");
    if (reason == NULL) {
        text_add_str(out, "null}]}\n\n");
        return;
    }
    text_add_str(out, "\"");
    text_add_str(out, reason);
    text_add_str(out, "\"}]}\n\n");
}

void engine_answer_event(const struct engine_answer *answer, uint32_t token, bool is_last,
                         struct text *out)
{
    if (answer_is_chat(answer) && token == 0) {
        answer_begin_event(answer, out);
        text_add_str(out, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                          "\"content\":\"\"}");
        add_reason(NULL, out);
    }
    answer_begin_event(answer, out);
    text_add_str(out, answer_is_chat(answer)
                          ? ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\""
                          : ",\"choices\":[{\"index\":0,\"text\":\"");
    answer_add_text(answer, token, 1, out);
    text_add_str(out, answer_is_chat(answer) ? "\"}" : "\"");
    add_reason(is_last ? reason_of(answer) : NULL, out);
}

void engine_answer_usage_event(const struct engine_answer *answer, struct text *out)
{
    answer_begin_event(answer, out);
    text_add_str(out, ",\"choices\":[],");
    add_usage(answer, out);
    text_add_str(out, "}\n\n");
}

void engine_answer_done_event(struct text *out)
{
    text_add_str(out, "data: [DONE]\n\n");
}

uint64_t engine_answer_document_room(uint64_t output_tokens)
{
    return output_tokens * content_token_size + frame_size + 1024; // the name of a model is shorter
}

void engine_answer_document(const struct engine_answer *answer, struct text *out)
{
    add_beginning(answer, answer_is_chat(answer) ? "chat.completion" : "text_completion", out);
    text_add_str(out, answer_is_chat(answer) ? ",\"choices\":[{\"index\":0,\"message\":{\"role\":"
                                               "\"assistant\",\"content\":\""
                                             : ",\"choices\":[{\"index\":0,\"text\":\"");
    answer_add_text(answer, 0, answer->output_tokens, out);
    text_add_str(out, answer_is_chat(answer) ? "\",\"tool_calls\":[]}" : "\"");
    text_add_str(out, ",\"logprobs\":null,\"finish_reason\":\"");
    text_add_str(out, reason_of(answer));
    text_add_str(out, "\"}],");
    add_usage(answer, out);
    text_add_str(out, "}");
}

void engine_answer_error(uint32_t status, const char *message, struct text *out)
{
    static const struct {
        uint32_t status;
        const char *type;
    } types[] = {
        {400, "BadRequestError"},
        {404, "NotFoundError"},
        {422, "UnprocessableEntityError"},
        {500, "InternalServerError"},
    };
    const char *type = http_reason((uint16_t)status);
    for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
        type = types[i].status == status ? types[i].type : type;
    }
    text_add_str(out, "{\"error\":{\"message\":");
    text_add_json(out, slice_str(message));
    text_add_str(out, ",\"type\":");
    text_add_json(out, slice_str(type));
    text_add_str(out, ",\"param\":null,\"code\":");
    text_add_u64(out, status);
    text_add_str(out, "}}");
}

void engine_answer_models(const struct engine_model *models, uint32_t model_count,
                          uint64_t context_max, uint64_t created_s, struct text *out)
{
    text_add_str(out, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < model_count; i++) {
        text_add_str(out, i > 0 ? ",{\"id\":" : "{\"id\":");
        text_add_json(out, slice_str(models[i].name));
        text_add_str(out, ",\"object\":\"model\",\"created\":");
        text_add_u64(out, created_s);
        text_add_str(out, ",\"owned_by\":\"warmpath\",\"root\":");
        text_add_json(out, slice_str(models[i].name));
        text_add_str(out, ",\"parent\":");
        if (models[i].parent == NULL) {
            text_add_str(out, "null");
        } else {
            text_add_json(out, slice_str(models[i].parent));
        }
        text_add_str(out, ",\"max_model_len\":");
        text_add_u64(out, context_max);
        text_add_str(out, "}");
    }
    text_add_str(out, "]}");
}
