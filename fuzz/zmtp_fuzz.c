// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks the portions.  Whatever the bytes: frames lie within what was read and within the
// limit, whole inputs and portions give the same frames and the same end, and what is read of a frame
// lies within it.

#include "base/base.h"
#include "fuzz.h"
#include "sim/engine/zmtp.h"

#include <stdlib.h>

struct tally {
    uint64_t sum; // of all frames, in order
    uint32_t count;
    enum status end;
};

static bool is_inside(struct slice inner, struct slice outer)
{
    return inner.size == 0 ||
           (inner.bytes >= outer.bytes && inner.bytes + inner.size <= outer.bytes + outer.size);
}

static void mix(struct tally *tally, struct slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        tally->sum = (tally->sum ^ bytes.bytes[i]) * 0x100000001b3;
    }
    tally->sum = (tally->sum ^ bytes.size) * 0x100000001b3;
}

static void check_frame(const struct zmtp_reader *reader, const struct zmtp_frame *frame)
{
    struct slice all = slice_of(reader->bytes, reader->size);
    struct zmtp_subscription subscription;
    struct zmtp_ready ready;
    struct slice context;

    ASSERT(is_inside(frame->name, all) && is_inside(frame->body, all));
    ASSERT(frame->body.size + frame->name.size <= zmtp_frame_size_max);
    ASSERT(frame->kind == ZMTP_COMMAND || frame->name.size == 0);
    if (zmtp_ready_read(frame, &ready) == STATUS_OK) {
        ASSERT(is_inside(ready.socket_type, frame->body) && is_inside(ready.identity, frame->body));
    }
    if (zmtp_ping_read(frame, &context) == STATUS_OK) {
        ASSERT(is_inside(context, frame->body) && context.size <= zmtp_context_max);
    }
    if (zmtp_subscription_read(frame, &subscription)) {
        ASSERT(is_inside(subscription.topic, frame->body));
    }
}

static struct tally read_all(struct slice bytes, size_t portion)
{
    struct zmtp_reader *reader = calloc(1, sizeof(*reader));
    struct tally tally = {0};
    struct zmtp_frame frame;

    ASSERT(reader != NULL);
    for (;;) {
        while ((tally.end = zmtp_reader_next(reader, &frame)) == STATUS_OK) {
            check_frame(reader, &frame);
            tally.count++;
            tally.sum += (uint64_t)frame.kind * 2 + frame.has_more;
            mix(&tally, frame.name);
            mix(&tally, frame.body);
        }
        if (tally.end != STATUS_AGAIN || bytes.size == 0) {
            break;
        }
        size_t capacity = 0;
        uint8_t *space = zmtp_reader_space(reader, &capacity);
        size_t size = portion < bytes.size ? portion : bytes.size;
        size = size < capacity ? size : capacity;
        ASSERT(size > 0);
        memcpy(space, bytes.bytes, size);
        zmtp_reader_filled(reader, size);
        bytes = slice_of(bytes.bytes + size, bytes.size - size);
    }
    free(reader);
    return tally;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct slice input = slice_of(bytes + 1, size - 1);
    struct tally parts = read_all(input, 1 + bytes[0]);
    struct tally whole = read_all(input, SIZE_MAX);
    ASSERT(parts.sum == whole.sum && parts.count == whole.count && parts.end == whole.end);
    return 0;
}
