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

bool load_refuse(struct tokenizer_draft *load, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(load->error->text, sizeof(load->error->text), format, args);
    va_end(args);
    load->status = STATUS_MALFORMED;
    return false;
}

bool load_exhausted(struct tokenizer_draft *load)
{
    (void)load_refuse(load, "out of memory");
    load->status = STATUS_EXHAUSTED;
    return false;
}

bool load_add_word(struct tokenizer_draft *load, struct slice word, uint32_t id)
{
    return vocabulary_add(&load->vocabulary, word, id) || load_exhausted(load);
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

bool load_string(struct tokenizer_draft *load, const struct json_value *value, const char *name,
                 struct load_string *out)
{
    if (value->kind != JSON_STRING) {
        return load_refuse(load, "%s is not a string", name);
    }
    if (json_string_decode(value->raw, out->space, sizeof(out->space), &out->text) != STATUS_OK ||
        out->text.size > word_size_max) {
        return load_refuse(load, "%s is longer than %d bytes, or half a surrogate pair", name,
                           word_size_max);
    }
    return true;
}

bool load_flag(struct tokenizer_draft *load, const struct json_value *value, const char *name,
               bool otherwise, bool *out)
{
    *out = json_is_unset(value) ? otherwise : json_is_true(value);
    return json_is_unset(value) || value->kind == JSON_BOOL ||
           load_refuse(load, "%s is neither true nor false", name);
}

enum status load_finish(struct tokenizer_draft *load, bool is_read, struct tokenizer **out)
{
    bool is_built = is_read && tokenizer_build(load, out);
    ASSERT(is_built == (load->status == STATUS_OK));
    enum status status = load->status;

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
static bool read_file_member(struct tokenizer_draft *load, struct json *json,
                             struct json_item *item, struct json_value *parts)
{
    if (item->value.kind == JSON_OBJECT && json_string_is(item->key, "model")) {
        return load->vocabulary.count > 0 ? load_refuse(load, "the file has two models")
                                          : load_model(load, json);
    }
    for (unsigned i = 0; i < PART_COUNT; i++) {
        if (json_string_is(item->key, part_names[i])) {
            if (json_skip(json, &item->value)) {
                parts[i] = item->value;
            }
            return true;
        }
    }
    return true;
}

static bool read_file_top(struct tokenizer_draft *load, struct slice text, struct json_value *parts)
{
    struct json json = json_open(text);
    struct json_item item;

    if (json_next(&json, &item) && item.value.kind == JSON_OBJECT) {
        json_enter(&json);
        while (json_next(&json, &item)) {
            if (!read_file_member(load, &json, &item, parts)) {
                return false;
            }
        }
    }
    if (json_close(&json) != STATUS_OK) {
        return load_refuse(load, "not JSON, or nested too deep");
    }
    return load->vocabulary.count > 0 ||
           load_refuse(load, "not a tokenizer.json: it has no model with words");
}

static bool read_tokenizer_file(struct tokenizer_draft *load, struct slice text)
{
    struct json_value parts[PART_COUNT] = {0};
    const struct json_value *version = &parts[PART_VERSION];

    if (!read_file_top(load, text, parts)) {
        return false;
    }
    if (version->kind != JSON_ABSENT && !json_is_string(version, "1.0")) {
        return load_refuse(load, "version is not \"1.0\"");
    }
    return load_pipeline(load, &parts[PART_NORMALIZER], &parts[PART_PRE_TOKENIZER]) &&
           load_added_tokens(load, &parts[PART_ADDED_TOKENS]) &&
           load_post_processor(load, &parts[PART_POST_PROCESSOR]);
}

enum status tokenizer_load(struct slice json, struct tokenizer **out, struct tokenizer_error *error)
{
    struct tokenizer_draft load = {.error = error, .unknown_word = no_word};

    error->text[0] = '\0';
    // Of the whole file: any change in it may change ids.
    load.fingerprint = hash_bytes(json, 0);
    return load_finish(&load, read_tokenizer_file(&load, json), out);
}
