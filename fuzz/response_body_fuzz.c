// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks the API, and event or body.  For any input: invalid JSON has no effect and
// leaves the chain alone; the result of an event does not depend on a chain; and the event that may
// be cut out of a stream has no output.  The input is copied to a block of its exact size, so that
// a sanitizer catches a read of one byte too many.

#include "api/response_body.h"
#include "base/base.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

static struct response_event read_answer(uint8_t choice, struct slice text,
                                         struct prefix_chain *chain)
{
    enum prompt_api api = (enum prompt_api)(choice / 2 % (PROMPT_GENERATE + 1));
    struct response_event event;

    memset(&event, 0, sizeof(event));
    if (choice % 2 == 0) {
        response_read_event(api, text, chain, &event);
    } else {
        response_read_body(api, text, chain, &event);
    }
    return event;
}

static bool same_usage(const struct response_usage *a, const struct response_usage *b)
{
    return a->has_prompt_tokens == b->has_prompt_tokens &&
           a->has_cached_tokens == b->has_cached_tokens && a->prompt_tokens == b->prompt_tokens &&
           a->cached_tokens == b->cached_tokens && a->completion_tokens == b->completion_tokens;
}

static bool same_event(const struct response_event *a, const struct response_event *b)
{
    return a->has_output == b->has_output && a->is_usage_only == b->is_usage_only &&
           a->is_error == b->is_error && a->is_last == b->is_last &&
           same_usage(&a->usage, &b->usage);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1) {
        return 0;
    }
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1);
    ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    struct slice text = slice_of(copy, size - 1);

    uint64_t keys[16];
    struct prefix_chain chain;
    prefix_chain_begin(&chain, 7, 64, keys, ARRAY_COUNT(keys));
    struct response_event event = read_answer(bytes[0], text, &chain);
    struct response_event unheard = read_answer(bytes[0], text, NULL);
    struct response_event nothing = {0};

    struct json json = json_open(text);
    bool is_done = bytes[0] % 2 == 0 && slice_is(text, "[DONE]");
    ASSERT(event.is_last || !is_done);
    if (json_close(&json) != STATUS_OK && !is_done) {
        ASSERT(same_event(&event, &nothing) && chain.size == 0);
    }
    ASSERT(same_event(&event, &unheard));
    ASSERT(!event.is_usage_only || !event.has_output);
    ASSERT(event.usage.has_cached_tokens || event.usage.cached_tokens == 0);
    ASSERT(event.usage.has_prompt_tokens || event.usage.prompt_tokens == 0);
    free(copy);
    return 0;
}
