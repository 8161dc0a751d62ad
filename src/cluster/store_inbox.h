// SPDX-License-Identifier: Apache-2.0
//
// store_inbox.h -- replies with hellos and entries of streams to the events of a link.
//
//     HGETALL -> hellos  -> members -> `came`
//     XREAD   -> entries -> merged for each sender by their counters -> `frame`, `left`
//
// Each member has two streams for us: its frames to all, and its frames to us alone.  It counts its
// frames over both, and the counter is the entry's id, so their order is known.  A read that was
// cut at `count` entries of one stream leaves those of the other that come later for the next read.
//
// A value that is malformed, foreign, repeated or under another key is skipped and counted.  A
// stream with such an entry is spoiled: an id of a third party is above the sender's next ones, so
// the stream must be deleted, and read again from the sender's last own entry.
//
// Does no I/O; time is an argument.  Memory: part of its owner, but for OpenSSL's.
#pragma once

#include "cluster/store_codec.h"
#include "cluster/store_keys.h"
#include "cluster/store_members.h"

enum {
    // Of all streams in one reply, so that a reply stays within a few MiB.
    store_read_size_max = 2 << 20,
    store_read_count_max = 64, // entries of a stream in one reply
    // Fields of the hash that are looked at: twice the members.
    store_hello_count_max = 128,
    store_read_word_count_max = 6 + 2 * STORE_FEED_COUNT * link_peer_count_max,
    store_position_size_max = 48,
};

struct store_inbox_options {
    const char *cluster;              // kept
    const uint8_t *secret;            // kept; NULL: plain
    const struct link_events *events; // kept
    void *owner;                      // of the events
    uint64_t router;                  // our own
};

struct store_inbox {
    struct store_inbox_options options;
    struct store_members members;
    uint64_t skipped_count; // values that were foreign or malformed
    uint64_t heard_count;   // routers that became heard or there
    uint64_t crowded_count; // hellos of routers for which there was no room
    uint64_t taken_count;   // entries that were new, foreign ones too
    uint32_t read_count;    // entries of a stream asked for by the last read
    const struct store_reply *entries[store_member_count_max][STORE_FEED_COUNT]; // within a call
    uint8_t plain[store_envelope_size_max];
    char word_space[STORE_FEED_COUNT * link_peer_count_max *
                    (store_key_size_max + store_position_size_max)];
};

void store_inbox_init(struct store_inbox *inbox, const struct store_inbox_options *options);
void store_inbox_fini(struct store_inbox *inbox);

// The reply to HGETALL.  `*is_newly_heard`: a hello of ours should follow soon.  MALFORMED: it is
// not a list of names and values.
enum status store_inbox_take_hellos(struct store_inbox *inbox, const struct store_reply *reply,
                                    uint64_t now_ms, bool *is_newly_heard);

// The words of XREAD for all streams of routers that are there; they live until the next call.  0:
// none is there.
uint32_t store_inbox_write_read(struct store_inbox *inbox, uint32_t block_ms,
                                struct slice words[store_read_word_count_max]);

// The reply to the last XREAD: entries, or nil.  MALFORMED: it has another form.
enum status store_inbox_take_entries(struct store_inbox *inbox, const struct store_reply *reply,
                                     uint64_t now_ms);

// Announces the departure of all that are silent.
void store_inbox_expire(struct store_inbox *inbox, uint64_t now_ms);

// A stream to be deleted, each only once; false: none.  `to` 0: to all.
bool store_inbox_spoiled(struct store_inbox *inbox, uint64_t *from, uint64_t *to);

// Counts all streams that are read as spoiled: one of them is not what it should be.
void store_inbox_spoil_all(struct store_inbox *inbox);
