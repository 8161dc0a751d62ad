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
static bool find_added_word(struct tokenizer_draft *load, const struct assigned_ids *assigned,
                            struct slice content, uint32_t *out)
{
    uint32_t id = next_added_id(load, assigned);

    *out = vocabulary_find(&load->vocabulary, content);
    if (*out != no_word) {
        return true;
    }
    if (id >= id_limit) {
        return load_refuse(load, "an added token has an id above %d", id_limit - 1);
    }
    *out = load->vocabulary.count;
    return load_add_word(load, content, id);
}

static bool refuse_added_token(struct tokenizer_draft *load, struct slice content, const char *why)
{
    return load_refuse(load, "added token \"%s\" %s", load_excerpt(content).text, why);
}

static bool read_added_flags(struct tokenizer_draft *load, const struct json_value *fields,
                             struct load_added *token)
{
    bool *const flags[ADDED_FIELD_COUNT] = {
        [ADDED_SINGLE_WORD] = &token->token.single_word,
        [ADDED_LSTRIP] = &token->token.lstrip,
        [ADDED_RSTRIP] = &token->token.rstrip,
        [ADDED_NORMALIZED] = &token->is_normalized,
    };
    for (unsigned i = ADDED_SINGLE_WORD; i < ADDED_FIELD_COUNT; i++) {
        if (fields[i].kind != JSON_BOOL) {
            return load_refuse(load, "an added token has no %s", added_names[i]);
        }
        *flags[i] = json_is_true(&fields[i]);
    }
    return true;
}

static bool read_added_token(struct tokenizer_draft *load, struct assigned_ids *assigned,
                             const struct json_value *object)
{
    struct json_value fields[ADDED_FIELD_COUNT] = {0};
    struct load_string content;
    struct load_added token = {0};
    uint64_t id;

    if (object->kind != JSON_OBJECT ||
        json_find(object->raw, added_names, ADDED_FIELD_COUNT, fields) != STATUS_OK) {
        return load_refuse(load, "an added token is not an object");
    }
    if (!load_string(load, &fields[ADDED_CONTENT], "the content of an added token", &content) ||
        !read_added_flags(load, fields, &token)) {
        return false;
    }
    if (content.text.size == 0) {
        return true;
    }
    if (!find_added_word(load, assigned, content.text, &token.word)) {
        return false;
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
    return true;
}

static uint32_t count_added_tokens(struct slice array)
{
    struct json json = json_inside(array);
    struct json_item item;
    uint32_t count = 0;

    while (count <= added_count_max && json_next(&json, &item)) {
        count++;
    }
    return count;
}

bool load_added_tokens(struct tokenizer_draft *load, const struct json_value *value)
{
    struct assigned_ids assigned = {.highest = bpe_no_id};
    struct json_item item;

    if (json_is_unset(value)) {
        return true;
    }
    uint32_t count = value->kind == JSON_ARRAY ? count_added_tokens(value->raw) : UINT32_MAX;
    if (count > added_count_max) {
        return load_refuse(load, "added_tokens is not a list of at most %d", added_count_max);
    }
    load->added = calloc(count + 1, sizeof(*load->added));
    assigned.is_added = calloc((load->vocabulary.count + count) / 64 + 1, sizeof(uint64_t));
    if (load->added == NULL || assigned.is_added == NULL) {
        free(assigned.is_added);
        return load_exhausted(load);
    }
    bool is_read = true;
    struct json json = json_inside(value->raw);
    while (is_read && json_next_whole(&json, &item)) {
        is_read = read_added_token(load, &assigned, &item.value);
    }
    ASSERT(load->added_count <= count);
    free(assigned.is_added);
    return is_read;
}
