// SPDX-License-Identifier: Apache-2.0
//
// The model of a tokenizer.json: nearly all of the file.  Words and merges are read in place and in
// one pass, if the words come first, as they do: a tree of such a file would take hundreds of
// megabytes.
//
// Merges name their words by text, in the file's spelling.  A pair whose result is not a word is an
// error, as it is for the library.

#include "base/base.h"
#include "json/json.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

bool load_add_merge(struct tokenizer_draft *load, const struct bpe_merge *merge)
{
    if (load->merge_count == load->merge_capacity) {
        uint32_t capacity = load->merge_capacity > 0 ? load->merge_capacity * 2 : 4096;
        struct bpe_merge *merges = realloc(load->merges, capacity * sizeof(*merges));
        if (merges == NULL) {
            return load_exhausted(load);
        }
        load->merges = merges;
        load->merge_capacity = capacity;
    }
    load->merges[load->merge_count++] = *merge;
    return true;
}

// A word with escapes is unescaped where the next word of the vocabulary will be.
static bool read_word(struct tokenizer_draft *load, const struct json_item *item)
{
    uint64_t id;
    struct slice word;
    uint8_t *room = vocabulary_room(&load->vocabulary, item->key.size);

    if (room == NULL) {
        return load_exhausted(load);
    }
    if (json_string_decode(item->key, room, item->key.size, &word) != STATUS_OK) {
        return load_refuse(load, "a word of the vocabulary has half a surrogate pair");
    }
    if (word.size > word_size_max) {
        return load_refuse(load, "a word of the vocabulary is longer than %d bytes", word_size_max);
    }
    if (!json_uint(&item->value, &id) || id >= id_limit) {
        return load_refuse(load, "the id of \"%s\" is not a whole number below %d",
                           load_excerpt(item->key).text, id_limit);
    }
    if (vocabulary_find(&load->vocabulary, word) != no_word) {
        return load_refuse(load, "the vocabulary has \"%s\" twice", load_excerpt(item->key).text);
    }
    return load_add_word(load, word, (uint32_t)id);
}

static bool read_model_words(struct tokenizer_draft *load, struct json *json)
{
    struct json_item item;

    if (load->vocabulary.count > 0) {
        return load_refuse(load, "the model has two vocabularies");
    }
    json_enter(json);
    while (json_next(json, &item)) {
        if (!read_word(load, &item)) {
            return false;
        }
    }
    load->model_word_count = load->vocabulary.count;
    ASSERT(load->merge_count == 0);
    return true;
}

// The two halves of a merge, one behind the other.
struct halves {
    uint8_t text[2 * word_size_max];
    size_t left_size;
    size_t size;
};

static bool add_halves(struct tokenizer_draft *load, const struct halves *halves)
{
    enum { left, right, merged, count };
    const struct slice texts[count] = {
        [left] = slice_of(halves->text, halves->left_size),
        [right] = slice_of(halves->text + halves->left_size, halves->size - halves->left_size),
        [merged] = slice_of(halves->text, halves->size),
    };
    uint32_t words[count];

    ASSERT(halves->left_size <= halves->size && halves->size <= sizeof(halves->text));
    vocabulary_find_all(&load->vocabulary, texts, count, words);
    if (words[left] == no_word || words[right] == no_word || words[merged] == no_word) {
        return load_refuse(load, "merge %u has a word that is not in the vocabulary",
                           (unsigned)load->merge_count);
    }
    const struct bpe_merge merge = {
        .left = load->vocabulary.words[words[left]].id,
        .right = load->vocabulary.words[words[right]].id,
        .merged = load->vocabulary.words[words[merged]].id,
        .rank = load->merge_count,
    };
    return load_add_merge(load, &merge);
}

static bool refuse_merge(struct tokenizer_draft *load)
{
    return load_refuse(load, "merge %u is not two words", (unsigned)load->merge_count);
}

// "a b"
static bool read_spelled_merge(struct tokenizer_draft *load, struct slice raw)
{
    struct halves halves;
    struct slice text;

    if (json_string_decode(raw, halves.text, sizeof(halves.text), &text) != STATUS_OK ||
        text.size > sizeof(halves.text)) {
        return refuse_merge(load);
    }
    if (slice_starts_with(text, "#version")) {
        return true;
    }
    const uint8_t *space = text.size > 0 ? memchr(text.bytes, ' ', text.size) : NULL;
    if (space == NULL) {
        return refuse_merge(load);
    }
    halves.left_size = (size_t)(space - text.bytes);
    halves.size = text.size - 1;
    size_t right_size = halves.size - halves.left_size;
    if (memchr(space + 1, ' ', right_size) != NULL) {
        return refuse_merge(load);
    }
    if (text.bytes != halves.text) {
        memcpy(halves.text, text.bytes, halves.left_size);
    }
    memmove(halves.text + halves.left_size, space + 1, right_size);
    return add_halves(load, &halves);
}

// ["a", "b"]
static bool read_merge_pair(struct tokenizer_draft *load, struct json *json)
{
    struct halves halves;
    struct json_item item;
    unsigned count = 0;

    halves.left_size = 0;
    halves.size = 0;
    json_enter(json);
    while (json_next(json, &item)) {
        uint8_t space[word_size_max];
        struct slice half;
        if (item.value.kind != JSON_STRING || count == 2 ||
            json_string_decode(item.value.raw, space, sizeof(space), &half) != STATUS_OK ||
            half.size > word_size_max) {
            return refuse_merge(load);
        }
        memcpy(halves.text + halves.size, half.bytes, half.size);
        halves.size += half.size;
        if (count == 0) {
            halves.left_size = halves.size;
        }
        count++;
    }
    return count == 2 ? add_halves(load, &halves) : refuse_merge(load);
}

static bool read_merges(struct tokenizer_draft *load, struct json *json)
{
    struct json_item item;
    bool is_read = true;

    if (load->merge_count > 0) {
        return load_refuse(load, "the model has two lists of merges");
    }
    while (is_read && json_next(json, &item)) {
        if (item.value.kind == JSON_STRING) {
            is_read = read_spelled_merge(load, item.value.raw);
        } else {
            is_read =
                item.value.kind == JSON_ARRAY ? read_merge_pair(load, json) : refuse_merge(load);
        }
    }
    return is_read;
}

enum model_field {
    MODEL_TYPE,
    MODEL_DROPOUT,
    MODEL_UNKNOWN,
    MODEL_PREFIX,
    MODEL_SUFFIX,
    MODEL_FUSE,
    MODEL_FALLBACK,
    MODEL_IGNORE,
    MODEL_FIELD_COUNT,
};

static const char *const model_names[MODEL_FIELD_COUNT] = {
    [MODEL_TYPE] = "type",
    [MODEL_DROPOUT] = "dropout",
    [MODEL_UNKNOWN] = "unk_token",
    [MODEL_PREFIX] = "continuing_subword_prefix",
    [MODEL_SUFFIX] = "end_of_word_suffix",
    [MODEL_FUSE] = "fuse_unk",
    [MODEL_FALLBACK] = "byte_fallback",
    [MODEL_IGNORE] = "ignore_merges",
};

static bool check_type(struct tokenizer_draft *load, const struct json_value *type)
{
    // Old files do not have the field.
    return type->kind == JSON_ABSENT || json_is_string(type, "BPE") ||
           load_refuse(load, "model %s is not supported: " LOAD_ADVICE,
                       load_excerpt(type->raw).text);
}

static bool check_absent(struct tokenizer_draft *load, const struct json_value *fields)
{
    const struct json_value *dropout = &fields[MODEL_DROPOUT];
    if (!json_is_unset(dropout) && !slice_is(dropout->raw, "0") && !slice_is(dropout->raw, "0.0")) {
        return load_refuse(load, "model BPE with dropout is not supported: its ids are random");
    }
    for (unsigned i = MODEL_PREFIX; i <= MODEL_SUFFIX; i++) {
        if (!json_is_unset(&fields[i]) && !json_is_string(&fields[i], "")) {
            return load_refuse(load, "model BPE with %s is not supported: " LOAD_ADVICE,
                               model_names[i]);
        }
    }
    return true;
}

static bool read_unknown_word(struct tokenizer_draft *load, const struct json_value *value)
{
    struct load_string text;

    load->unknown_word = no_word;
    if (json_is_unset(value)) {
        return true;
    }
    if (!load_string(load, value, "unk_token", &text)) {
        return false;
    }
    load->unknown_word = vocabulary_find(&load->vocabulary, text.text);
    return load->unknown_word != no_word ||
           load_refuse(load, "the model's unk_token is not in its vocabulary");
}

static bool read_model_fields(struct tokenizer_draft *load, const struct json_value *fields)
{
    bool *const flags[MODEL_FIELD_COUNT] = {
        [MODEL_FUSE] = &load->fuse_unknown,
        [MODEL_FALLBACK] = &load->byte_fallback,
        [MODEL_IGNORE] = &load->ignore_merges,
    };

    if (!check_absent(load, fields)) {
        return false;
    }
    for (unsigned i = MODEL_FUSE; i < MODEL_FIELD_COUNT; i++) {
        if (!load_flag(load, &fields[i], model_names[i], false, flags[i])) {
            return false;
        }
    }
    return read_unknown_word(load, &fields[MODEL_UNKNOWN]);
}

struct model_state {
    struct json_value fields[MODEL_FIELD_COUNT];
    struct json_value merges; // not read yet
    bool has_vocabulary;
    bool has_merges;
};

static bool read_model_member(struct tokenizer_draft *load, struct json *json,
                              struct json_item *item, struct model_state *state)
{
    if (json_string_is(item->key, "vocab")) {
        // Unigram has a list here, and a name of its own.
        state->has_vocabulary |= item->value.kind == JSON_OBJECT;
        return item->value.kind != JSON_OBJECT || read_model_words(load, json);
    }
    if (json_string_is(item->key, "merges") && item->value.kind == JSON_ARRAY) {
        state->has_merges = true;
        if (state->has_vocabulary) {
            json_enter(json);
            return read_merges(load, json);
        }
        if (json_skip(json, &item->value)) {
            state->merges = item->value;
        }
        return true;
    }
    for (unsigned i = 0; i < MODEL_FIELD_COUNT; i++) {
        if (json_string_is(item->key, model_names[i])) {
            state->fields[i] = item->value;
            // A model of another type is refused by name before its words are read.
            return i != MODEL_TYPE || check_type(load, &item->value);
        }
    }
    return true;
}

bool load_model(struct tokenizer_draft *load, struct json *json)
{
    struct model_state state = {0};
    struct json_item item;

    json_enter(json);
    while (json_next(json, &item)) {
        if (!read_model_member(load, json, &item, &state)) {
            return false;
        }
    }
    if (json->status != STATUS_OK) {
        return true; // json_close reports the error
    }
    if (!state.has_vocabulary || !state.has_merges) {
        return load_refuse(load, "the model has no %s: only BPE is supported",
                           state.has_vocabulary ? "merges" : "vocab");
    }
    // Merges that come before the vocabulary in the file.
    struct json merges = json_inside(state.merges.raw);
    return (state.merges.kind == JSON_ABSENT || read_merges(load, &merges)) &&
           read_model_fields(load, state.fields);
}
