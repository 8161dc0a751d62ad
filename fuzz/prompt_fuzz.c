// SPDX-License-Identifier: Apache-2.0
//
// For any input and API: the result is a function of the bytes, its slices lie where they may, the
// text size equals the text that is hashed, and keys do not depend on the room for them.

#include "api/prompt.h"
#include "base/base.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

enum { key_max = 4096, key_few = 3, block = 32 };

static void check_usage(struct slice body, const struct prompt *prompt)
{
    if (prompt->usage_text == NULL) {
        return;
    }
    struct slice more = slice_str(prompt->usage_text);
    size_t behind = prompt->usage_at + prompt->usage_over;
    ASSERT(prompt->stream && behind <= body.size);
    size_t size = body.size - prompt->usage_over + more.size;
    uint8_t *text = malloc(size);
    ASSERT(text != NULL);
    memcpy(text, body.bytes, prompt->usage_at);
    memcpy(text + prompt->usage_at, more.bytes, more.size);
    memcpy(text + prompt->usage_at + more.size, body.bytes + behind, body.size - behind);

    struct json json = json_open(slice_of(text, size));
    ASSERT(json_close(&json) == STATUS_OK);
    free(text);
}

static void check(struct prompt_reader *reader, enum prompt_api api, struct slice body)
{
    static uint64_t keys[key_max];
    uint64_t few[key_few];
    struct prefix_chain chain;
    struct prefix_chain again;
    struct prompt prompt;
    struct json json = json_open(body);

    prompt_read(reader, api, body, &prompt);
    if (json_close(&json) != STATUS_OK) {
        ASSERT(prompt.form == PROMPT_NOTHING && prompt.model.size == 0 && prompt.session.size == 0);
    }
    ASSERT(prompt.sequences >= 1);
    ASSERT(prompt.history_size <= prompt.text_size);
    check_usage(body, &prompt);

    prefix_chain_begin(&chain, 1, block, keys, key_max);
    prompt_hash(reader, &prompt, &chain);
    prefix_chain_begin(&again, 1, block, few, key_few);
    prompt_hash(reader, &prompt, &again);
    ASSERT(chain.size == again.size);
    ASSERT(again.key_count == (chain.key_count < key_few ? chain.key_count : key_few));
    ASSERT(memcmp(keys, few, again.key_count * sizeof(few[0])) == 0);
    // Every piece takes two bytes of the body at least, so none was left out of a small one.
    if (body.size < 16384) {
        uint64_t expected =
            prompt.form == PROMPT_TOKENS ? 4 * prompt.token_count : prompt.text_size;
        ASSERT(chain.size == expected);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    struct prompt_reader *reader = prompt_reader_create();
    ASSERT(copy != NULL && reader != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice body = slice_of(copy, size);

    prompt_api_of(body);
    for (enum prompt_api api = PROMPT_OTHER; api <= PROMPT_GENERATE; api++) {
        check(reader, api, body);
    }
    prompt_reader_destroy(&reader);
    free(copy);
    return 0;
}
