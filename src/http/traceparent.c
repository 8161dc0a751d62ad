// SPDX-License-Identifier: Apache-2.0

#include "http/traceparent.h"

#include "base/base.h"
#include "base/text.h"
#include "http/head.h"

enum {
    version_at = 0,
    trace_at = 3,
    parent_at = 36,
    flags_at = 53,
    version_never = 0xff,
};

// Lower case only: peers that compare bytes would take another case for another id.
static bool traceparent_read_hex(const uint8_t *digits, size_t count, uint64_t *out)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        int value = digits[i] == ascii_lower(digits[i]) ? ascii_hex_value(digits[i]) : -1;
        if (value < 0) {
            return false;
        }
        number = number << 4 | (uint64_t)value;
    }
    *out = number;
    return true;
}

static void write_hex(struct text *out, uint64_t number, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t space[16];
    ASSERT(count <= sizeof(space));
    for (size_t i = 0; i < count; i++) {
        space[i] = (uint8_t)digits[number >> 4 * (count - 1 - i) & 15];
    }
    text_add(out, slice_of(space, count));
}

// Version 00 ends with the flags.  Later ones may go on, behind a dash.
static bool has_its_length(struct slice value, uint64_t version)
{
    if (version == version_never || value.size == traceparent_size) {
        return version != version_never;
    }
    return version > 0 && value.bytes[traceparent_size] == '-';
}

bool traceparent_parse(struct slice value, struct traceparent *out)
{
    struct traceparent parts;
    uint64_t version;
    uint64_t flags;
    const uint8_t *at = value.bytes;

    if (value.size < traceparent_size || at[trace_at - 1] != '-' || at[parent_at - 1] != '-' ||
        at[flags_at - 1] != '-') {
        return false;
    }
    if (!traceparent_read_hex(at + version_at, 2, &version) ||
        !traceparent_read_hex(at + trace_at, 16, &parts.trace[0]) ||
        !traceparent_read_hex(at + trace_at + 16, 16, &parts.trace[1]) ||
        !traceparent_read_hex(at + parent_at, 16, &parts.parent) ||
        !traceparent_read_hex(at + flags_at, 2, &flags)) {
        return false;
    }
    if (!has_its_length(value, version) || (parts.trace[0] == 0 && parts.trace[1] == 0) ||
        parts.parent == 0) {
        return false;
    }
    // Of a later version only this one is sure to mean the same.
    uint8_t known = version == 0 ? TRACEPARENT_SAMPLED | TRACEPARENT_RANDOM : TRACEPARENT_SAMPLED;
    parts.flags = (uint8_t)flags & known;
    *out = parts;
    return true;
}

bool traceparent_find(const struct http_head *head, struct traceparent *out)
{
    const struct http_field *found = NULL;
    for (uint32_t i = 0; i < head->field_count; i++) {
        if (head->fields[i].name != HTTP_NAME_TRACEPARENT) {
            continue;
        }
        if (found != NULL) {
            return false;
        }
        found = &head->fields[i];
    }
    return found != NULL && traceparent_parse(http_field_value(head, found), out);
}

void traceparent_write(const struct traceparent *traceparent, struct text *out)
{
    text_add_str(out, "00-");
    write_hex(out, traceparent->trace[0], 16);
    write_hex(out, traceparent->trace[1], 16);
    text_add_str(out, "-");
    write_hex(out, traceparent->parent, 16);
    text_add_str(out, "-");
    write_hex(out, traceparent->flags, 2);
}
