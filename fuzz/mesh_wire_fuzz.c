// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks hello or frames.  For any input: a reader that gets only as many bytes as it
// asked for ends as one that has them all, a good hello is written as it was read, and frames lie
// one behind the other within the input.

#include "base/base.h"
#include "cluster/mesh_wire.h"
#include "fuzz.h"

static void try_hello(struct slice bytes)
{
    uint8_t again[mesh_hello_size_max];
    struct mesh_hello whole = {0};
    struct mesh_hello parts = {0};
    size_t whole_wanted = 0;
    size_t have = 0;
    size_t wanted = 0;
    enum status verdict = mesh_hello_read(bytes, &whole, &whole_wanted);
    enum status status = mesh_hello_read(slice_of(bytes.bytes, 0), &parts, &wanted);

    while (status == STATUS_AGAIN && wanted <= bytes.size) {
        ASSERT(wanted > have && wanted <= mesh_hello_size_max);
        have = wanted;
        status = mesh_hello_read(slice_of(bytes.bytes, have), &parts, &wanted);
    }
    // The magic is judged by the bytes that are there.
    ASSERT(status == verdict || (status == STATUS_AGAIN && verdict == STATUS_MALFORMED));
    ASSERT(status != STATUS_AGAIN || (wanted > bytes.size && wanted <= mesh_hello_size_max));
    if (status == STATUS_OK) {
        ASSERT(parts.version == whole.version && parts.router == whole.router);
        ASSERT(slice_equal(parts.name, whole.name) && slice_equal(parts.hello, whole.hello));
    }
    if (status == STATUS_OK && whole.version == mesh_version) {
        size_t size = mesh_hello_write(&whole, again);
        ASSERT(size == have && memcmp(again, bytes.bytes, size) == 0);
    }
}

static struct slice take_frame(struct slice bytes, struct slice frame, size_t used)
{
    ASSERT(frame.size <= link_frame_size_max && used <= bytes.size);
    ASSERT(used == mesh_frame_head_size + frame.size);
    ASSERT(frame.bytes == bytes.bytes + mesh_frame_head_size);
    return slice_of(bytes.bytes + used, bytes.size - used);
}

static void try_frames(struct slice bytes)
{
    struct slice frame = {0};
    size_t used = 0;
    enum status status = mesh_frame_read(bytes, &frame, &used);

    while (status == STATUS_OK) {
        bytes = take_frame(bytes, frame, used);
        status = mesh_frame_read(bytes, &frame, &used);
    }
    ASSERT(status == STATUS_MALFORMED || bytes.size < mesh_frame_head_size + link_frame_size_max);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct slice rest = slice_of(bytes + 1, size - 1);
    if (bytes[0] % 2 == 0) {
        try_hello(rest);
    } else {
        try_frames(rest);
    }
    return 0;
}
