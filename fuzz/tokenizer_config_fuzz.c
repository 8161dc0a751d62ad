// SPDX-License-Identifier: Apache-2.0
//
// For any input: an accepted file is a JSON object; the result owns its strings, which are UTF-8
// and no longer than the text; no token is empty; and a file written from the result reads as the
// same result.

#include "base/base.h"
#include "base/text.h"
#include "dialect/tokenizer_config.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

static void write_member(struct text *text, struct slice name, struct slice value)
{
    text_add_str(text, ",");
    text_add_json(text, name);
    text_add_str(text, ":");
    text_add_json(text, value);
}

static void write_again(const struct tokenizer_config *config, struct text *text)
{
    text_add_str(text, "{\"chat_template\":[{\"name\":\"default\"");
    write_member(text, slice_str("template"), config->template);
    text_add_str(text, "},{\"name\":\"tool_use\"");
    write_member(text, slice_str("template"), config->tool_template);
    text_add_str(text, "}],\"extra_special_tokens\":{\"\":\"\"");
    for (uint32_t i = 0; i < config->token_count; i++) {
        write_member(text, config->tokens[i].name, config->tokens[i].text);
    }
    text_add_str(text, "}}");
    ASSERT(!text->overflow);
}

static void check_same(const struct tokenizer_config *a, const struct tokenizer_config *b)
{
    ASSERT(slice_equal(a->template, b->template));
    ASSERT(slice_equal(a->tool_template, b->tool_template));
    ASSERT(b->token_count <= a->token_count); // two spellings of one name become one
    for (uint32_t i = 0; i < b->token_count; i++) {
        ASSERT(b->tokens[i].text.size > 0);
    }
}

static void check_again(const struct tokenizer_config *config, size_t size)
{
    size_t capacity = 6 * size + 64 * (size_t)tokenizer_config_token_max + 256;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text text = text_over(space, capacity);
    struct tokenizer_config again = {0};

    write_again(config, &text);
    enum status status = tokenizer_config_read(text_slice(&text), &again);
    // The name "" is one more.
    ASSERT(status == STATUS_OK ||
           (status == STATUS_TOO_LARGE && config->token_count == tokenizer_config_token_max));
    if (status == STATUS_OK) {
        check_same(config, &again);
    }
    tokenizer_config_free(&again);
    free(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    struct tokenizer_config config = {0};
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    enum status status = tokenizer_config_read(slice_of(copy, size), &config);
    free(copy);

    ASSERT((status == STATUS_OK) == (config.memory != NULL));
    if (status == STATUS_OK) {
        check_again(&config, size);
    }
    tokenizer_config_free(&config);
    return 0;
}
