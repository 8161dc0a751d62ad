// SPDX-License-Identifier: Apache-2.0
//
// A file may have a megabyte, mostly added tokens, which are skipped.  The first pass finds names
// and texts in the file; the second copies and unescapes them into one block.

#include "dialect/tokenizer_config.h"

#include "base/base.h"
#include "json/json.h"

#include <stdlib.h>

// Attributes of special tokens in transformers: variables of every template.
static const char *const token_names[] = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
};

struct config_notes {
    struct tokenizer_config config; // its texts lie in the file, with escapes
    enum status status;             // of the members, as opposed to the JSON
};

// The text of a token, which is a string or an object with one; empty when it is null.
static enum status token_content(const struct json_value *value, struct slice *out)
{
    struct json_value content = value->kind == JSON_OBJECT ? json_member(value, "content") : *value;

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
    struct tokenizer_config *config = &notes->config;
    struct slice text = {0};
    uint32_t i = 0;

    if (token_content(value, &text) != STATUS_OK) {
        notes->status = STATUS_MALFORMED;
        return;
    }
    while (i < config->token_count && !slice_equal(config->tokens[i].name, name)) {
        i++;
    }
    if (i == tokenizer_config_token_max) {
        notes->status = STATUS_TOO_LARGE;
        return;
    }
    config->tokens[i] = (struct tokenizer_config_token){.name = name, .text = text};
    config->token_count += i == config->token_count;
}

// Tokens with names of the model's own, as {"image_token": "<image>"}.
static void note_extra_tokens(struct config_notes *notes, struct slice object)
{
    struct json json = json_inside(object);
    struct json_item item;

    while (json_next_whole(&json, &item)) {
        note_token(notes, item.key, &item.value);
    }
}

static void note_named_template(struct config_notes *notes, const struct json_value *entry)
{
    struct json_value name = json_member(entry, "name");
    struct json_value template = json_member(entry, "template");

    if (name.kind != JSON_STRING || template.kind != JSON_STRING) {
        notes->status = STATUS_MALFORMED;
    } else if (json_is_string(&name, "default")) {
        notes->config.template = template.raw;
    } else if (json_is_string(&name, "tool_use")) {
        notes->config.tool_template = template.raw;
    }
}

static void note_template(struct config_notes *notes, const struct json_value *value)
{
    struct json_item item;

    notes->config.template = slice_of(NULL, 0);
    notes->config.tool_template = slice_of(NULL, 0);
    if (value->kind == JSON_STRING) {
        notes->config.template = value->raw;
    } else if (value->kind == JSON_ARRAY) {
        struct json json = json_inside(value->raw);
        while (json_next_whole(&json, &item)) {
            note_named_template(notes, &item.value);
        }
    } else if (value->kind != JSON_NULL) {
        notes->status = STATUS_MALFORMED;
    }
}

static void note_config_member(struct config_notes *notes, const struct json_item *item)
{
    for (uint32_t i = 0; i < ARRAY_COUNT(token_names); i++) {
        if (json_string_is(item->key, token_names[i])) {
            note_token(notes, slice_str(token_names[i]), &item->value);
            return;
        }
    }
    if (json_string_is(item->key, "chat_template")) {
        note_template(notes, &item->value);
    } else if (json_string_is(item->key, "extra_special_tokens") &&
               item->value.kind == JSON_OBJECT) {
        note_extra_tokens(notes, item->value.raw);
    }
}

static enum status take_notes(struct config_notes *notes, struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;
    bool is_object = json_next(&json, &item) && item.value.kind == JSON_OBJECT;

    if (is_object) {
        json_enter(&json);
        while (json_next_whole(&json, &item)) {
            note_config_member(notes, &item);
        }
    }
    enum status status = json_close(&json);
    if (status != STATUS_OK) {
        return status;
    }
    return is_object ? notes->status : STATUS_MALFORMED;
}

// Unescapes a text to `*at`, which moves on.
static bool keep_string(struct slice *text, uint8_t **at)
{
    struct slice decoded = slice_of(*at, 0);

    if (text->size > 0 && json_string_decode(*text, *at, text->size, &decoded) != STATUS_OK) {
        return false; // half a surrogate pair
    }
    if (text->size > 0 && decoded.bytes == text->bytes) {
        memcpy(*at, text->bytes, text->size);
    }
    *text = slice_of(*at, decoded.size);
    *at += decoded.size;
    return true;
}

// Copies all texts to the memory of the config, and drops tokens without one.
static bool keep_texts(struct tokenizer_config *config)
{
    uint8_t *at = config->memory;
    uint32_t count = 0;
    bool good = keep_string(&config->template, &at) && keep_string(&config->tool_template, &at);

    for (uint32_t i = 0; good && i < config->token_count; i++) {
        struct tokenizer_config_token token = config->tokens[i];
        good = keep_string(&token.name, &at) && keep_string(&token.text, &at);
        config->tokens[count] = token;
        count += token.text.size > 0;
    }
    config->token_count = count;
    return good;
}

enum status tokenizer_config_read(struct slice json, struct tokenizer_config *out)
{
    struct config_notes notes = {0};
    enum status status = take_notes(&notes, json);
    if (status != STATUS_OK) {
        return status;
    }
    // All texts are parts of the file, and unescaping only shortens them.
    notes.config.memory = malloc(json.size);
    if (notes.config.memory == NULL) {
        return STATUS_EXHAUSTED;
    }
    if (!keep_texts(&notes.config)) {
        tokenizer_config_free(&notes.config);
        return STATUS_MALFORMED;
    }
    *out = notes.config;
    return STATUS_OK;
}

void tokenizer_config_free(struct tokenizer_config *config)
{
    free(config->memory);
    *config = (struct tokenizer_config){0};
}
