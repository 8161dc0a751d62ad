// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_envelope.h"

#include "base/base.h"
#include "base/text.h"

_Static_assert((int)link_secret_size == (int)seal_secret_size, "the cluster's secret makes keys");

enum {
    FORM_PLAIN = 1,
    FORM_SEALED = 2,
    about_size = store_envelope_head_size + 16, // authenticated, beside the body
};

static void put_u64(uint8_t *out, uint64_t number)
{
    for (int i = 7; i >= 0; i--) {
        out[i] = (uint8_t)number;
        number >>= 8;
    }
}

static uint64_t take_u64(const uint8_t *bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

enum status store_envelope_key(const uint8_t secret[link_secret_size], const char *cluster,
                               uint64_t from, struct seal **out)
{
    uint8_t space[128];
    uint8_t router[8];
    struct text label = text_over(space, sizeof(space));

    ASSERT(strlen(cluster) <= store_cluster_size_max);
    put_u64(router, from);
    text_add_str(&label, "warmpath store 1 ");
    text_add_str(&label, cluster);
    text_add(&label, slice_of(router, sizeof(router))); // of fixed size: no two labels are equal
    ASSERT(!label.overflow);
    return seal_create(secret, text_slice(&label), out);
}

static void write_about(const uint8_t *head, const struct store_envelope *envelope,
                        uint8_t out[about_size])
{
    memcpy(out, head, store_envelope_head_size);
    put_u64(out + store_envelope_head_size, envelope->from);
    put_u64(out + store_envelope_head_size + 8, envelope->to);
}

size_t store_envelope_write(const struct store_envelope *envelope, struct seal *seal, uint8_t *out)
{
    uint8_t about[about_size];
    uint8_t *body = out + store_envelope_head_size;

    ASSERT(envelope->body.size <= link_frame_size_max && envelope->counter != 0);
    out[0] = seal != NULL ? FORM_SEALED : FORM_PLAIN;
    out[1] = (uint8_t)envelope->kind;
    put_u64(out + 2, envelope->counter);
    if (seal == NULL) {
        if (envelope->body.size > 0) {
            memcpy(body, envelope->body.bytes, envelope->body.size);
        }
        return store_envelope_head_size + envelope->body.size;
    }
    write_about(out, envelope, about);
    if (seal_lock(seal, envelope->counter, slice_of(about, sizeof(about)), envelope->body, body) !=
        STATUS_OK) {
        return 0;
    }
    return store_envelope_extra_size + envelope->body.size;
}

bool store_envelope_read(struct slice bytes, struct seal *seal, uint8_t *space,
                         struct store_envelope *out)
{
    uint8_t about[about_size];

    if (bytes.size < store_envelope_head_size || bytes.size > store_envelope_size_max ||
        bytes.bytes[0] != (seal != NULL ? FORM_SEALED : FORM_PLAIN) ||
        bytes.bytes[1] < STORE_HELLO || bytes.bytes[1] > STORE_PROBE) {
        return false;
    }
    struct slice body =
        slice_of(bytes.bytes + store_envelope_head_size, bytes.size - store_envelope_head_size);
    uint64_t counter = take_u64(bytes.bytes + 2);
    if (counter == 0) {
        return false;
    }
    if (seal != NULL) {
        write_about(bytes.bytes, out, about);
        if (seal_unlock(seal, counter, slice_of(about, sizeof(about)), body, space) != STATUS_OK) {
            return false;
        }
        body = slice_of(space, body.size - seal_tag_size);
    }
    if (body.size > link_frame_size_max) {
        return false;
    }
    out->kind = bytes.bytes[1];
    out->counter = counter;
    out->body = body;
    return true;
}

size_t store_hello_write(const struct store_hello *hello, uint8_t *out)
{
    size_t name_size = strlen(hello->name);
    size_t at = 0;

    ASSERT(name_size < link_name_size && hello->hello.size <= link_hello_size_max);
    ASSERT(hello->seen_count <= link_peer_count_max);
    out[at++] = (uint8_t)name_size;
    memcpy(out + at, hello->name, name_size);
    at += name_size;
    out[at++] = (uint8_t)(hello->hello.size >> 8);
    out[at++] = (uint8_t)hello->hello.size;
    if (hello->hello.size > 0) {
        memcpy(out + at, hello->hello.bytes, hello->hello.size);
    }
    at += hello->hello.size;
    out[at++] = (uint8_t)hello->seen_count;
    for (uint32_t i = 0; i < hello->seen_count; i++, at += 8) {
        put_u64(out + at, hello->seen[i]);
    }
    return at;
}

// The next `size` bytes; false: fewer are left.
static bool hello_take(struct slice *rest, size_t size, const uint8_t **out)
{
    if (rest->size < size) {
        return false;
    }
    *out = rest->bytes;
    *rest = slice_of(rest->bytes + size, rest->size - size);
    return true;
}

bool store_hello_read(struct slice bytes, struct store_hello *out)
{
    struct store_hello hello = {0};
    struct slice rest = bytes;
    const uint8_t *size = NULL;
    const uint8_t *part = NULL;

    if (!hello_take(&rest, 1, &size) || size[0] >= link_name_size ||
        !hello_take(&rest, size[0], &part)) {
        return false;
    }
    for (uint8_t i = 0; i < size[0]; i++) {
        hello.name[i] = (char)(part[i] >= ' ' && part[i] < 0x7f ? part[i] : '?');
    }
    if (!hello_take(&rest, 2, &size)) {
        return false;
    }
    size_t hello_size = (size_t)size[0] << 8 | size[1];
    if (hello_size > link_hello_size_max || !hello_take(&rest, hello_size, &part)) {
        return false;
    }
    hello.hello = slice_of(part, hello_size);
    if (!hello_take(&rest, 1, &size) || size[0] > link_peer_count_max ||
        rest.size != (size_t)size[0] * 8) {
        return false;
    }
    hello.seen_count = size[0];
    for (uint32_t i = 0; i < hello.seen_count; i++) {
        hello.seen[i] = take_u64(rest.bytes + (size_t)i * 8);
    }
    *out = hello;
    return true;
}
