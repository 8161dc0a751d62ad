// SPDX-License-Identifier: Apache-2.0
//
// For any input: a tokenizer or a message.  A vocabulary needs a line for each byte, which hardly
// any input has, so those lines are put in front of it.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

static void add_byte_lines(struct text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (unsigned byte = 0; byte < 256; byte++) {
        text_add_format(out, "%c%c== %u\n", digits[byte >> 2], digits[byte << 4 & 63], byte);
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

static void check(struct tokenizer *tokenizer, struct slice text)
{
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    const struct tokenizer_input input = {.text = text};
    uint32_t *ids = malloc((text.size + 1) * sizeof(*ids));
    size_t count = 0;

    ASSERT(scratch != NULL && ids != NULL);
    if (tokenizer_encode(tokenizer, scratch, &input, ids, text.size, &count) == STATUS_OK) {
        check_spelling(tokenizer, text, ids, count);
    }
    free(ids);
    tokenizer_scratch_destroy(&scratch);
}

static void load(struct slice file, struct slice text)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    const struct tokenizer_ranks ranks = {.file = file, .pattern = "o200k"};

    enum status status = tokenizer_load_ranks(&ranks, &tokenizer, &error);
    if (status == STATUS_OK) {
        check(tokenizer, text);
    } else {
        ASSERT(status == STATUS_MALFORMED && tokenizer == NULL);
        ASSERT(error.text[0] != '\0' && memchr(error.text, '\0', sizeof(error.text)) != NULL);
    }
    tokenizer_destroy(&tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { lines_size = 256 * 10 };
    uint8_t *copy = malloc(size + lines_size); // of its exact size, for sanitizers
    ASSERT(copy != NULL);
    struct text text = text_over(copy, size + lines_size);
    load(slice_of(bytes, size), slice_of(bytes, size));
    add_byte_lines(&text);
    text_add(&text, slice_of(bytes, size));
    ASSERT(!text.overflow);
    load(text_slice(&text), slice_of(bytes, size));
    free(copy);
    return 0;
}
