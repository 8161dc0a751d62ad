// SPDX-License-Identifier: Apache-2.0

#include "cluster/mesh_wire.h"

#include "base/base.h"
#include "base/utf8.h"

static const char magic[] = "warmmesh";

enum {
    magic_size = 8,
    version_end = 12,
    router_at = 12,
    name_size_at = 20,
    hello_size_at = 22,
};

static void put_number(uint8_t *out, uint64_t number, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        out[i] = (uint8_t)(number >> (8 * i));
    }
}

static uint64_t read_number(const uint8_t *bytes, unsigned size)
{
    uint64_t number = 0;
    for (unsigned i = size; i > 0; i--) {
        number = number << 8 | bytes[i - 1];
    }
    return number;
}

bool mesh_name_is_good(struct slice name)
{
    for (size_t i = 0; i < name.size; i++) {
        if (name.bytes[i] < 0x20 || name.bytes[i] == 0x7f) {
            return false;
        }
    }
    return name.size < link_name_size && utf8_is_valid(name);
}

size_t mesh_hello_write(const struct mesh_hello *hello, uint8_t out[mesh_hello_size_max])
{
    ASSERT(hello->router != 0 && mesh_name_is_good(hello->name));
    ASSERT(hello->hello.size <= link_hello_size_max);

    memcpy(out, magic, magic_size);
    put_number(out + magic_size, mesh_version, 4);
    put_number(out + router_at, hello->router, 8);
    put_number(out + name_size_at, hello->name.size, 2);
    put_number(out + hello_size_at, hello->hello.size, 2);
    uint8_t *end = out + mesh_hello_head_size;
    if (hello->name.size > 0) {
        memcpy(end, hello->name.bytes, hello->name.size);
    }
    end += hello->name.size;
    if (hello->hello.size > 0) {
        memcpy(end, hello->hello.bytes, hello->hello.size);
    }
    return (size_t)(end - out) + hello->hello.size;
}

enum status mesh_hello_read(struct slice bytes, struct mesh_hello *out, size_t *wanted)
{
    struct mesh_hello hello = {0};

    size_t magic_part = bytes.size < magic_size ? bytes.size : magic_size;
    if (magic_part > 0 && memcmp(bytes.bytes, magic, magic_part) != 0) {
        return STATUS_MALFORMED;
    }
    if (bytes.size < version_end) {
        *wanted = version_end;
        return STATUS_AGAIN;
    }
    hello.version = (uint32_t)read_number(bytes.bytes + magic_size, 4);
    if (hello.version != mesh_version) {
        *out = hello;
        return STATUS_OK;
    }
    if (bytes.size < mesh_hello_head_size) {
        *wanted = mesh_hello_head_size;
        return STATUS_AGAIN;
    }
    hello.router = read_number(bytes.bytes + router_at, 8);
    size_t name_size = read_number(bytes.bytes + name_size_at, 2);
    size_t hello_size = read_number(bytes.bytes + hello_size_at, 2);
    if (hello.router == 0 || name_size >= link_name_size || hello_size > link_hello_size_max) {
        return STATUS_MALFORMED;
    }
    if (bytes.size < mesh_hello_head_size + name_size + hello_size) {
        *wanted = mesh_hello_head_size + name_size + hello_size;
        return STATUS_AGAIN;
    }
    hello.name = slice_of(bytes.bytes + mesh_hello_head_size, name_size);
    hello.hello = slice_of(slice_end(hello.name), hello_size);
    if (!mesh_name_is_good(hello.name)) {
        return STATUS_MALFORMED;
    }
    *out = hello;
    return STATUS_OK;
}

void mesh_frame_head_write(size_t size, uint8_t out[mesh_frame_head_size])
{
    ASSERT(size <= link_frame_size_max);
    put_number(out, size, mesh_frame_head_size);
}

enum status mesh_frame_read(struct slice bytes, struct slice *frame, size_t *used)
{
    if (bytes.size < mesh_frame_head_size) {
        return STATUS_AGAIN;
    }
    size_t size = read_number(bytes.bytes, mesh_frame_head_size);
    if (size > link_frame_size_max) {
        return STATUS_MALFORMED;
    }
    if (bytes.size - mesh_frame_head_size < size) {
        return STATUS_AGAIN;
    }
    *frame = slice_of(bytes.bytes + mesh_frame_head_size, size);
    *used = mesh_frame_head_size + size;
    return STATUS_OK;
}
