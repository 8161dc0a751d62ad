// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_response.h"

#include "base/base.h"
#include "http/problem.h"
#include "json/json_writer.h"
#include "sim/workload/content.h"

#include <inttypes.h>

enum {
    // All of a document or an event but its text and the name of the model, generously.
    frame_size = 1024,
    run_tokens = 64,
};

static bool response_is_chat(const struct engine_response *response)
{
    return response->api == PROMPT_CHAT;
}

static const char *response_reason(const struct engine_response *response)
{
    return response->is_limited ? "length" : "stop";
}

static void response_begin(const struct engine_response *response, const char *object,
                           struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_format(json, "id", response_is_chat(response) ? "chatcmpl-%" PRIx64 : "cmpl-%" PRIx64,
                    response->number);
    json_put_str(json, "object", object);
    json_put_u64(json, "created", response->created_s);
    json_put_str(json, "model", response->model);
    json_begin_array(json, "choices");
}

static struct json_writer response_begin_event(const struct engine_response *response,
                                               struct text *out)
{
    struct json_writer json = json_writer_over(out);
    text_add_str(out, "data: ");
    response_begin(response,
                   response_is_chat(response) ? "chat.completion.chunk" : "text_completion", &json);
    return json;
}

// The one choice, whose text is in `inside` in chat.
static void response_begin_choice(const struct engine_response *response, const char *inside,
                                  struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_u64(json, "index", 0);
    if (response_is_chat(response)) {
        json_begin_object(json, inside);
    }
}

static void response_put_text(const struct engine_response *response, uint32_t from,
                              uint32_t tokens, struct json_writer *json)
{
    char words[run_tokens * content_token_size];

    json_begin_string(json, response_is_chat(response) ? "content" : "text");
    while (tokens > 0) {
        uint32_t part = tokens < run_tokens ? tokens : run_tokens;
        content_text(response->text_id, from, part, words);
        text_add(json->out, slice_of(words, (size_t)part * content_token_size));
        from += part;
        tokens -= part;
    }
    json_end_string(json);
}

// Ends the choice and the choices.
static void response_end_choice(const struct engine_response *response, const char *reason,
                                struct json_writer *json)
{
    if (response_is_chat(response)) {
        json_end(json);
    }
    json_put_null(json, "logprobs");
    json_put_str(json, "finish_reason", reason);
    json_end(json);
    json_end(json);
}

static void response_put_usage(const struct engine_response *response, struct json_writer *json)
{
    json_begin_object(json, "usage");
    json_put_u64(json, "prompt_tokens", response->prompt_tokens);
    json_put_u64(json, "total_tokens", (uint64_t)response->prompt_tokens + response->output_tokens);
    json_put_u64(json, "completion_tokens", response->output_tokens);
    json_begin_object(json, "prompt_tokens_details");
    json_put_u64(json, "cached_tokens", response->cached_tokens);
    json_end(json);
    json_end(json);
}

void engine_response_event(const struct engine_response *response, uint32_t token, bool is_last,
                           struct text *out)
{
    if (response_is_chat(response) && token == 0) {
        struct json_writer first = response_begin_event(response, out);
        response_begin_choice(response, "delta", &first);
        json_put_str(&first, "role", "assistant");
        json_put_str(&first, "content", "");
        response_end_choice(response, NULL, &first);
        json_end(&first);
        text_add_str(out, "\n\n");
    }
    struct json_writer json = response_begin_event(response, out);
    response_begin_choice(response, "delta", &json);
    response_put_text(response, token, 1, &json);
    response_end_choice(response, is_last ? response_reason(response) : NULL, &json);
    json_end(&json);
    text_add_str(out, "\n\n");
}

void engine_response_usage_event(const struct engine_response *response, struct text *out)
{
    struct json_writer json = response_begin_event(response, out);
    json_end(&json);
    response_put_usage(response, &json);
    json_end(&json);
    text_add_str(out, "\n\n");
}

void engine_response_done_event(struct text *out)
{
    text_add_str(out, "data: [DONE]\n\n");
}

uint64_t engine_response_document_room(uint64_t output_tokens)
{
    return output_tokens * content_token_size + frame_size + 1024; // the name of a model is shorter
}

void engine_response_document(const struct engine_response *response, struct text *out)
{
    struct json_writer json = json_writer_over(out);

    response_begin(response, response_is_chat(response) ? "chat.completion" : "text_completion",
                   &json);
    response_begin_choice(response, "message", &json);
    if (response_is_chat(response)) {
        json_put_str(&json, "role", "assistant");
    }
    response_put_text(response, 0, response->output_tokens, &json);
    if (response_is_chat(response)) {
        json_begin_array(&json, "tool_calls");
        json_end(&json);
    }
    response_end_choice(response, response_reason(response), &json);
    response_put_usage(response, &json);
    json_end(&json);
}

void engine_response_error(uint32_t status, const char *message, struct text *out)
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
    struct json_writer json = json_writer_over(out);
    json_begin_object(&json, NULL);
    json_begin_object(&json, "error");
    json_put_str(&json, "message", message);
    json_put_str(&json, "type", type);
    json_put_null(&json, "param");
    json_put_u64(&json, "code", status);
    json_end(&json);
    json_end(&json);
}

void engine_response_models(const struct engine_model *models, uint32_t model_count,
                            uint64_t context_max, uint64_t created_s, struct text *out)
{
    struct json_writer json = json_writer_over(out);
    json_begin_object(&json, NULL);
    json_put_str(&json, "object", "list");
    json_begin_array(&json, "data");
    for (uint32_t i = 0; i < model_count; i++) {
        json_begin_object(&json, NULL);
        json_put_str(&json, "id", models[i].name);
        json_put_str(&json, "object", "model");
        json_put_u64(&json, "created", created_s);
        json_put_str(&json, "owned_by", "warmpath");
        json_put_str(&json, "root", models[i].name);
        json_put_str(&json, "parent", models[i].parent);
        json_put_u64(&json, "max_model_len", context_max);
        json_end(&json);
    }
    json_end(&json);
    json_end(&json);
}
