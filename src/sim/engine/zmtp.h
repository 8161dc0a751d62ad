// SPDX-License-Identifier: Apache-2.0
//
// zmtp.h -- the wire protocol of ZeroMQ, 3.0 and 3.1 with the NULL mechanism, as a server needs it.
//
//     greeting (64 bytes) | READY | frame | frame | ...
//     frame: flags, size in 1 byte or in 8, body
//
// The reader is given bytes in any portions and says whole frames.  What peers of ours have to say is
// short, so a frame has a small limit; whoever says more, or anything else, is not worth keeping.
//
// Pure.  Slices lie in the reader until its next zmtp_reader_space.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct text;

enum {
    zmtp_greeting_size = 64,
    zmtp_frame_size_max = 1024, // of a body: a topic, the properties of READY
    zmtp_head_size_max = 9,
    zmtp_context_max = 16, // of a PING
    zmtp_reader_size = 2048,
};

enum zmtp_kind { ZMTP_NOTHING, ZMTP_GREETING, ZMTP_COMMAND, ZMTP_MESSAGE };

struct zmtp_frame {
    enum zmtp_kind kind;
    bool has_more;     // a message: this is not its last frame
    struct slice name; // of a command
    struct slice body;
};

// Starts zeroed.
struct zmtp_reader {
    uint32_t size;
    uint32_t taken;
    bool is_greeted;
    uint8_t bytes[zmtp_reader_size];
};

// Room for at least one byte, provided that zmtp_reader_next has said AGAIN; then how much was put there.
uint8_t *zmtp_reader_space(struct zmtp_reader *reader, size_t *capacity);
void zmtp_reader_filled(struct zmtp_reader *reader, size_t size);

// AGAIN: more bytes are needed.  MALFORMED or TOO_LARGE is final.
enum status zmtp_reader_next(struct zmtp_reader *reader, struct zmtp_frame *out);

// What a READY says of its sender.
struct zmtp_ready {
    struct slice socket_type; // "SUB"
    struct slice identity;
};
enum status zmtp_ready_read(const struct zmtp_frame *frame, struct zmtp_ready *out);

// What the PONG must repeat.
enum status zmtp_ping_read(const struct zmtp_frame *frame, struct slice *context);

// As a command (3.1) or as a message whose first byte says which (3.0).  False: it is neither.
struct zmtp_subscription {
    bool is_cancelled;
    struct slice topic;
};
bool zmtp_subscription_read(const struct zmtp_frame *frame, struct zmtp_subscription *out);

void zmtp_greeting_write(struct text *out);
void zmtp_ready_write(const char *socket_type, struct text *out);
void zmtp_pong_write(struct slice context, struct text *out);

// The beginning of a frame of a message; the body comes next.
void zmtp_head_write(size_t body_size, bool has_more, struct text *out);
