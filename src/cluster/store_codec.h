// SPDX-License-Identifier: Apache-2.0
//
// store_codec.h -- commands to bytes, and bytes to replies, as Redis and Valkey speak them (RESP2).
//
//     bytes --store_codec_feed--> bounds of this file --> hiredis --store_codec_next--> reply
//
// hiredis does the encoding and builds the trees; it does no I/O here.  It would allocate whatever
// a length says, so each length is checked before hiredis sees it: a store that lies, or that a
// third party has filled, costs at most `reply_size_max` bytes and their nodes, and then the
// connection.
//
// Threads: one owner.  Memory: the codec is taken by create; hiredis allocates each command and
// each reply, within the bounds.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct store_codec;
struct store_reply; // one node of a tree
struct text;

enum {
    store_line_size_max = 512,  // of a status, an error or a number
    store_depth_max = 7,        // hiredis ends at 7 arrays within each other
    store_word_count_max = 256, // of a command
};

struct store_codec_bounds {
    size_t bulk_size_max;    // of one string
    size_t reply_size_max;   // of one reply, as it comes
    uint32_t node_count_max; // in one reply
};

enum store_reply_kind {
    STORE_REPLY_NIL,
    STORE_REPLY_STRING,
    STORE_REPLY_STATUS,
    STORE_REPLY_NUMBER,
    STORE_REPLY_ARRAY,
    STORE_REPLY_ERROR,
};

// EXHAUSTED: no memory.
enum status store_codec_create(const struct store_codec_bounds *bounds, struct store_codec **out);

// Clears the caller's pointer, which may be NULL.
void store_codec_destroy(struct store_codec **codec);

// MALFORMED: not RESP2.  TOO_LARGE: a bound was exceeded.  EXHAUSTED: no memory.  After a failure
// the codec is of no more use.  Take all replies before the next feed.
enum status store_codec_feed(struct store_codec *codec, struct slice bytes);

// OK: the next reply, the caller's to free.  AGAIN: no whole reply is there.  Otherwise as above.
enum status store_codec_next(struct store_codec *codec, struct store_reply **out);

// Clears the caller's pointer, which may be NULL.
void store_reply_free(struct store_reply **reply);

enum store_reply_kind store_reply_kind(const struct store_reply *reply);

// Of a string, a status or an error; empty for others.  Lives as long as the reply.
struct slice store_reply_text(const struct store_reply *reply);

// Of a number; 0 for others.
int64_t store_reply_number(const struct store_reply *reply);

// Elements of an array; 0 for others.
uint32_t store_reply_count(const struct store_reply *reply);
const struct store_reply *store_reply_at(const struct store_reply *reply, uint32_t at);

// Appends a command; text->overflow if it does not fit.  EXHAUSTED: no memory.
enum status store_codec_write(const struct slice *words, uint32_t word_count, struct text *out);
