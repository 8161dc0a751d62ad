// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_fixture.h -- tokenizer.json files of a few words, and ids as text.
//
// The byte-level one has the bytes as the ids 0 to 255, spelled in the alphabet of such files, then
//     256 he  257 ll  258 hell  259 hello  260 " w"  261 " wo"  262 "  "  263 "\n\n"  264 11
// The SentencePiece one has
//     0 <unk>  1 <s>  2 </s>  3 to 258 the bytes, <0x00> to <0xFF>  259 ▁  260 to 285 a to z
//     286 LF  287 ▁a  288 ▁▁  289 he  290 ▁he  291 ll  292 ▁hell  293 o▁x
#pragma once

#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

struct fixture_parts {
    const char *normalizer; // each a JSON text; NULL: null
    const char *pre_tokenizer;
    const char *post_processor;
    const char *added;       // the elements of the list
    const char *model;       // members, with a comma behind the last
    const char *more_words;  // with a comma before the first
    const char *more_merges; // the same
    bool is_sentence_piece;
};

#define FIXTURE_BYTE_LEVEL "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}"
#define FIXTURE_SPLIT(pattern)                                                                     \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern                                        \
    "\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define FIXTURE_LLAMA3                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| "         \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define FIXTURE_LIKE_LLAMA3                                                                        \
    "{\"type\":\"Sequence\",\"pretokenizers\":[" FIXTURE_SPLIT(                                    \
        FIXTURE_LLAMA3) "," FIXTURE_BYTE_LEVEL "]}"
#define FIXTURE_LIKE_GPT2 "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"
#define FIXTURE_REPLACE                                                                            \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}"
#define FIXTURE_PREPEND "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}"
#define FIXTURE_LIKE_LLAMA2                                                                        \
    "{\"type\":\"Sequence\",\"normalizers\":[" FIXTURE_PREPEND "," FIXTURE_REPLACE "]}"
#define FIXTURE_METASPACE(scheme, split)                                                           \
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"" scheme        \
    "\",\"split\":" split "}"
#define FIXTURE_ADDED(id, content, flags)                                                          \
    "{\"id\":" #id ",\"content\":\"" content "\"," flags ",\"special\":true}"
#define FIXTURE_FLAGS(single, left, right, normalized)                                             \
    "\"single_word\":" #single ",\"lstrip\":" #left ",\"rstrip\":" #right                          \
    ",\"normalized\":" #normalized
#define FIXTURE_PLAIN FIXTURE_FLAGS(false, false, false, false)
#define FIXTURE_NORMALIZED FIXTURE_FLAGS(false, false, false, true)

// As the byte is written in files.
static inline void fixture_add_byte(struct text *out, unsigned byte)
{
    static const struct {
        unsigned first;
        unsigned last;
    } others[] = {{0, 0x20}, {0x7f, 0xa0}, {0xad, 0xad}};
    unsigned character = byte;
    unsigned number = 0x100;
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        if (byte >= others[i].first && byte <= others[i].last) {
            character = number + byte - others[i].first;
        }
        number += others[i].last - others[i].first + 1;
    }
    if (character == '"' || character == '\\') {
        text_add_str(out, "\\");
    }
    uint8_t bytes[4];
    unsigned size = utf8_write(character, bytes);
    text_add(out, slice_of(bytes, size));
}

static inline void fixture_add_byte_words(struct text *out)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        text_add_str(out, byte > 0 ? ",\"" : "\"");
        fixture_add_byte(out, byte);
        text_add_format(out, "\":%u", byte);
    }
    text_add_str(out, ",\"he\":256,\"ll\":257,\"hell\":258,\"hello\":259,\"\xc4\xa0w\":260,"
                      "\"\xc4\xa0wo\":261,\"\xc4\xa0\xc4\xa0\":262,\"\xc4\x8a\xc4\x8a\":263,"
                      "\"11\":264");
}

static inline void fixture_add_piece_words(struct text *out)
{
    text_add_str(out, "\"<unk>\":0,\"<s>\":1,\"</s>\":2");
    for (unsigned byte = 0; byte < 256; byte++) {
        text_add_format(out, ",\"<0x%02X>\":%u", byte, byte + 3);
    }
    text_add_str(out, ",\"\xe2\x96\x81\":259");
    for (unsigned letter = 'a'; letter <= 'z'; letter++) {
        text_add_format(out, ",\"%c\":%u", (char)letter, 260 + letter - 'a');
    }
    text_add_str(
        out, ",\"\\n\":286,\"\xe2\x96\x81"
             "a\":287,\"\xe2\x96\x81\xe2\x96\x81\":288,\"he\":289,\"\xe2\x96\x81he\":290,"
             "\"ll\":291,\"\xe2\x96\x81hell\":292,\"o\xe2\x96\x81x\":293,\"o\xe2\x96\x81\":294");
}

static inline const char *fixture_or(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

// Until the next call.
static inline struct slice fixture_json(const struct fixture_parts *parts)
{
    static uint8_t space[1 << 16];
    struct text out = text_over(space, sizeof(space));

    text_add_format(&out,
                    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
                    "\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,"
                    "\"post_processor\":%s,\"decoder\":null,\"model\":{%s\"vocab\":{",
                    fixture_or(parts->added, ""), fixture_or(parts->normalizer, "null"),
                    fixture_or(parts->pre_tokenizer, "null"),
                    fixture_or(parts->post_processor, "null"),
                    fixture_or(parts->model, parts->is_sentence_piece
                                                 ? "\"type\":\"BPE\",\"unk_token\":\"<unk>\","
                                                   "\"fuse_unk\":true,\"byte_fallback\":true,"
                                                 : "\"type\":\"BPE\","));
    if (parts->is_sentence_piece) {
        fixture_add_piece_words(&out);
    } else {
        fixture_add_byte_words(&out);
    }
    text_add_str(&out, fixture_or(parts->more_words, ""));
    text_add_str(&out, "},\"merges\":[");
    text_add_str(&out,
                 parts->is_sentence_piece
                     ? "\"\xe2\x96\x81 a\",\"\xe2\x96\x81 \xe2\x96\x81\",\"h e\",\"\xe2\x96\x81 "
                       "he\",\"l l\",\"\xe2\x96\x81he ll\",\"o \xe2\x96\x81\",\"o\xe2\x96\x81 x\""
                     : "\"h e\",\"l l\",\"he ll\",\"hell o\",[\"\xc4\xa0\",\"w\"],\"\xc4\xa0w "
                       "o\",\"\xc4\xa0 \xc4\xa0\",\"\xc4\x8a \xc4\x8a\",\"1 1\"");
    text_add_str(&out, fixture_or(parts->more_merges, ""));
    text_add_str(&out, "]}}");
    ASSERT(!out.overflow);
    return text_slice(&out);
}

// Why it is refused; "" when it loads.
static inline const char *fixture_refusal(const struct fixture_parts *parts)
{
    static struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_load(fixture_json(parts), &tokenizer, &error);
    ASSERT((status == STATUS_OK) == (tokenizer != NULL));
    ASSERT((status == STATUS_OK) == (error.text[0] == '\0'));
    tokenizer_destroy(&tokenizer);
    return error.text;
}

static inline struct tokenizer *fixture_load(const struct fixture_parts *parts)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    enum status status = tokenizer_load(fixture_json(parts), &tokenizer, &error);
    if (status != STATUS_OK) {
        printf("# %s\n", error.text);
        ASSERT(status == STATUS_OK);
    }
    return tokenizer;
}

// As numbers with spaces between them, or why there are none.  Until the next call.
static inline const char *fixture_encode(const struct tokenizer *tokenizer,
                                         const struct tokenizer_input *input)
{
    static char space[1 << 16];
    struct text out = text_over(space, sizeof(space) - 1);
    size_t capacity = tokenizer_bound(tokenizer, input->text.size);
    uint32_t *ids = malloc((capacity + 1) * sizeof(*ids));
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    size_t count = 0;

    ASSERT(ids != NULL && scratch != NULL);
    enum status status = tokenizer_encode(tokenizer, scratch, input, ids, capacity, &count);
    if (status != STATUS_OK) {
        text_add_str(&out, status_text(status));
    }
    for (size_t i = 0; i < count; i++) {
        text_add_format(&out, i > 0 ? " %u" : "%u", (unsigned)ids[i]);
    }
    ASSERT(!out.overflow);
    space[out.size] = '\0';
    tokenizer_scratch_destroy(&scratch);
    free(ids);
    return space;
}

static inline const char *fixture_ids(const struct tokenizer *tokenizer, const char *text)
{
    return fixture_encode(tokenizer, &(struct tokenizer_input){.text = slice_str(text)});
}

// Of a file that is loaded for this text alone.
static inline const char *fixture_ids_of(const struct fixture_parts *parts, const char *text)
{
    struct tokenizer *tokenizer = fixture_load(parts);
    const char *ids = fixture_ids(tokenizer, text);
    tokenizer_destroy(&tokenizer);
    return ids;
}
