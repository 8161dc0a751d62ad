// SPDX-License-Identifier: Apache-2.0
//
// seal.h -- encrypts and authenticates short messages under a key that its users share.
//
//     secret (32 bytes) + label --HKDF-SHA256--> key
//     key + number + about + plain --AES-256-GCM--> sealed = encrypted plain, tag
//
// The label separates keys: for example by purpose, cluster and sender.  `number` becomes the
// nonce, so a sender must never seal two messages under one label with the same number: two such
// messages reveal the XOR of their plain texts, and allow forgery.  `about` is authenticated and
// not sent; the receiver must know it.  The receiver decides whether a number is acceptable: this
// file does not notice replays.
//
// Threads: a seal belongs to one thread.  Memory: taken by create, by OpenSSL.
#pragma once

#include "base/slice.h"
#include "base/status.h"

enum {
    seal_secret_size = 32,
    seal_tag_size = 16,
};

struct seal;

// A secret of that size from a text of any, for example one that people have chosen.  EXHAUSTED: no
// memory.
enum status seal_secret_of(struct slice text, uint8_t secret[seal_secret_size]);

// EXHAUSTED: no memory.
enum status seal_create(const uint8_t secret[seal_secret_size], struct slice label,
                        struct seal **out);

// Clears the caller's pointer, which may be NULL, and wipes the key.
void seal_destroy(struct seal **seal);

// Writes plain.size + seal_tag_size bytes to `out`, which must not overlap `plain`.
// EXHAUSTED: no memory.
enum status seal_lock(struct seal *seal, uint64_t number, struct slice about, struct slice plain,
                      uint8_t *out);

// Writes sealed.size - seal_tag_size bytes to `out`.  MALFORMED: the message was not sealed by
// seal_lock with this secret, label, number and `about`; then `out` holds no plain text.
enum status seal_unlock(struct seal *seal, uint64_t number, struct slice about, struct slice sealed,
                        uint8_t *out);
