// SPDX-License-Identifier: Apache-2.0
//
// key_window.h -- compresses chains of keys by what was sent before.
//
// Keys are hashes and do not compress by themselves.  But most of a prompt repeats an earlier one,
// so sender and receiver keep the last keys that were sent in full, and a chain is written as
// pieces: copies of a range of those keys, and new keys.
//
//     window   ... s0 s1 s2 a3 a4 a5 ...               s0 is key 900,000 of all that were sent
//     chain    s0 s1 s2 b3 b4      ->  copy (900,000, 3), new (b3 b4)
//
// Keys stand for a whole prefix, so a copied key implies all before it, and a wrong copy cannot be
// mistaken for a right one.  Only new keys enter the window.  Positions count from the sender's
// first key: a receiver that has missed a frame knows which ranges it lacks, and refuses copies of
// them.
//
// Threads: one.  Memory: 8 bytes a key, and 8 more for the sender's table of places.
#pragma once

#include "replica/wire.h"

enum {
    key_window_bits_min = 10,
    key_window_bits_max = 24,
    // A chain takes at most so many bytes for its first `new_key_max` new keys and its copies.
    key_chain_new_max = 2048,
    key_chain_size_max = 8 * key_chain_new_max + 8192,
};

struct key_window {
    uint64_t *keys;   // a ring; 0: unknown
    uint32_t *places; // of the sender: where a key was sent, by its hash; NULL: a receiver's
    uint32_t bits;
    uint64_t end;   // position behind the last key
    uint64_t floor; // of the sender: nothing before it is copied
};

// False when memory is short.
bool key_window_open_sender(struct key_window *window, uint32_t bits);
bool key_window_open_receiver(struct key_window *window, uint32_t bits);
void key_window_close(struct key_window *window);

// Writes a chain; the window gets its new keys.  Takes at most key_chain_size_max bytes: a chain
// with more new keys is cut behind them.  The writer must have the room.  Returns the number of
// keys written.
uint32_t key_window_write(struct key_window *window, struct wire_writer *writer,
                          const uint64_t *keys, uint32_t key_count);

// The sender: a receiver lacks keys that were written before now.
void key_window_forget(struct key_window *window);

// Reads a chain of at most `key_max` keys.  Returns their number; *is_known false: some piece was
// copied from a range that this receiver lacks, and what stands behind it was skipped.
uint32_t key_window_read(struct key_window *window, struct wire_reader *reader, uint64_t *keys,
                         uint32_t key_max, bool *is_known);

// The receiver: the next frame was written when the sender's window ended at `position`.  False:
// that is before the end, so that this frame is a repetition.
bool key_window_skip_to(struct key_window *window, uint64_t position);

// The receiver: its keys are void, and the next frame was written at `position`.
void key_window_restart(struct key_window *window, uint64_t position);
