// SPDX-License-Identifier: Apache-2.0
//
// For any input: a tokenizer or a message.  A loaded tokenizer encodes text, its own included, into
// ids that it has, no more of them than its bound.

#include "base/base.h"
#include "fuzz.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>

static bool are_ids(const struct tokenizer *tokenizer, const uint32_t *ids, size_t count)
{
    bool are = true;
    for (size_t i = 0; i < count; i++) {
        are &= ids[i] < tokenizer_id_count(tokenizer);
    }
    return are;
}

static void encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                   struct slice text)
{
    const struct tokenizer_input input = {.text = text, .adds_special = true};
    size_t bound = tokenizer_bound(tokenizer, text.size);
    uint32_t *ids = malloc((bound + 1) * sizeof(*ids));
    size_t count = 0;

    ASSERT(ids != NULL);
    if (tokenizer_encode(tokenizer, scratch, &input, ids, bound, &count) == STATUS_OK) {
        ASSERT(count <= bound && are_ids(tokenizer, ids, count));
    }
    free(ids);
}

static void check(struct tokenizer *tokenizer, struct slice text)
{
    struct tokenizer_scratch *scratch = tokenizer_scratch_create(tokenizer);
    ASSERT(scratch != NULL);
    encode(tokenizer, scratch, text);
    encode(tokenizer, scratch, slice_str("a b  c\n\xc3\xa9\xe2\x96\x81 <s>x</s> 12"));
    for (uint32_t id = 0; id < tokenizer_id_count(tokenizer) && id < 64; id++) {
        encode(tokenizer, scratch, tokenizer_token(tokenizer, id));
    }
    ASSERT(tokenizer_memory(tokenizer) > 0);
    tokenizer_scratch_destroy(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct tokenizer_error error;
    struct tokenizer *tokenizer = NULL;
    uint8_t *copy = malloc(size > 0 ? size : 1); // of its exact size, for sanitizers
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    enum status status = tokenizer_load(slice_of(copy, size), &tokenizer, &error);
    if (status == STATUS_OK) {
        check(tokenizer, slice_of(copy, size));
    } else {
        ASSERT(status == STATUS_MALFORMED && tokenizer == NULL);
        ASSERT(error.text[0] != '\0' && memchr(error.text, '\0', sizeof(error.text)) != NULL);
    }
    tokenizer_destroy(&tokenizer);
    free(copy);
    return 0;
}
