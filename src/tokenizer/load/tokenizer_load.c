// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer.json from its top.  The model is read in passing, since it is nearly all of the file.
// The other parts are small, and are read when the whole text is known to be JSON.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum status load_refuse(struct tokenizer_error *error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error->text, sizeof(error->text), format, args);
    va_end(args);
    return STATUS_MALFORMED;
}

struct load_excerpt load_excerpt(struct slice text)
{
    struct load_excerpt excerpt = {0};
    size_t size = sizeof(excerpt.text) - 1;

    if (text.size <= size) {
        size = text.size;
    } else {
        while (size > 0 && (text.bytes[size] & 0xc0) == 0x80) {
            size--; // characters stay whole
        }
    }
    if (size > 0) {
        memcpy(excerpt.text, text.bytes, size);
    }
    return excerpt;
}

struct json load_open(struct slice container)
{
    struct json json = json_open(container);
    struct json_item item;

    bool is_there = json_next(&json, &item);
    ASSERT(is_there); // the text was read before
    json_enter(&json);
    return json;
}

bool load_next(struct json *json, struct json_item *out)
{
    if (!json_next(json, out)) {
        return false;
    }
    bool is_whole = json_skip(json, &out->value);
    ASSERT(is_whole); // the text was read before
    return true;
}

enum status load_string(struct tokenizer_draft *load, const struct json_value *value,
                        const char *name, struct load_string *out)
{
    if (value->kind != JSON_STRING) {
        return load_refuse(load->error, "%s is not a string", name);
    }
    if (json_string_decode(value->raw, out->space, sizeof(out->space), &out->text) != STATUS_OK ||
        out->text.size > word_size_max) {
        return load_refuse(load->error, "%s is longer than %d bytes, or half a surrogate pair",
                           name, word_size_max);
    }
    return STATUS_OK;
}

enum status load_fields(struct tokenizer_draft *load, const struct json_value *object,
                        const char *what, const char *const *names, uint32_t name_count,
                        struct json_value *out)
{
    if (object->kind != JSON_OBJECT ||
        json_find(object->raw, names, name_count, out) != STATUS_OK) {
        return load_refuse(load->error, "%s is not an object", what);
    }
    return STATUS_OK;
}

enum status load_bool(struct tokenizer_draft *load, const struct json_value *value,
                      const char *name, bool otherwise, bool *out)
{
    if (value->kind == JSON_ABSENT || value->kind == JSON_NULL) {
        *out = otherwise;
        return STATUS_OK;
    }
    if (value->kind != JSON_BOOL) {
        return load_refuse(load->error, "%s is neither true nor false", name);
    }
    *out = json_is_true(value);
    return STATUS_OK;
}

enum status load_finish(struct tokenizer_draft *load, enum status status, struct tokenizer **out)
{
    if (status == STATUS_OK) {
        status = tokenizer_build(load, out);
    }
    if (status == STATUS_EXHAUSTED) {
        snprintf(load->error->text, sizeof(load->error->text), "out of memory");
    }
    vocabulary_fini(&load->vocabulary);
    free(load->merges);
    free(load->added);
    *load = (struct tokenizer_draft){0};
    return status;
}

enum part {
    PART_VERSION,
    PART_NORMALIZER,
    PART_PRE_TOKENIZER,
    PART_POST_PROCESSOR,
    PART_ADDED_TOKENS,
    PART_COUNT,
};

static const char *const part_names[PART_COUNT] = {
    [PART_VERSION] = "version",
    [PART_NORMALIZER] = "normalizer",
    [PART_PRE_TOKENIZER] = "pre_tokenizer",
    [PART_POST_PROCESSOR] = "post_processor",
    [PART_ADDED_TOKENS] = "added_tokens",
};

// Truncation and padding are among the parts that are passed over: engines turn them off.
static enum status read_file_member(struct tokenizer_draft *load, struct json *json,
                                    struct json_item *item, struct json_value *parts)
{
    if (item->value.kind == JSON_OBJECT && json_string_is(item->key, "model")) {
        if (load->vocabulary.count > 0) {
            return load_refuse(load->error, "the file has two models");
        }
        return load_model(load, json);
    }
    for (unsigned i = 0; i < PART_COUNT; i++) {
        if (json_string_is(item->key, part_names[i])) {
            if (json_skip(json, &item->value)) {
                parts[i] = item->value;
            }
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}

static enum status read_file_top(struct tokenizer_draft *load, struct slice text,
                                 struct json_value *parts)
{
    struct json json = json_open(text);
    struct json_item item;

    if (json_next(&json, &item) && item.value.kind == JSON_OBJECT) {
        json_enter(&json);
        while (json_next(&json, &item)) {
            enum status status = read_file_member(load, &json, &item, parts);
            if (status != STATUS_OK) {
                return status;
            }
        }
    }
    if (json_close(&json) != STATUS_OK) {
        return load_refuse(load->error, "not JSON, or nested too deep");
    }
    if (load->vocabulary.count == 0) {
        return load_refuse(load->error, "not a tokenizer.json: it has no model with words");
    }
    return STATUS_OK;
}

static enum status read_tokenizer_file(struct tokenizer_draft *load, struct slice text)
{
    struct json_value parts[PART_COUNT] = {0};

    enum status status = read_file_top(load, text, parts);
    if (status != STATUS_OK) {
        return status;
    }
    const struct json_value *version = &parts[PART_VERSION];
    if (version->kind != JSON_ABSENT &&
        (version->kind != JSON_STRING || !slice_is(version->raw, "1.0"))) {
        return load_refuse(load->error, "version is not \"1.0\"");
    }
    status = load_pipeline(load, &parts[PART_NORMALIZER], &parts[PART_PRE_TOKENIZER]);
    if (status == STATUS_OK) {
        status = load_added_tokens(load, &parts[PART_ADDED_TOKENS]);
    }
    if (status == STATUS_OK) {
        status = load_post_processor(load, &parts[PART_POST_PROCESSOR]);
    }
    return status;
}

enum status tokenizer_load(struct slice json, struct tokenizer **out, struct tokenizer_error *error)
{
    struct tokenizer_draft load = {.error = error, .unknown_word = no_word};

    error->text[0] = '\0';
    // Of the whole file: any change in it may change ids.
    load.fingerprint = hash_bytes(json, 0);
    return load_finish(&load, read_tokenizer_file(&load, json), out);
}
