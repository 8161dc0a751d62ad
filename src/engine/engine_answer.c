// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_answer.h"

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

static bool answer_is_chat(const struct engine_answer *answer)
{
    return answer->api == PROMPT_CHAT;
}

static const char *reason_of(const struct engine_answer *answer)
{
    return answer->is_limited ? "length" : "stop";
}

static void answer_begin(const struct engine_answer *answer, const char *object,
                         struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_format(json, "id", answer_is_chat(answer) ? "chatcmpl-%" PRIx64 : "cmpl-%" PRIx64,
                    answer->number);
    json_put_str(json, "object", object);
    json_put_u64(json, "created", answer->created_s);
    json_put_str(json, "model", answer->model);
    json_begin_array(json, "choices");
}

static struct json_writer answer_begin_event(const struct engine_answer *answer, struct text *out)
{
    struct json_writer json = json_writer_over(out);
    text_add_str(out, "data: ");
    answer_begin(answer, answer_is_chat(answer) ? "chat.completion.chunk" : "text_completion",
                 &json);
    return json;
}

// The one choice, whose text is in `inside` in chat.
static void answer_begin_choice(const struct engine_answer *answer, const char *inside,
                                struct json_writer *json)
{
    json_begin_object(json, NULL);
    json_put_u64(json, "index", 0);
    if (answer_is_chat(answer)) {
        json_begin_object(json, inside);
    }
}

static void answer_put_text(const struct engine_answer *answer, uint32_t from, uint32_t tokens,
                            struct json_writer *json)
{
    char words[run_tokens * content_token_size];

    json_begin_string(json, answer_is_chat(answer) ? "content" : "text");
    while (tokens > 0) {
        uint32_t part = tokens < run_tokens ? tokens : run_tokens;
        content_text(answer->text_id, from, part, words);
        text_add(json->out, slice_of(words, (size_t)part * content_token_size));
        from += part;
        tokens -= part;
    }
    json_end_string(json);
}

// Ends the choice and the choices.
static void answer_end_choice(const struct engine_answer *answer, const char *reason,
                              struct json_writer *json)
{
    if (answer_is_chat(answer)) {
        json_end(json);
    }
    json_put_null(json, "logprobs");
    json_put_str(json, "finish_reason", reason);
    json_end(json);
    json_end(json);
}

static void answer_put_usage(const struct engine_answer *answer, struct json_writer *json)
{
    json_begin_object(json, "usage");
    json_put_u64(json, "prompt_tokens", answer->prompt_tokens);
    json_put_u64(json, "total_tokens", (uint64_t)answer->prompt_tokens + answer->output_tokens);
    json_put_u64(json, "completion_tokens", answer->output_tokens);
    json_begin_object(json, "prompt_tokens_details");
    json_put_u64(json, "cached_tokens", answer->cached_tokens);
    json_end(json);
    json_end(json);
}

void engine_answer_event(const struct engine_answer *answer, uint32_t token, bool is_last,
                         struct text *out)
{
    if (answer_is_chat(answer) && token == 0) {
        struct json_writer first = answer_begin_event(answer, out);
        answer_begin_choice(answer, "delta", &first);
        json_put_str(&first, "role", "assistant");
        json_put_str(&first, "content", "");
        answer_end_choice(answer, NULL, &first);
        json_end(&first);
        text_add_str(out, "\n\n");
    }
    struct json_writer json = answer_begin_event(answer, out);
    answer_begin_choice(answer, "delta", &json);
    answer_put_text(answer, token, 1, &json);
    answer_end_choice(answer, is_last ? reason_of(answer) : NULL, &json);
    json_end(&json);
    text_add_str(out, "\n\n");
}

void engine_answer_usage_event(const struct engine_answer *answer, struct text *out)
{
    struct json_writer json = answer_begin_event(answer, out);
    json_end(&json);
    answer_put_usage(answer, &json);
    json_end(&json);
    text_add_str(out, "\n\n");
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
    struct json_writer json = json_writer_over(out);

    answer_begin(answer, answer_is_chat(answer) ? "chat.completion" : "text_completion", &json);
    answer_begin_choice(answer, "message", &json);
    if (answer_is_chat(answer)) {
        json_put_str(&json, "role", "assistant");
    }
    answer_put_text(answer, 0, answer->output_tokens, &json);
    if (answer_is_chat(answer)) {
        json_begin_array(&json, "tool_calls");
        json_end(&json);
    }
    answer_end_choice(answer, reason_of(answer), &json);
    answer_put_usage(answer, &json);
    json_end(&json);
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

void engine_answer_models(const struct engine_model *models, uint32_t model_count,
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
