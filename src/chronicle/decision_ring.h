// SPDX-License-Identifier: Apache-2.0
//
// decision_ring.h -- the last receipts, complete, to be listed and looked up by request id.
//
// Each change has a serial, higher than all before.  A request is noted when it is sent and again
// when it ends: the second replaces the first, under a new serial.  When all places are taken, the
// lowest serial is dropped.
//
//     newest [serial 9] <-> [serial 7] <-> [serial 4] oldest    and tables by id, by request
//
// Ids come from clients and may repeat: the latest is found.  Ids that receipts had to cut are
// compared as far as they were kept.  Clients know the hash, so they could make one lookup as slow
// as a scan of all entries; _put never walks a chain of ids.
//
// Threads: one at a time.  Memory: taken by _create, receipt_size_max for each place, touched when
// used.
#pragma once

#include "chronicle/chronicle.h"

struct decision_ring;

// NULL when memory is short.
struct decision_ring *decision_ring_create(uint32_t decision_max);
void decision_ring_destroy(struct decision_ring **ring);

// Copies the receipt with its parts.  Only the shadow values of `decision` are used.
void decision_ring_put(struct decision_ring *ring, const struct receipt *receipt,
                       const struct chronicle_decision *decision);

bool decision_ring_find(const struct decision_ring *ring, struct slice id,
                        struct chronicle_decision *out);

// Newest first, those with a serial above `since`.  Receipts are valid until the next _put.
uint32_t decision_ring_list(const struct decision_ring *ring, uint64_t since,
                            struct chronicle_decision *out, uint32_t out_max);
