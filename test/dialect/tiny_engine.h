// SPDX-License-Identifier: Apache-2.0
//
// tiny_engine.h -- an engine that returns the ids of a trusted tiny dialect, on every path
// that certify.c knows.
#pragma once

#include "json/json.h"
#include "tiny_dialect.h"

static inline void tiny_engine_add_ids(const char *key, const struct token_result *result,
                                       struct text *out)
{
    text_add_format(out, "{\"%s\":[", key);
    for (uint32_t i = 0; i < result->count; i++) {
        text_add_format(out, "%s%u", i > 0 ? "," : "", result->ids[i]);
    }
    text_add_str(out, "]}");
}

// Returns the status; the body is in `out`.
static inline uint16_t tiny_engine_respond(struct tiny_set *tiny, const char *path,
                                           struct slice question, struct text *out)
{
    static const char *const names[] = {"messages", "content"};
    struct json_value values[2] = {0};
    struct token_result result = {0};

    if (json_find(question, names, 2, values) != STATUS_OK) {
        return 400;
    }
    bool is_chat = values[0].kind != JSON_ABSENT;
    struct token_request request = {.dialect = tiny->set.dialects[0],
                                    .api = is_chat ? PROMPT_CHAT : PROMPT_COMPLETION,
                                    .body = question,
                                    .wall_s = 1000000};
    uint8_t space[65536];
    struct text content = text_over(space, sizeof(space));
    if (values[1].kind == JSON_STRING) { // llama.cpp's own
        text_add_str(&content, "{\"add_special_tokens\":false,\"prompt\":\"");
        text_add(&content, values[1].raw);
        text_add_str(&content, "\"}");
        request.body = text_slice(&content);
    }
    if (token_reader_begin(tiny->reader, &request, SIZE_MAX, &result) != STATUS_OK) {
        return 400;
    }
    bool is_template = strcmp(path, "/apply-template") == 0;
    if (is_template) {
        text_add_str(out, "{\"prompt\":");
        text_add_json(out, token_reader_text(tiny->reader));
        text_add_str(out, "}");
        return 200;
    }
    bool is_render = strstr(path, "render") != NULL;
    bool is_list = strcmp(path, "/v1/completions/render") == 0;
    text_add_str(out, is_list ? "[" : "");
    tiny_engine_add_ids(is_render ? "token_ids" : "tokens", &result, out);
    text_add_str(out, is_list ? "]" : "");
    return 200;
}
