// SPDX-License-Identifier: Apache-2.0
//
// Added tokens.  The library does not read their ids but gives them out again: the model's if the model
// has the word, else the next one behind all so far.  A file whose ids are others was changed by hand, and
// nobody can say what its engine does: it is refused.

#include "base/base.h"
#include "json/json.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

enum {
    // Files of today have up to 6,415.
    added_count_max = 1 << 17,
};

enum added_field {
    ADDED_ID,
    ADDED_CONTENT,
    ADDED_SINGLE_WORD,
    ADDED_LSTRIP,
    ADDED_RSTRIP,
    ADDED_NORMALIZED,
    ADDED_FIELD_COUNT,
};

static const char *const field_names[ADDED_FIELD_COUNT] = {
    [ADDED_ID] = "id",         [ADDED_CONTENT] = "content", [ADDED_SINGLE_WORD] = "single_word",
    [ADDED_LSTRIP] = "lstrip", [ADDED_RSTRIP] = "rstrip",   [ADDED_NORMALIZED] = "normalized",
};

// What has been given out.
struct giving {
    uint64_t *is_added; // a bit for each word of the vocabulary
    uint32_t highest;   // of the added ids; bpe_no_id: none yet
};

static uint32_t next_id(const struct load *load, const struct giving *giving)
{
    // A count, not the highest id and one: vocabularies may have holes.
    uint32_t count = load->model_word_count;
    return giving->highest != bpe_no_id && giving->highest >= count ? giving->highest + 1 : count;
}

// The word of the token, new if need be.  Not the model's: its id is the declared one or wrong.
static enum status find_word(struct load *load, const struct giving *giving, struct slice content,
                             uint32_t *out)
{
    uint32_t word = vocabulary_find(&load->vocabulary, content);
    if (word != no_word) {
        *out = word;
        return STATUS_OK;
    }
    uint32_t id = next_id(load, giving);
    if (id >= id_limit) {
        return load_refuse(load->error, "an added token has an id above %d", id_limit - 1);
    }
    *out = load->vocabulary.count;
    return vocabulary_add(&load->vocabulary, content, id);
}

static enum status refuse_token(struct load *load, struct slice content, const char *why)
{
    struct slice head = load_head(content, 60);
    return load_refuse(load->error, "added token \"%.*s\" %s", (int)head.size,
                       (const char *)head.bytes, why);
}

static enum status read_flags(struct load *load, const struct json_value *fields,
                              struct load_added *token)
{
    const struct {
        enum added_field field;
        bool *out;
    } flags[] = {
        {ADDED_SINGLE_WORD, &token->single_word},
        {ADDED_LSTRIP, &token->lstrip},
        {ADDED_RSTRIP, &token->rstrip},
        {ADDED_NORMALIZED, &token->is_normalized},
    };
    for (size_t i = 0; i < ARRAY_COUNT(flags); i++) {
        const struct json_value *value = &fields[flags[i].field];
        if (value->kind != JSON_BOOL) {
            return load_refuse(load->error, "an added token has no %s",
                               field_names[flags[i].field]);
        }
        *flags[i].out = json_is_true(value);
    }
    return STATUS_OK;
}

static enum status read_token(struct load *load, struct giving *giving,
                              const struct json_value *object)
{
    struct json_value fields[ADDED_FIELD_COUNT] = {0};
    struct load_string content;
    struct load_added token = {0};
    uint64_t id;

    enum status status =
        load_fields(load, object, "an added token", field_names, ADDED_FIELD_COUNT, fields);
    if (status == STATUS_OK) {
        status =
            load_string(load, &fields[ADDED_CONTENT], "the content of an added token", &content);
    }
    if (status == STATUS_OK) {
        status = read_flags(load, fields, &token);
    }
    if (status != STATUS_OK || content.text.size == 0) {
        return status;
    }
    status = find_word(load, giving, content.text, &token.word);
    if (status != STATUS_OK) {
        return status;
    }
    if ((giving->is_added[token.word / 64] >> token.word % 64 & 1) != 0) {
        return refuse_token(load, content.text, "is listed twice");
    }
    giving->is_added[token.word / 64] |= 1ULL << token.word % 64;
    uint32_t given = load->vocabulary.words[token.word].id;
    if (!json_uint(&fields[ADDED_ID], &id) || id != given) {
        return refuse_token(load, content.text,
                            "would get another id than the file says: export the file again");
    }
    if (giving->highest == bpe_no_id || given > giving->highest) {
        giving->highest = given;
    }
    load->added[load->added_count++] = token;
    return STATUS_OK;
}

static enum status count_tokens(struct load *load, const struct json_value *array, uint32_t *count)
{
    struct json json = json_open(array->raw);
    struct json_item item;

    if (array->kind == JSON_ARRAY && json_next(&json, &item)) {
        json_enter(&json);
        while (json_next(&json, &item) && *count <= added_count_max) {
            ++*count;
        }
    }
    if (array->kind != JSON_ARRAY || *count > added_count_max) {
        return load_refuse(load->error, "added_tokens is not a list of at most %d",
                           added_count_max);
    }
    return STATUS_OK;
}

static enum status read_tokens(struct load *load, struct giving *giving, struct slice array)
{
    struct json json = json_open(array);
    struct json_item item;
    enum status status = STATUS_OK;

    bool is_there = json_next(&json, &item);
    ASSERT(is_there);
    json_enter(&json);
    while (status == STATUS_OK && json_next(&json, &item)) {
        bool is_whole = json_skip(&json, &item.value);
        ASSERT(is_whole); // it was read before
        status = read_token(load, giving, &item.value);
    }
    return status;
}

enum status load_added_tokens(struct load *load, const struct json_value *value)
{
    struct giving giving = {.highest = bpe_no_id};
    uint32_t count = 0;

    if (value->kind == JSON_ABSENT || value->kind == JSON_NULL) {
        return STATUS_OK;
    }
    enum status status = count_tokens(load, value, &count);
    if (status != STATUS_OK || count == 0) {
        return status;
    }
    load->added = calloc(count, sizeof(*load->added));
    giving.is_added = calloc((load->vocabulary.count + count) / 64 + 1, sizeof(uint64_t));
    if (load->added == NULL || giving.is_added == NULL) {
        status = STATUS_EXHAUSTED;
        goto out;
    }
    status = read_tokens(load, &giving, value->raw);

out:
    free(giving.is_added);
    return status;
}
