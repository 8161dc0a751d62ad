// SPDX-License-Identifier: Apache-2.0

#include "dialect/certify.h"

#include "base/base.h"
#include "base/text.h"
#include "dialect/certify_suite.h"
#include "json/json.h"

#include <stdarg.h>
#include <stdio.h>

// The forms of endpoints that return token ids.
enum certify_form {
    FORM_TOKENIZE, // {"messages"|"prompt"} -> {"tokens": [...]}
    FORM_RENDER,   // the request itself -> {"token_ids": [...]}
    FORM_LLAMA,    // the request -> {"prompt": text}, then {"content": text} -> {"tokens": [...]}
};

static const struct certify_way {
    const char *chat_path;
    const char *text_path;
    enum certify_form form;
} ways[] = {
    {"/tokenize", "/tokenize", FORM_TOKENIZE},
    {"/v1/tokenize", "/v1/tokenize", FORM_TOKENIZE},
    {"/v1/chat/completions/render", "/v1/completions/render", FORM_RENDER},
    {"/apply-template", "/tokenize", FORM_LLAMA},
};
enum { WAY_TOKENIZE, WAY_TOKENIZE_V1, WAY_RENDER, WAY_LLAMA, WAY_NONE };

// The endpoints to try, in order, until the engine has one.
static const uint8_t certify_ways[][4] = {
    [DIALECT_VLLM] = {WAY_TOKENIZE, WAY_RENDER, WAY_NONE},
    [DIALECT_SGLANG] = {WAY_TOKENIZE, WAY_TOKENIZE_V1, WAY_NONE},
    [DIALECT_TRTLLM] = {WAY_RENDER, WAY_NONE},
    [DIALECT_PLAIN] = {WAY_TOKENIZE, WAY_RENDER, WAY_LLAMA, WAY_NONE},
};

static const struct certify_way *certify_way_of(const struct certify *certify)
{
    uint8_t way = certify_ways[certify->dialect->engine][certify->way];
    return way == WAY_NONE ? NULL : &ways[way];
}

// Cases with members that /tokenize does not know are rendered instead.
static bool is_rendered(const struct certify_way *way, const struct certify_case *item)
{
    return item->is_chat_only && way->form == FORM_TOKENIZE;
}

static const struct certify_way *certify_way_for(const struct certify_way *way,
                                                 const struct certify_case *item)
{
    return is_rendered(way, item) ? &ways[WAY_RENDER] : way;
}

void certify_begin(struct certify *certify, struct dialect *dialect, struct token_reader *reader,
                   struct slice model, uint64_t wall_s)
{
    *certify =
        (struct certify){.dialect = dialect, .reader = reader, .model = model, .wall_s = wall_s};
}

static void add_case_request(const struct certify *certify, const char *members, struct text *out)
{
    text_add_str(out, "{");
    if (certify->model.size > 0) {
        text_add_str(out, "\"model\":");
        text_add_json(out, certify->model);
        text_add_str(out, ",");
    }
    text_add_str(out, members);
    text_add_str(out, "}");
}

__attribute__((format(printf, 2, 3))) static void certify_note(struct certify *certify,
                                                               const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(certify->why, sizeof(certify->why), format, arguments);
    va_end(arguments);
}

// False: the case has no ids here.
static bool compute_our_ids(struct certify *certify, const struct certify_case *item,
                            struct slice body)
{
    struct token_request request = {
        .dialect = certify->dialect,
        .api = item->is_completion ? PROMPT_COMPLETION : PROMPT_CHAT,
        .body = body,
        .wall_s = certify->wall_s,
        .any_feature = true,
    };
    return token_reader_begin(certify->reader, &request, SIZE_MAX, &certify->ours) == STATUS_OK;
}

bool certify_question(struct certify *certify, struct text *space, struct certify_question *out)
{
    const struct certify_way *way = certify_way_of(certify);

    for (; way != NULL && certify->case_index < certify_case_count(); certify->case_index++) {
        const struct certify_case *item = certify_case(certify->case_index);
        *space = text_over(space->bytes, space->capacity);
        add_case_request(certify, item->members, space);
        *out = (struct certify_question){
            .name = item->name,
            .path = item->is_completion ? way->text_path : certify_way_for(way, item)->chat_path,
            .body = text_slice(space),
        };
        if (!space->overflow && compute_our_ids(certify, item, out->body)) {
            // llama.cpp's tokenizer takes a text; for a chat, an earlier response has confirmed it.
            if (way->form == FORM_LLAMA && (item->is_completion || certify->has_text)) {
                *space = text_over(space->bytes, space->capacity);
                text_add_str(space, "{\"add_special\":true,\"parse_special\":true,\"content\":");
                text_add_json(space, token_reader_text(certify->reader));
                text_add_str(space, "}");
                out->path = way->text_path;
                out->body = text_slice(space);
            }
            return !space->overflow;
        }
        certify->skipped_count++;
    }
    return false;
}

// Compares the engine's array of ids with ours.
static bool ids_agree(struct certify *certify, struct slice array)
{
    struct json json = json_inside(array);
    struct json_item item;
    uint32_t at = 0;
    uint64_t theirs = 0;

    while (json_next(&json, &item)) {
        if (!json_uint(&item.value, &theirs) || at == certify->ours.count ||
            certify->ours.ids[at] != theirs) {
            certify_note(certify, "token %u: the engine has %.*s, we have %d", at,
                         (int)(item.value.raw.size < 20 ? item.value.raw.size : 20),
                         (const char *)item.value.raw.bytes,
                         at < certify->ours.count ? (int)certify->ours.ids[at] : -1);
            return false;
        }
        at++;
    }
    if (at < certify->ours.count) {
        certify_note(certify, "the engine has %u tokens, we have %u", at, certify->ours.count);
    }
    return at == certify->ours.count;
}

static bool text_agrees(struct certify *certify, const struct json_value *text)
{
    // A text can be escaped in several ways: compare it unescaped.
    struct slice ours = token_reader_text(certify->reader);
    uint8_t space[16384];
    struct slice theirs = {0};

    if (text->kind != JSON_STRING ||
        json_string_decode(text->raw, space, sizeof(space), &theirs) != STATUS_OK ||
        !slice_equal(ours, theirs)) {
        certify_note(certify, "the engine's template gives another text");
        return false;
    }
    return true;
}

// The list of ids in a response, under any of its names; empty: it has none.
static struct slice find_response_ids(struct slice body)
{
    static const char *const names[] = {"tokens", "token_ids"};
    struct json_value values[ARRAY_COUNT(names)] = {0};
    struct json json = json_open(body);
    struct json_item item;

    // /v1/completions/render returns a list with one object for each prompt.
    if (json_next_whole(&json, &item) && item.value.kind == JSON_ARRAY) {
        json = json_inside(item.value.raw);
        if (json_next_whole(&json, &item)) {
            body = item.value.raw;
        }
    }
    if (json_find(body, names, ARRAY_COUNT(names), values) != STATUS_OK) {
        return (struct slice){0};
    }
    const struct json_value *found = values[0].kind == JSON_ARRAY ? &values[0] : &values[1];
    return found->kind == JSON_ARRAY ? found->raw : (struct slice){0};
}

static enum certify_verdict end_case(struct certify *certify, enum certify_verdict verdict)
{
    certify->case_index++;
    certify->has_text = false;
    switch (verdict) {
    case CERTIFY_AGREED:
        certify->agreed_count++;
        certify->innocent |= certify->ours.shape;
        break;
    case CERTIFY_DIFFERED:
        ASSERT(certify->differed_count < ARRAY_COUNT(certify->differing));
        certify->differing[certify->differed_count++] = certify->ours.shape;
        break;
    default:
        certify->skipped_count++;
        break;
    }
    return verdict;
}

// The engine does not have this endpoint: try the next one.
static enum certify_verdict try_other_way(struct certify *certify)
{
    certify->way++;
    return certify_way_of(certify) != NULL ? CERTIFY_ASK_ON : CERTIFY_IMPOSSIBLE;
}

static enum certify_verdict judge_text(struct certify *certify, struct slice body)
{
    static const char *const name = "prompt";
    struct json_value value = {0};

    if (json_find(body, &name, 1, &value) != STATUS_OK || !text_agrees(certify, &value)) {
        return end_case(certify, CERTIFY_DIFFERED);
    }
    certify->has_text = true;
    return CERTIFY_ASK_ON;
}

// The engine is overloaded, which says nothing about the case.
static bool is_busy(uint16_t status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

enum certify_verdict certify_response(struct certify *certify, uint16_t status, struct slice body)
{
    const struct certify_way *way = certify_way_of(certify);
    const struct certify_case *item = certify_case(certify->case_index);

    ASSERT(way != NULL); // certify_question returned true
    if (is_busy(status)) {
        certify_note(certify, "the engine responds with status %u", status);
        return CERTIFY_IMPOSSIBLE;
    }
    if (!certify->way_is_known && !is_rendered(way, item) &&
        (status == 404 || status == 405 || status == 501)) {
        certify_note(certify, "%s responds with status %u", way->chat_path, status);
        return try_other_way(certify);
    }
    if (status < 200 || status >= 300) {
        if (certify->differed_count == 0) {
            certify_note(certify, "the engine responds with status %u", status);
        }
        return end_case(certify, CERTIFY_SKIPPED);
    }
    if (way->form == FORM_LLAMA && !item->is_completion && !certify->has_text) {
        certify->way_is_known = true;
        return judge_text(certify, body);
    }
    struct slice ids = find_response_ids(body);
    if (ids.size == 0 && !certify->way_is_known && !is_rendered(way, item)) {
        certify_note(certify, "%s does not respond with ids", way->chat_path);
        return try_other_way(certify);
    }
    certify->way_is_known |= !is_rendered(way, item);
    if (ids.size == 0) {
        certify_note(certify, "the engine does not respond with ids");
        return end_case(certify, CERTIFY_DIFFERED);
    }
    return end_case(certify, ids_agree(certify, ids) ? CERTIFY_AGREED : CERTIFY_DIFFERED);
}

uint32_t certify_result(const struct certify *certify)
{
    uint32_t blamed = 0;

    for (uint32_t i = 0; i < certify->differed_count; i++) {
        uint32_t suspects = certify->differing[i] & ~certify->innocent;
        blamed |= suspects != 0 ? suspects : chat_shape_blamed(certify->differing[i]);
    }
    ASSERT(certify->differed_count == 0 || blamed != 0);
    uint32_t result = certify->innocent & ~blamed;
    bool has_base = (result & (CHAT_PLAIN_SHAPE | CHAT_COMPLETION_SHAPE)) != 0;
    return has_base ? result : 0;
}
