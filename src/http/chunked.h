// SPDX-License-Identifier: Apache-2.0
//
// chunked.h -- finds the end of a chunked body, in place and as the bytes arrive.
//
//     5;ext=1 CRLF  hello CRLF  0 CRLF  trailer: x CRLF  CRLF
//     ^size ^ext    ^data       ^last   ^trailers        ^end
//
// The bytes to keep are compacted to the front of the same memory, in one of three ways: with their
// framing (for HTTP/1.1; chunk extensions are dropped, as a proxy may, which stops smuggling), as
// data alone (for HTTP/1.0), or as data followed by the trailer lines (to be held and framed anew).
// The grammar is strict: hexadecimal digits, CRLF, nothing else.
//
// Threads: one owner.  Memory: none of its own.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum chunked_keep { CHUNKED_KEEP_FRAMED, CHUNKED_KEEP_DATA, CHUNKED_KEEP_DATA_AND_TRAILERS };

struct chunked {
    uint8_t state;
    uint8_t digits; // of the chunk size read so far
    enum chunked_keep keep;
    uint32_t line_size; // bytes of extensions or trailers seen, which are bounded
    uint64_t left;      // of the present chunk's data
    uint64_t data_size; // of all chunks so far
};

void chunked_start(struct chunked *chunked, enum chunked_keep keep);

// Reads bytes[0 .. size).  Afterwards *used bytes were read and bytes[0 .. *kept) are kept; unused
// bytes stay where they are.  OK: the body has ended; the unused bytes belong to the next message.
// AGAIN: all bytes were used and more must come.  MALFORMED: not a chunked body.  TOO_LARGE: its
// extensions or trailers have no end.
enum status chunked_scan(struct chunked *chunked, uint8_t *bytes, size_t size, size_t *used,
                         size_t *kept);

// The bytes that complete the present chunk when all its data is there: "\r\n", "\n" or nothing.
// False inside a size line, data or trailers.
bool chunked_ending(const struct chunked *chunked, struct slice *out);

// Bytes of data that the present chunk still announces; 0 outside of a chunk's data.
uint64_t chunked_left(const struct chunked *chunked);
