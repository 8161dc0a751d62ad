// SPDX-License-Identifier: Apache-2.0
//
// Files of a megabyte are mostly a list of added tokens, which is passed over.  The first pass
// notes where names and texts lie in the file; then they are copied and unescaped into one block.

#include "dialect/tokenizer_config.h"

#include "base/base.h"
#include "json/json.h"

#include <stdlib.h>

// Attributes of special tokens in transformers: variables of every template.
static const char *const token_names[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
};

struct config_notes {
    struct tokenizer_config_token tokens[tokenizer_config_token_max]; // raw
    uint32_t token_count;
    struct slice template;
    struct slice tool_template;
    enum status status; // of the members, as opposed to the JSON
};

// The text of a token, which is a string or an object with one; empty when it is null.
static enum status token_content(const struct json_value *value, struct slice *out)
{
    static const char *const names[] = {"content"};
    struct json_value content = *value;

    if (value->kind == JSON_OBJECT && json_find(value->raw, names, 1, &content) != STATUS_OK) {
        return STATUS_MALFORMED;
    }
    if (content.kind == JSON_STRING) {
        *out = content.raw;
        return STATUS_OK;
    }
    *out = slice_of(NULL, 0);
    return value->kind == JSON_NULL ? STATUS_OK : STATUS_MALFORMED;
}

static void note_token(struct config_notes *notes, struct slice name,
                       const struct json_value *value)
{
    struct slice text = {0};
    uint32_t i = 0;

    if (token_content(value, &text) != STATUS_OK) {
        notes->status = STATUS_MALFORMED;
        return;
    }
    while (i < notes->token_count && !slice_equal(notes->tokens[i].name, name)) {
        i++;
    }
    if (i == tokenizer_config_token_max) {
        notes->status = STATUS_TOO_LARGE;
        return;
    }
    notes->tokens[i] = (struct tokenizer_config_token){.name = name, .text = text};
    notes->token_count += i == notes->token_count;
}

// Tokens that the model names itself, as {"image_token": "<image>"}.
static void note_extra_tokens(struct config_notes *notes, struct json *json)
{
    struct json_item item;

    json_enter(json);
    while (json_next(json, &item)) {
        if (json_skip(json, &item.value)) {
            note_token(notes, item.key, &item.value);
        }
    }
}

static void note_named_template(struct config_notes *notes, struct slice entry)
{
    static const char *const names[] = {"name", "template"};
    struct json_value found[2] = {0};

    if (json_find(entry, names, 2, found) != STATUS_OK || found[0].kind != JSON_STRING ||
        found[1].kind != JSON_STRING) {
        notes->status = STATUS_MALFORMED;
    } else if (json_string_is(found[0].raw, "default")) {
        notes->template = found[1].raw;
    } else if (json_string_is(found[0].raw, "tool_use")) {
        notes->tool_template = found[1].raw;
    }
}

static void note_template(struct config_notes *notes, struct json *json,
                          const struct json_value *value)
{
    struct json_item item;

    notes->template = slice_of(NULL, 0);
    notes->tool_template = slice_of(NULL, 0);
    if (value->kind == JSON_STRING) {
        notes->template = value->raw;
    } else if (value->kind == JSON_ARRAY) {
        json_enter(json);
        while (json_next(json, &item)) {
            if (json_skip(json, &item.value)) {
                note_named_template(notes, item.value.raw);
            }
        }
    } else if (value->kind != JSON_NULL) {
        notes->status = STATUS_MALFORMED;
    }
}

static void note_config_member(struct config_notes *notes, struct json *json,
                               struct json_item *item)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(token_names); i++) {
        if (json_string_is(item->key, token_names[i])) {
            if (json_skip(json, &item->value)) {
                note_token(notes, slice_str(token_names[i]), &item->value);
            }
            return;
        }
    }
    if (json_string_is(item->key, "chat_template")) {
        note_template(notes, json, &item->value);
    } else if (json_string_is(item->key, "extra_special_tokens") &&
               item->value.kind == JSON_OBJECT) {
        note_extra_tokens(notes, json);
    }
}

static enum status take_notes(struct config_notes *notes, struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;
    bool is_object = json_next(&json, &item) && item.value.kind == JSON_OBJECT;

    if (is_object) {
        json_enter(&json);
        while (json_next(&json, &item)) {
            note_config_member(notes, &json, &item);
        }
    }
    enum status status = json_close(&json);
    if (status != STATUS_OK) {
        return status;
    }
    return is_object ? notes->status : STATUS_MALFORMED;
}

static size_t notes_size(const struct config_notes *notes)
{
    size_t size = notes->template.size + notes->tool_template.size;
    for (uint32_t i = 0; i < notes->token_count; i++) {
        size += notes->tokens[i].name.size + notes->tokens[i].text.size;
    }
    return size;
}

// Unescapes at `*at`, which moves on, and where raw.size bytes are free.
static bool keep_string(struct slice raw, uint8_t **at, struct slice *out)
{
    struct slice decoded = slice_of(*at, 0);

    if (raw.size > 0 && json_string_decode(raw, *at, raw.size, &decoded) != STATUS_OK) {
        return false; // half a surrogate pair
    }
    if (raw.size > 0 && decoded.bytes == raw.bytes) {
        memcpy(*at, raw.bytes, raw.size);
    }
    *out = slice_of(*at, decoded.size);
    *at += decoded.size;
    return true;
}

static bool keep_notes(const struct config_notes *notes, struct tokenizer_config *config)
{
    uint8_t *at = config->memory;

    if (!keep_string(notes->template, &at, &config->template) ||
        !keep_string(notes->tool_template, &at, &config->tool_template)) {
        return false;
    }
    for (uint32_t i = 0; i < notes->token_count; i++) {
        struct tokenizer_config_token token;
        if (!keep_string(notes->tokens[i].name, &at, &token.name) ||
            !keep_string(notes->tokens[i].text, &at, &token.text)) {
            return false;
        }
        if (token.text.size > 0) {
            config->tokens[config->token_count++] = token;
        }
    }
    ASSERT((size_t)(at - (uint8_t *)config->memory) <= notes_size(notes));
    return true;
}

enum status tokenizer_config_read(struct slice json, struct tokenizer_config *out)
{
    struct config_notes notes = {0};
    enum status status = take_notes(&notes, json);
    if (status != STATUS_OK) {
        return status;
    }
    struct tokenizer_config config = {.memory = malloc(notes_size(&notes) + 1)};
    if (config.memory == NULL) {
        return STATUS_EXHAUSTED;
    }
    if (!keep_notes(&notes, &config)) {
        tokenizer_config_free(&config);
        return STATUS_MALFORMED;
    }
    *out = config;
    return STATUS_OK;
}

void tokenizer_config_free(struct tokenizer_config *config)
{
    free(config->memory);
    *config = (struct tokenizer_config){0};
}
