// SPDX-License-Identifier: Apache-2.0
//
// Added tokens.  The library ignores their ids in the file and assigns them again: the model's id
// if the model has the word, else the next free one.  A file with other ids was changed by hand,
// and its engine may use either: it is refused.

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

static const char *const added_names[ADDED_FIELD_COUNT] = {
    [ADDED_ID] = "id",         [ADDED_CONTENT] = "content", [ADDED_SINGLE_WORD] = "single_word",
    [ADDED_LSTRIP] = "lstrip", [ADDED_RSTRIP] = "rstrip",   [ADDED_NORMALIZED] = "normalized",
};

// Ids assigned so far.
struct assigned_ids {
    uint64_t *is_added; // a bit for each word of the vocabulary
    uint32_t highest;   // of the added ids; bpe_no_id: none yet
};

static uint32_t next_added_id(const struct tokenizer_draft *load,
                              const struct assigned_ids *assigned)
{
    // The number of words, not the highest id: vocabularies may have holes.
    uint32_t count = load->model_word_count;
    return assigned->highest != bpe_no_id && assigned->highest >= count ? assigned->highest + 1
                                                                        : count;
}

// The word of the token; a new word gets the next id.
static enum status find_added_word(struct tokenizer_draft *load,
                                   const struct assigned_ids *assigned, struct slice content,
                                   uint32_t *out)
{
    uint32_t word = vocabulary_find(&load->vocabulary, content);
    if (word != no_word) {
        *out = word;
        return STATUS_OK;
    }
    uint32_t id = next_added_id(load, assigned);
    if (id >= id_limit) {
        return load_refuse(load->error, "an added token has an id above %d", id_limit - 1);
    }
    *out = load->vocabulary.count;
    return vocabulary_add(&load->vocabulary, content, id);
}

static enum status refuse_added_token(struct tokenizer_draft *load, struct slice content,
                                      const char *why)
{
    return load_refuse(load->error, "added token \"%s\" %s", load_excerpt(content).text, why);
}

static enum status read_added_flags(struct tokenizer_draft *load, const struct json_value *fields,
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
                               added_names[flags[i].field]);
        }
        *flags[i].out = json_is_true(value);
    }
    return STATUS_OK;
}

static enum status read_added_token(struct tokenizer_draft *load, struct assigned_ids *assigned,
                                    const struct json_value *object)
{
    struct json_value fields[ADDED_FIELD_COUNT] = {0};
    struct load_string content;
    struct load_added token = {0};
    uint64_t id;

    enum status status =
        load_fields(load, object, "an added token", added_names, ADDED_FIELD_COUNT, fields);
    if (status == STATUS_OK) {
        status =
            load_string(load, &fields[ADDED_CONTENT], "the content of an added token", &content);
    }
    if (status == STATUS_OK) {
        status = read_added_flags(load, fields, &token);
    }
    if (status != STATUS_OK || content.text.size == 0) {
        return status;
    }
    status = find_added_word(load, assigned, content.text, &token.word);
    if (status != STATUS_OK) {
        return status;
    }
    if ((assigned->is_added[token.word / 64] >> token.word % 64 & 1) != 0) {
        return refuse_added_token(load, content.text, "is listed twice");
    }
    assigned->is_added[token.word / 64] |= 1ULL << token.word % 64;
    uint32_t word_id = load->vocabulary.words[token.word].id;
    if (!json_uint(&fields[ADDED_ID], &id) || id != word_id) {
        return refuse_added_token(load, content.text,
                                  "would get another id than the file says: export the file again");
    }
    if (assigned->highest == bpe_no_id || word_id > assigned->highest) {
        assigned->highest = word_id;
    }
    load->added[load->added_count++] = token;
    return STATUS_OK;
}

static enum status count_added_tokens(struct tokenizer_draft *load, const struct json_value *array,
                                      uint32_t *count)
{
    struct json_item item;

    if (array->kind == JSON_ARRAY) {
        struct json json = load_open(array->raw);
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

static enum status read_added_tokens(struct tokenizer_draft *load, struct assigned_ids *assigned,
                                     struct slice array)
{
    struct json json = load_open(array);
    struct json_item item;
    enum status status = STATUS_OK;

    while (status == STATUS_OK && load_next(&json, &item)) {
        status = read_added_token(load, assigned, &item.value);
    }
    return status;
}

enum status load_added_tokens(struct tokenizer_draft *load, const struct json_value *value)
{
    struct assigned_ids assigned = {.highest = bpe_no_id};
    uint32_t count = 0;

    if (value->kind == JSON_ABSENT || value->kind == JSON_NULL) {
        return STATUS_OK;
    }
    enum status status = count_added_tokens(load, value, &count);
    if (status != STATUS_OK || count == 0) {
        return status;
    }
    load->added = calloc(count, sizeof(*load->added));
    assigned.is_added = calloc((load->vocabulary.count + count) / 64 + 1, sizeof(uint64_t));
    if (load->added == NULL || assigned.is_added == NULL) {
        status = STATUS_EXHAUSTED;
        goto out;
    }
    status = read_added_tokens(load, &assigned, value->raw);
    ASSERT(load->added_count <= count);

out:
    free(assigned.is_added);
    return status;
}
