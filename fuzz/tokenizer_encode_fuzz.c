// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks one of the families, the rest is a text.  A text is refused exactly if it is
// not UTF-8; its ids are the tokenizer's, no more than the bound; its parts have ids too; and if
// normalization changes nothing, the tokens spell the text.

#include "base/base.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "tokenizer/tokenizer_fixture.h"

#include <stdlib.h>

#define ADDED(first, second)                                                                       \
    FIXTURE_ADDED(first, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(second, "</s>", FIXTURE_NORMALIZED)
#define BERT(cls, sep)                                                                             \
    "{\"type\":\"BertProcessing\",\"sep\":[\"\"," #sep "],\"cls\":[\"\"," #cls "]}"

static const struct {
    struct fixture_parts parts;
    bool spells; // the tokens are the text
} families[] = {
    {{.pre_tokenizer = FIXTURE_LIKE_LLAMA3, .added = ADDED(265, 266)}, true},
    {{.pre_tokenizer = FIXTURE_LIKE_GPT2, .added = ADDED(265, 266)}, true},
    {{.pre_tokenizer = FIXTURE_BYTE_LEVEL}, true},
    {{.normalizer = "{\"type\":\"NFC\"}",
      .pre_tokenizer = FIXTURE_LIKE_LLAMA3,
      .added = ADDED(265, 266),
      .post_processor = BERT(265, 266)},
     false},
    {{.pre_tokenizer = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true}",
      .added = ADDED(265, 266)},
     false},
    {{.pre_tokenizer = FIXTURE_LIKE_GPT2,
      .added = FIXTURE_ADDED(265, "<m>", FIXTURE_FLAGS(false, true, true, true)) "," //
      FIXTURE_ADDED(266, "ab", FIXTURE_FLAGS(true, false, false, false))},
     false},
    {{.normalizer = FIXTURE_LIKE_LLAMA2, .added = ADDED(1, 2), .is_sentence_piece = true}, false},
    {{.normalizer = FIXTURE_REPLACE,
      .added = FIXTURE_ADDED(286, "\\n", FIXTURE_PLAIN),
      .post_processor = BERT(1, 2),
      .is_sentence_piece = true},
     false},
    {{.pre_tokenizer = FIXTURE_METASPACE("first", "false"),
      .added = ADDED(1, 2),
      .is_sentence_piece = true},
     false},
    {{.pre_tokenizer = FIXTURE_METASPACE("always", "true"),
      .added = ADDED(1, 2),
      .is_sentence_piece = true},
     false},
};

// Made once: a fuzzer calls a million times.
static struct tokenizer *tokenizers[ARRAY_COUNT(families)];
static struct tokenizer_scratch *scratches[ARRAY_COUNT(families)];

__attribute__((constructor)) static void create(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
        tokenizers[i] = fixture_load(&families[i].parts);
        scratches[i] = tokenizer_scratch_create(tokenizers[i]);
        ASSERT(scratches[i] != NULL);
    }
}

__attribute__((destructor)) static void destroy(void)
{
    for (size_t i = 0; i < ARRAY_COUNT(families); i++) {
        tokenizer_scratch_destroy(&scratches[i]);
        tokenizer_destroy(&tokenizers[i]);
    }
}

static void check_spelling(const struct tokenizer *tokenizer, struct slice text,
                           const uint32_t *ids, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice token = tokenizer_token(tokenizer, ids[i]);
        ASSERT(token.size > 0 && token.size <= text.size - at);
        ASSERT(memcmp(text.bytes + at, token.bytes, token.size) == 0);
        at += token.size;
    }
    ASSERT(at == text.size);
}

static size_t encode_parts(size_t family, struct slice text, uint32_t *ids, size_t capacity)
{
    size_t count = 0;
    size_t begin = 0;
    do {
        size_t end = tokenizer_cut(tokenizers[family], text, begin + 1);
        ASSERT(end <= text.size && (end > begin || text.size == 0));
        const struct tokenizer_input part = {
            .text = slice_of(text.bytes + begin, end - begin),
            .adds_special = true,
            .continues = begin > 0,
            .is_continued = end < text.size,
        };
        size_t part_count = 0;
        enum status status = tokenizer_encode(tokenizers[family], scratches[family], &part,
                                              ids + count, capacity - count, &part_count);
        ASSERT(status == STATUS_OK);
        count += part_count;
        begin = end;
    } while (begin < text.size);
    return count;
}

static void check(size_t family, struct slice text)
{
    const struct tokenizer *tokenizer = tokenizers[family];
    const struct tokenizer_input input = {.text = text, .adds_special = true};
    size_t bound = tokenizer_bound(tokenizer, text.size);
    uint32_t *ids = malloc((bound + 1) * sizeof(*ids));
    uint32_t *part_ids = malloc((bound + 1) * sizeof(*ids));
    size_t count = 0;

    ASSERT(ids != NULL && part_ids != NULL);
    enum status status = tokenizer_encode(tokenizer, scratches[family], &input, ids, bound, &count);
    ASSERT(status == (utf8_is_valid(text) ? STATUS_OK : STATUS_MALFORMED));
    if (status == STATUS_OK) {
        size_t part_count = encode_parts(family, text, part_ids, bound);
        ASSERT(part_count == count && memcmp(part_ids, ids, count * sizeof(*ids)) == 0);
        // With no room to spare.
        status = tokenizer_encode(tokenizer, scratches[family], &input, part_ids, count, &count);
        ASSERT(status == STATUS_OK);
        ASSERT(part_count == count && memcmp(part_ids, ids, count * sizeof(*ids)) == 0);
        if (families[family].spells) {
            check_spelling(tokenizer, text, ids, count);
        }
    }
    free(ids);
    free(part_ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return 0;
    }
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1); // of its exact size, for sanitizers
    ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    check(bytes[0] % ARRAY_COUNT(families), slice_of(copy, size - 1));
    free(copy);
    return 0;
}
