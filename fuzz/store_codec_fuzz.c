// SPDX-License-Identifier: Apache-2.0
//
// For any bytes: replies stay within the bounds, and the pieces in which bytes come change neither
// the replies nor the outcome.

#include "base/base.h"
#include "cluster/store_codec.h"
#include "fuzz.h"

static const struct store_codec_bounds bounds = {
    .bulk_size_max = 64,
    .reply_size_max = 512,
    .node_count_max = 32,
};

struct outcome {
    enum status status;
    uint32_t reply_count;
    uint64_t sum; // of all replies
};

// Returns the nodes of the tree.
static uint32_t walk(const struct store_reply *reply, uint32_t depth, uint64_t *sum)
{
    uint32_t nodes = 1;
    struct slice text = store_reply_text(reply);

    ASSERT(depth <= store_depth_max);
    ASSERT(text.size <= bounds.bulk_size_max || store_reply_kind(reply) != STORE_REPLY_STRING);
    *sum = *sum * 31 + store_reply_kind(reply) + (uint64_t)store_reply_number(reply);
    for (size_t i = 0; i < text.size; i++) {
        *sum = *sum * 31 + text.bytes[i];
    }
    for (uint32_t i = 0; i < store_reply_count(reply); i++) {
        nodes += walk(store_reply_at(reply, i), depth + 1, sum);
    }
    return nodes;
}

static enum status take_replies(struct store_codec *codec, struct outcome *outcome)
{
    struct store_reply *reply = NULL;
    enum status status = STATUS_OK;

    while ((status = store_codec_next(codec, &reply)) == STATUS_OK) {
        ASSERT(walk(reply, 0, &outcome->sum) <= bounds.node_count_max);
        outcome->reply_count++;
        store_reply_free(&reply);
    }
    return status == STATUS_AGAIN ? STATUS_OK : status;
}

static struct outcome read_in_pieces(const uint8_t *bytes, size_t size, size_t piece)
{
    struct outcome outcome = {0};
    struct store_codec *codec = NULL;

    ASSERT(store_codec_create(&bounds, &codec) == STATUS_OK);
    for (size_t at = 0; at < size && outcome.status == STATUS_OK; at += piece) {
        size_t part = size - at < piece ? size - at : piece;
        outcome.status = store_codec_feed(codec, slice_of(bytes + at, part));
        if (outcome.status == STATUS_OK) {
            outcome.status = take_replies(codec, &outcome);
        }
    }
    store_codec_destroy(&codec);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct outcome bytewise = read_in_pieces(bytes, size, 1);
    struct outcome in_sevens = read_in_pieces(bytes, size, 7);
    struct outcome whole = read_in_pieces(bytes, size, size > 0 ? size : 1);

    // A piece is checked before any reply in it is taken, so larger pieces may end with fewer.
    ASSERT((whole.status == STATUS_OK) == (bytewise.status == STATUS_OK));
    ASSERT((in_sevens.status == STATUS_OK) == (bytewise.status == STATUS_OK));
    if (whole.status == STATUS_OK) {
        ASSERT(whole.sum == bytewise.sum && whole.reply_count == bytewise.reply_count);
        ASSERT(in_sevens.sum == bytewise.sum && in_sevens.reply_count == bytewise.reply_count);
    }
    return 0;
}
