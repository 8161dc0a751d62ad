// SPDX-License-Identifier: Apache-2.0
//
// Files of ranks: a token in base64 and its rank, a line each.  The rank is the id.  Of all
// neighbours that together are a token, those of the lowest rank merge, the leftmost first.  We
// list that as merges: one for every way to cut a token in two, all with the token's rank.
//
// A piece that is a token becomes that token.

#include "base/base.h"
#include "base/hash.h"
#include "base/text.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

enum {
    // All ways to cut a token in two are tried; the longest known token has 128 bytes.
    token_size_max = 512,
    // Limits of the program that comes with Kimi's file.
    kimi_characters_max = 400000,
    kimi_run_max = 25000,
};

static int base64_value(uint8_t byte)
{
    if (byte >= 'A' && byte <= 'Z') {
        return byte - 'A';
    }
    if (byte >= 'a' && byte <= 'z') {
        return byte - 'a' + 26;
    }
    if (byte >= '0' && byte <= '9') {
        return byte - '0' + 52;
    }
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

// Four characters for three bytes, the last of them filled with '='.  False when it is not base64,
// or longer than token_size_max.
static bool decode_base64(struct slice text, uint8_t *out, size_t *size)
{
    size_t count = 0;

    if (text.size == 0 || text.size % 4 != 0 || text.size / 4 * 3 > token_size_max) {
        return false;
    }
    unsigned fill = (text.bytes[text.size - 1] == '=') + (text.bytes[text.size - 2] == '=');
    for (size_t at = 0; at < text.size; at += 4) {
        uint32_t bits = 0;
        for (size_t i = at; i < at + 4; i++) {
            bool is_fill = i >= text.size - fill;
            int value = is_fill && text.bytes[i] == '=' ? 0 : base64_value(text.bytes[i]);
            if (value < 0) {
                return false;
            }
            bits = bits << 6 | (uint32_t)value;
        }
        out[count++] = (uint8_t)(bits >> 16);
        out[count++] = (uint8_t)(bits >> 8);
        out[count++] = (uint8_t)bits;
    }
    ASSERT(count >= fill && count <= token_size_max);
    *size = count - fill;
    return true;
}

static bool read_rank_line(struct tokenizer_draft *load, struct slice line, uint64_t number)
{
    uint8_t token[token_size_max];
    size_t size;
    uint64_t rank;

    const uint8_t *space = memchr(line.bytes, ' ', line.size);
    if (space == NULL) {
        return load_refuse(load, "line %u is not a token and its rank", (unsigned)number);
    }
    size_t token_size = (size_t)(space - line.bytes);
    struct slice digits = slice_of(space + 1, line.size - token_size - 1);
    if (!decode_base64(slice_of(line.bytes, token_size), token, &size) ||
        !slice_parse_u64(digits, &rank) || rank >= id_limit) {
        return load_refuse(load, "line %u is not a token of at most %d bytes and its rank",
                           (unsigned)number, token_size_max);
    }
    if (vocabulary_find(&load->vocabulary, slice_of(token, size)) != no_word) {
        return load_refuse(load, "line %u repeats a token", (unsigned)number);
    }
    return load_add_word(load, slice_of(token, size), (uint32_t)rank);
}

static bool read_rank_lines(struct tokenizer_draft *load, struct slice file)
{
    uint64_t number = 1;
    bool is_read = true;

    for (size_t at = 0; is_read && at < file.size; number++) {
        const uint8_t *end = memchr(file.bytes + at, '\n', file.size - at);
        size_t size = end != NULL ? (size_t)(end - file.bytes) - at : file.size - at;
        struct slice line = slice_of(file.bytes + at, size);
        at += size + 1;
        if (line.size > 0 && line.bytes[line.size - 1] == '\r') {
            line.size--;
        }
        if (line.size > 0) {
            is_read = read_rank_line(load, line, number);
        }
    }
    load->model_word_count = load->vocabulary.count;
    return is_read &&
           (load->vocabulary.count > 0 || load_refuse(load, "the file of ranks is empty"));
}

static bool cut_word(struct tokenizer_draft *load, uint32_t word)
{
    struct slice text = vocabulary_text(&load->vocabulary, word);
    uint32_t id = load->vocabulary.words[word].id;
    bool is_cut = true;

    for (size_t i = 1; is_cut && i < text.size; i++) {
        uint32_t left = vocabulary_find(&load->vocabulary, slice_of(text.bytes, i));
        if (left == no_word) {
            continue;
        }
        uint32_t right =
            vocabulary_find(&load->vocabulary, slice_of(text.bytes + i, text.size - i));
        if (right == no_word) {
            continue;
        }
        const struct bpe_merge merge = {
            .left = load->vocabulary.words[left].id,
            .right = load->vocabulary.words[right].id,
            .merged = id,
            .rank = id,
        };
        is_cut = load_add_merge(load, &merge);
    }
    return is_cut;
}

static bool find_rank_pattern(struct tokenizer_draft *load, const char *name)
{
    ASSERT(!load->pipeline.by_character);
    if (!split_find_name(slice_str(name), &load->pipeline.split)) {
        return load_refuse(load, "pattern %.60s is not known", name);
    }
    if (load->pipeline.split == SPLIT_KIMI) {
        load->text_characters_max = kimi_characters_max;
        load->run_characters_max = kimi_run_max;
    }
    return true;
}

static bool add_rank_special(struct tokenizer_draft *load, const struct tokenizer_special *special)
{
    if (special->text.size == 0 || special->text.size > word_size_max || special->id >= id_limit) {
        return load_refuse(load, "a special token is empty, too long or has no such id");
    }
    if (vocabulary_find(&load->vocabulary, special->text) != no_word) {
        return load_refuse(load, "special token \"%s\" is listed twice",
                           load_excerpt(special->text).text);
    }
    load->added[load->added_count++].word = load->vocabulary.count;
    return load_add_word(load, special->text, special->id);
}

static bool read_ranks(struct tokenizer_draft *load, const struct tokenizer_ranks *ranks)
{
    bool is_read = find_rank_pattern(load, ranks->pattern) && read_rank_lines(load, ranks->file);
    for (uint32_t i = 0; is_read && i < load->model_word_count; i++) {
        is_read = cut_word(load, i);
    }
    load->added = calloc(ranks->special_count + 1, sizeof(*load->added));
    is_read = is_read && (load->added != NULL || load_exhausted(load));
    for (uint32_t i = 0; is_read && i < ranks->special_count; i++) {
        is_read = add_rank_special(load, &ranks->specials[i]);
    }
    return is_read;
}

static uint64_t ranks_fingerprint(const struct tokenizer_ranks *ranks)
{
    uint64_t hash = hash_bytes(ranks->file, hash_bytes(slice_str(ranks->pattern), 1));
    for (uint32_t i = 0; i < ranks->special_count; i++) {
        hash = hash_bytes(ranks->specials[i].text, hash_pair(hash, ranks->specials[i].id));
    }
    return hash;
}

enum status tokenizer_load_ranks(const struct tokenizer_ranks *ranks, struct tokenizer **out,
                                 struct tokenizer_error *error)
{
    struct tokenizer_draft load = {.error = error, .unknown_word = no_word, .ignore_merges = true};

    error->text[0] = '\0';
    load.fingerprint = ranks_fingerprint(ranks);
    return load_finish(&load, read_ranks(&load, ranks), out);
}
