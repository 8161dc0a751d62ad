// SPDX-License-Identifier: Apache-2.0
//
// For any input: text that is not JSON is refused; every notice keeps to the limits, each of its
// numbers can be read, and errors have a message; reading for one owner gives a part of all
// notices, in their order; and a document in an envelope gives the same as without.  The input is
// copied to a block of its exact size, so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "json/json.h"
#include "kvevent/kv_json.h"

#include <stdlib.h>

static uint64_t sum; // of all that was read, so that nothing of it is left out

static void check_notice(const struct kv_json *reader, const struct kv_notice *notice)
{
    struct kv_json_fault fault = kv_json_fault(reader);

    ASSERT(notice->kind <= KV_NOTICE_MALFORMED && notice->tier < prefix_tier_count);
    ASSERT((fault.what == NULL || fault.event >= 0) &&
           (notice->kind != KV_NOTICE_MALFORMED || fault.what != NULL));
    ASSERT(notice->hash_count <= kv_hash_max && notice->token_count <= kv_token_max);
    ASSERT(notice->is_plain || notice->token_count == 0);
    ASSERT(notice->kind != KV_NOTICE_STORED || !notice->decides || !notice->is_plain ||
           notice->token_count == (uint64_t)notice->hash_count * notice->block_tokens);
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        sum += notice->hashes[i];
    }
    for (uint32_t i = 0; i < notice->token_count; i++) {
        sum += notice->tokens[i];
    }
    for (size_t i = 0; i < notice->adapter.size; i++) {
        sum += notice->adapter.bytes[i];
    }
    for (size_t i = 0; i < notice->salt.size; i++) {
        sum += notice->salt.bytes[i];
    }
}

// The number of notices; -1: the document is invalid.
static int64_t read_all(struct kv_json *reader, struct slice document,
                        const struct kv_json_owner *owner)
{
    struct kv_notice notice;
    int64_t count = 0;
    int64_t event = -1;
    enum status status;

    if (kv_json_begin(reader, document, owner) != STATUS_OK) {
        ASSERT(kv_json_fault(reader).what != NULL && kv_json_fault(reader).event == -1);
        ASSERT(kv_json_next(reader, &notice) == STATUS_CLOSED);
        return -1;
    }
    while ((status = kv_json_next(reader, &notice)) == STATUS_OK) {
        check_notice(reader, &notice);
        struct kv_json_fault fault = kv_json_fault(reader);
        ASSERT(fault.what == NULL || fault.event >= event);
        event = fault.what == NULL ? event : fault.event;
        count++;
    }
    ASSERT(status == STATUS_CLOSED && kv_json_next(reader, &notice) == STATUS_CLOSED);
    return count;
}

static void check_in_envelope(struct kv_json *reader, struct slice list, int64_t count)
{
    size_t size = list.size + 64;
    char *space = malloc(size);
    ASSERT(space != NULL);
    struct text text = text_over(space, size);
    text_add_str(&text, "{\"backend\":7,\"events\":");
    text_add(&text, list);
    text_add_str(&text, "}");
    // One level deeper, which may be too deep.
    int64_t enveloped = read_all(reader, text_slice(&text), NULL);
    ASSERT(enveloped == count || enveloped == -1);
    ASSERT(enveloped == -1 || kv_json_target(reader).id == 7);
    free(space);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kv_json *reader;
    uint8_t *copy = malloc(size > 0 ? size : 1);

    reader = reader == NULL ? kv_json_create() : reader;
    ASSERT(copy != NULL && reader != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice document = slice_of(copy, size);
    struct json json = json_open(document);
    bool is_json = json_close(&json) == STATUS_OK;
    int64_t all = read_all(reader, document, NULL);
    ASSERT(is_json || all == -1);
    for (uint32_t rank = 0; rank < 2; rank++) {
        int64_t some = read_all(reader, document,
                                &(struct kv_json_owner){.backend_id = 3 + rank, .rank = rank});
        ASSERT(some <= all && (some == -1) == (all == -1));
    }
    size_t at = 0;
    while (at < size &&
           (copy[at] == ' ' || copy[at] == '\t' || copy[at] == '\n' || copy[at] == '\r')) {
        at++;
    }
    if (all >= 0 && copy[at] == '[') {
        check_in_envelope(reader, document, all);
    }
    free(copy);
    return 0;
}
