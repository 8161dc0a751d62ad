// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/zmtp.h"

#include "base/base.h"
#include "base/text.h"

enum { MORE = 1, LONG = 2, COMMAND = 4 };

// Where things are in a greeting: signature, version, mechanism, as-server, filler.
enum { major_at = 10, mechanism_at = 12, mechanism_size = 20 };

static const uint8_t mechanism[mechanism_size] = "NULL";

_Static_assert(zmtp_reader_size >= zmtp_frame_size_max + zmtp_head_size_max, "a frame fits");

uint8_t *zmtp_reader_space(struct zmtp_reader *reader, size_t *capacity)
{
    memmove(reader->bytes, reader->bytes + reader->taken, reader->size - reader->taken);
    reader->size -= reader->taken;
    reader->taken = 0;
    ASSERT(reader->size < zmtp_reader_size);
    *capacity = zmtp_reader_size - reader->size;
    return reader->bytes + reader->size;
}

void zmtp_reader_filled(struct zmtp_reader *reader, size_t size)
{
    ASSERT(size <= zmtp_reader_size - reader->size);
    reader->size += (uint32_t)size;
}

// Whether the byte may stand there.  The eight bytes of padding may be anything: older versions had a
// length in them.
static bool greeting_allows(size_t at, uint8_t byte)
{
    if (at == 0) {
        return byte == 0xff;
    }
    if (at == 9) {
        return byte == 0x7f;
    }
    if (at == major_at) {
        return byte >= 3; // who knows a later version has to talk ours
    }
    if (at >= mechanism_at && at < mechanism_at + mechanism_size) {
        return byte == mechanism[at - mechanism_at];
    }
    return true;
}

// A stranger is found out at the first byte that is wrong, not after 64.
static enum status next_greeting(struct zmtp_reader *reader, struct slice rest,
                                 struct zmtp_frame *out)
{
    size_t size = rest.size < zmtp_greeting_size ? rest.size : zmtp_greeting_size;
    for (size_t i = 0; i < size; i++) {
        if (!greeting_allows(i, rest.bytes[i])) {
            return STATUS_MALFORMED;
        }
    }
    if (size < zmtp_greeting_size) {
        return STATUS_AGAIN;
    }
    reader->taken += zmtp_greeting_size;
    reader->is_greeted = true;
    *out = (struct zmtp_frame){.kind = ZMTP_GREETING, .body = slice_of(rest.bytes, size)};
    return STATUS_OK;
}

static uint64_t read_number(const uint8_t *bytes, uint32_t width)
{
    uint64_t number = 0;
    for (uint32_t i = 0; i < width; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

static enum status split_command(struct slice body, struct zmtp_frame *out)
{
    size_t name_size = body.size > 0 ? body.bytes[0] : 0;
    if (name_size == 0 || name_size > body.size - 1) {
        return STATUS_MALFORMED;
    }
    *out = (struct zmtp_frame){
        .kind = ZMTP_COMMAND,
        .name = slice_of(body.bytes + 1, name_size),
        .body = slice_of(body.bytes + 1 + name_size, body.size - 1 - name_size),
    };
    return STATUS_OK;
}

enum status zmtp_reader_next(struct zmtp_reader *reader, struct zmtp_frame *out)
{
    struct slice rest = slice_of(reader->bytes + reader->taken, reader->size - reader->taken);
    if (!reader->is_greeted) {
        return next_greeting(reader, rest, out);
    }
    if (rest.size == 0) {
        return STATUS_AGAIN;
    }
    uint8_t flags = rest.bytes[0];
    bool is_command = (flags & COMMAND) != 0;
    bool has_more = (flags & MORE) != 0;
    if ((flags & ~(MORE | LONG | COMMAND)) != 0 || (is_command && has_more)) {
        return STATUS_MALFORMED;
    }
    uint32_t width = (flags & LONG) != 0 ? 8 : 1;
    if (rest.size < 1 + width) {
        return STATUS_AGAIN;
    }
    uint64_t size = read_number(rest.bytes + 1, width);
    if (size > zmtp_frame_size_max) {
        return STATUS_TOO_LARGE;
    }
    if (rest.size - 1 - width < size) {
        return STATUS_AGAIN;
    }
    struct slice body = slice_of(rest.bytes + 1 + width, size);
    reader->taken += 1 + width + (uint32_t)size;
    if (is_command) {
        return split_command(body, out);
    }
    *out = (struct zmtp_frame){.kind = ZMTP_MESSAGE, .has_more = has_more, .body = body};
    return STATUS_OK;
}

// Properties: the size of the name in a byte, the name, the size of the value in four, the value.
enum status zmtp_ready_read(const struct zmtp_frame *frame, struct zmtp_ready *out)
{
    struct zmtp_ready ready = {0};
    struct slice rest = frame->body;

    if (frame->kind != ZMTP_COMMAND || !slice_is(frame->name, "READY")) {
        return STATUS_MALFORMED;
    }
    while (rest.size > 0) {
        size_t name_size = rest.bytes[0];
        if (name_size == 0 || rest.size < 1 + name_size + 4) {
            return STATUS_MALFORMED;
        }
        struct slice name = slice_of(rest.bytes + 1, name_size);
        uint64_t value_size = read_number(rest.bytes + 1 + name_size, 4);
        rest = slice_of(rest.bytes + 1 + name_size + 4, rest.size - 1 - name_size - 4);
        if (value_size > rest.size) {
            return STATUS_MALFORMED;
        }
        struct slice value = slice_of(rest.bytes, value_size);
        rest = slice_of(rest.bytes + value_size, rest.size - value_size);
        if (slice_is_nocase(name, "Socket-Type")) {
            ready.socket_type = value;
        } else if (slice_is_nocase(name, "Identity")) {
            ready.identity = value;
        }
    }
    *out = ready;
    return STATUS_OK;
}

enum status zmtp_ping_read(const struct zmtp_frame *frame, struct slice *context)
{
    const size_t ttl_size = 2;
    if (frame->kind != ZMTP_COMMAND || !slice_is(frame->name, "PING") ||
        frame->body.size < ttl_size || frame->body.size > ttl_size + zmtp_context_max) {
        return STATUS_MALFORMED;
    }
    *context = slice_of(frame->body.bytes + ttl_size, frame->body.size - ttl_size);
    return STATUS_OK;
}

bool zmtp_subscription_read(const struct zmtp_frame *frame, struct zmtp_subscription *out)
{
    if (frame->kind == ZMTP_COMMAND) {
        bool is_cancelled = slice_is(frame->name, "CANCEL");
        if (!is_cancelled && !slice_is(frame->name, "SUBSCRIBE")) {
            return false;
        }
        *out = (struct zmtp_subscription){.is_cancelled = is_cancelled, .topic = frame->body};
        return true;
    }
    if (frame->kind != ZMTP_MESSAGE || frame->body.size == 0 || frame->body.bytes[0] > 1) {
        return false;
    }
    *out = (struct zmtp_subscription){
        .is_cancelled = frame->body.bytes[0] == 0,
        .topic = slice_of(frame->body.bytes + 1, frame->body.size - 1),
    };
    return true;
}

void zmtp_greeting_write(struct text *out)
{
    uint8_t greeting[zmtp_greeting_size] = {[0] = 0xff, [8] = 1, [9] = 0x7f, [10] = 3, [11] = 1};
    memcpy(greeting + mechanism_at, mechanism, mechanism_size);
    text_add(out, slice_of(greeting, sizeof(greeting)));
}

static void write_command(const char *name, struct slice body, struct text *out)
{
    size_t name_size = strlen(name);
    ASSERT(1 + name_size + body.size <= UINT8_MAX);
    uint8_t head[3] = {COMMAND, (uint8_t)(1 + name_size + body.size), (uint8_t)name_size};
    text_add(out, slice_of(head, sizeof(head)));
    text_add_str(out, name);
    text_add(out, body);
}

static void write_property(const char *name, const char *value, struct text *out)
{
    uint8_t name_size = (uint8_t)strlen(name);
    uint8_t value_size[4] = {0, 0, 0, (uint8_t)strlen(value)};
    text_add(out, slice_of(&name_size, 1));
    text_add_str(out, name);
    text_add(out, slice_of(value_size, sizeof(value_size)));
    text_add_str(out, value);
}

void zmtp_ready_write(const char *socket_type, struct text *out)
{
    uint8_t space[128];
    struct text body = text_over(space, sizeof(space));
    write_property("Socket-Type", socket_type, &body);
    if (strcmp(socket_type, "ROUTER") == 0) {
        write_property("Identity", "", &body);
    }
    ASSERT(!body.overflow);
    write_command("READY", text_slice(&body), out);
}

void zmtp_pong_write(struct slice context, struct text *out)
{
    ASSERT(context.size <= zmtp_context_max);
    write_command("PONG", context, out);
}

void zmtp_head_write(size_t body_size, bool has_more, struct text *out)
{
    uint8_t head[zmtp_head_size_max] = {has_more ? MORE : 0};
    uint32_t width = body_size > UINT8_MAX ? 8 : 1;
    if (width == 8) {
        head[0] |= LONG;
    }
    for (uint32_t i = 0; i < width; i++) {
        head[1 + i] = (uint8_t)(body_size >> (8 * (width - 1 - i)));
    }
    text_add(out, slice_of(head, 1 + width));
}
