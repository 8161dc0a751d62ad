// SPDX-License-Identifier: Apache-2.0
//
// truth.h -- the accuracy of our predictions of one backend's cache hits.
//
// Each response that reports its cached tokens is one sample: the tokens that were predicted when
// the request was sent, minus the cached ones.  Above zero, too many were predicted; below, too
// few.  Samples fall into buckets on both sides of zero:
//
//     ... -48..-33  -32..-17  -16..-1   0   1..16  17..32  33..48 ... 65..80 ... 129..160 ... 1M
//
// Sixteen tokens are a block of most engines.  Every power of two from 64 on has four buckets, and
// a quantile is the far edge of its bucket: at most a quarter too far out, and never too close.
//
// Predictions of two kinds are kept apart: by live KV events, and by belief.  Each kind is counted
// since the start, and again for the recent past, so that a recovery is visible:
//
//     |--- half a minute ---|--- half a minute ---|
//              old                    new ^ now       recent: both halves, 30 to 60 seconds
//
// Threads: any, without locks.  Every counter is independent.  When a half begins anew, samples
// that other threads add at that moment may be lost to the recent past, never to the whole.
// Memory: fixed, about 4 KiB.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

enum truth_kind {
    TRUTH_BELIEVED,  // by requests sent there and their responses
    TRUTH_BY_EVENTS, // by its own live KV events
    TRUTH_KIND_COUNT,
};

enum {
    // Buckets on each side of zero; differences beyond the last bound, 1048576, count as that.
    truth_side_buckets = 60,
    truth_bucket_count = truth_side_buckets + 1 + truth_side_buckets,
    truth_half_ms = 30000,
};

struct truth_sums {
    atomic_uint_fast64_t predicted_tokens;
    atomic_uint_fast64_t actual_tokens;
    atomic_uint_fast64_t wrong_tokens; // sum of the absolute differences
};

// Half a minute.
struct truth_half {
    atomic_uint_fast64_t number; // of the half minute, from 1; 0: unused
    struct truth_sums sums;
    atomic_uint buckets[truth_bucket_count];
};

struct truth_record {
    // The last sample: predicted tokens in the high 32 bits, actual ones in the low.
    _Alignas(64) atomic_uint_fast64_t last;
    struct truth_sums sums;
    atomic_uint_fast64_t buckets[truth_bucket_count];
    struct truth_half halves[2];
};

// Zeroed it is empty.
struct truth {
    struct truth_record records[TRUTH_KIND_COUNT];
};

// A summary of samples.  Without samples all is 0.
struct truth_figures {
    uint64_t count;
    uint64_t equal; // not a token off
    uint64_t predicted_tokens;
    uint64_t actual_tokens;
    uint64_t wrong_tokens;
    double equal_share;   // 0..1
    double wrong_percent; // of the actual tokens; INFINITY if those are 0
    int32_t p1;           // of predicted minus actual
    int32_t p50;
    int32_t p99;
    uint64_t buckets[truth_bucket_count];
};

struct truth_view {
    struct truth_figures all;
    struct truth_figures recent;
    uint32_t last_predicted;
    uint32_t last_actual;
};

void truth_note(struct truth *truth, enum truth_kind kind, uint32_t predicted_tokens,
                uint32_t actual_tokens, uint64_t now_ms);

void truth_read(const struct truth *truth, enum truth_kind kind, uint64_t now_ms,
                struct truth_view *out);

// The bucket of a difference, and the difference at that bucket's far edge.
uint32_t truth_bucket(int64_t difference);
int32_t truth_bucket_edge(uint32_t bucket);
