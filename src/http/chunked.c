// SPDX-License-Identifier: Apache-2.0

#include "http/chunked.h"

#include "base/base.h"

enum {
    STATE_SIZE,      // the digits of a chunk's size
    STATE_EXTENSION, // after the semicolon
    STATE_SIZE_LF,
    STATE_DATA,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_TRAILER_BEGIN, // of a line
    STATE_TRAILER_NAME,
    STATE_TRAILER_VALUE,
    STATE_TRAILER_LF,
    STATE_END_LF,
    STATE_END,
};

enum {
    // All that fit in 64 bits; callers that add to the size check for overflow.
    digits_max = 16,
    // All extensions of one chunk, or all trailers.
    line_size_max = 16384,
};

void chunked_start(struct chunked *chunked, enum chunked_keep keep)
{
    *chunked = (struct chunked){.keep = keep};
}

bool chunked_ending(const struct chunked *chunked, struct slice *out)
{
    if (chunked->state == STATE_DATA_CR) {
        *out = slice_str("\r\n");
    } else if (chunked->state == STATE_DATA_LF) {
        *out = slice_str("\n");
    } else if (chunked->state == STATE_SIZE && chunked->digits == 0) {
        *out = slice_str("");
    } else {
        return false;
    }
    return true;
}

uint64_t chunked_left(const struct chunked *chunked)
{
    return chunked->state == STATE_DATA ? chunked->left : 0;
}

static bool chunked_is_text(uint8_t byte)
{
    return byte == '\t' || (byte >= ' ' && byte != 0x7f);
}

static enum status scan_size(struct chunked *c, uint8_t byte)
{
    int value = ascii_hex_value(byte);

    if (value >= 0) {
        if (c->digits == digits_max) {
            return STATUS_MALFORMED;
        }
        c->digits++;
        c->left = c->left << 4 | (uint64_t)value;
        return STATUS_OK;
    }
    if (c->digits == 0 || (byte != '\r' && byte != ';')) {
        return STATUS_MALFORMED;
    }
    c->state = byte == ';' ? STATE_EXTENSION : STATE_SIZE_LF;
    return STATUS_OK;
}

static enum status scan_extension(struct chunked *c, uint8_t byte)
{
    if (byte == '\r') {
        c->state = STATE_SIZE_LF;
        return STATUS_OK;
    }
    if (++c->line_size > line_size_max) {
        return STATUS_TOO_LARGE;
    }
    return chunked_is_text(byte) ? STATUS_OK : STATUS_MALFORMED;
}

static enum status scan_trailer(struct chunked *c, uint8_t byte)
{
    if (++c->line_size > line_size_max) {
        return STATUS_TOO_LARGE;
    }
    switch (c->state) {
    case STATE_TRAILER_BEGIN:
        if (byte == '\r') {
            c->state = STATE_END_LF;
            return STATUS_OK;
        }
        c->state = STATE_TRAILER_NAME;
        return byte > ' ' && byte < 0x7f && byte != ':' ? STATUS_OK : STATUS_MALFORMED;
    case STATE_TRAILER_NAME:
        c->state = byte == ':' ? STATE_TRAILER_VALUE : STATE_TRAILER_NAME;
        return byte > ' ' && byte < 0x7f ? STATUS_OK : STATUS_MALFORMED;
    default:
        ASSERT(c->state == STATE_TRAILER_VALUE);
        if (byte == '\r') {
            c->state = STATE_TRAILER_LF;
            return STATUS_OK;
        }
        return chunked_is_text(byte) ? STATUS_OK : STATUS_MALFORMED;
    }
}

static enum status chunked_expect(struct chunked *c, uint8_t byte, uint8_t wanted, uint8_t next)
{
    c->state = next;
    return byte == wanted ? STATUS_OK : STATUS_MALFORMED;
}

// One byte of anything but data.
static enum status scan_byte(struct chunked *c, uint8_t byte)
{
    switch (c->state) {
    case STATE_SIZE:
        return scan_size(c, byte);
    case STATE_EXTENSION:
        return scan_extension(c, byte);
    case STATE_SIZE_LF:
        c->digits = 0;
        c->line_size = 0;
        return chunked_expect(c, byte, '\n', c->left > 0 ? STATE_DATA : STATE_TRAILER_BEGIN);
    case STATE_DATA_CR:
        return chunked_expect(c, byte, '\r', STATE_DATA_LF);
    case STATE_DATA_LF:
        return chunked_expect(c, byte, '\n', STATE_SIZE);
    case STATE_TRAILER_LF:
        return chunked_expect(c, byte, '\n', STATE_TRAILER_BEGIN);
    case STATE_END_LF:
        return chunked_expect(c, byte, '\n', STATE_END);
    default:
        return scan_trailer(c, byte);
    }
}

// Whether the byte just read in `state` (the state before it) is among what is kept.
static bool chunked_keeps(const struct chunked *c, uint8_t before)
{
    switch (c->keep) {
    case CHUNKED_KEEP_FRAMED:
        return before != STATE_EXTENSION
                   ? !(before == STATE_SIZE && c->state == STATE_EXTENSION) // the semicolon
                   : c->state == STATE_SIZE_LF;                             // the CR after it
    case CHUNKED_KEEP_DATA:
        return false;
    case CHUNKED_KEEP_DATA_AND_TRAILERS:
        return before >= STATE_TRAILER_BEGIN && before <= STATE_TRAILER_LF &&
               c->state != STATE_END_LF;
    }
    ASSERT(false);
    return false;
}

enum status chunked_scan(struct chunked *c, uint8_t *bytes, size_t size, size_t *used, size_t *kept)
{
    ASSERT(c->state != STATE_END);

    size_t in = 0;
    size_t out = 0;
    enum status status = STATUS_AGAIN;
    while (in < size && status == STATUS_AGAIN) {
        if (c->state == STATE_DATA) {
            size_t run = c->left < size - in ? (size_t)c->left : size - in;
            if (in != out) {
                memmove(bytes + out, bytes + in, run);
            }
            in += run;
            out += run;
            c->left -= run;
            c->data_size += run;
            c->state = c->left == 0 ? STATE_DATA_CR : STATE_DATA;
            continue;
        }
        uint8_t byte = bytes[in++];
        uint8_t before = c->state;
        enum status scanned = scan_byte(c, byte);
        if (scanned != STATUS_OK) {
            status = scanned;
        } else if (chunked_keeps(c, before)) {
            bytes[out++] = byte;
        }
        if (status == STATUS_AGAIN && c->state == STATE_END) {
            status = STATUS_OK;
        }
    }
    *used = in;
    *kept = out;
    return status;
}
