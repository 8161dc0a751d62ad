// SPDX-License-Identifier: Apache-2.0
//
// traffic.h -- statistics of a pool's requests: arrival rate, decode time, output tokens.
//
// Sliding means over the last few hundred requests, shared by all workers.  A lost update under
// contention costs one sample.
//
// Threads: any.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { traffic_arrival_window = 128 };

struct traffic {
    _Alignas(64) atomic_uint_fast64_t arrival_count;
    atomic_uint_fast64_t arrivals_us[traffic_arrival_window];
    _Alignas(64) atomic_uint_fast64_t completion_count;
    _Atomic float decode_ms; // from first token to last
    _Atomic float output_tokens;
    _Atomic float prefill_ms; // of the chosen backend, as predicted
    atomic_uint_fast64_t reuse_count;
    _Atomic float scarcity;
    atomic_uint_fast64_t text_count;
    _Atomic float text_size; // of prompts whose tokens the engine counted
    _Atomic float text_tokens;
    _Atomic float others_per_ms; // arrivals at the other routers of a cluster
};

// Plain numbers for a decision.
struct traffic_view {
    float arrivals_per_ms; // 0 before the second arrival
    float decode_ms;       // 0 before 20 completions
    float output_tokens;   // 200 before 20 completions
    float prefill_ms;
    float scarcity; // -1 before 600 requests and 20 cache hits
    uint64_t completion_count;
};

void traffic_init(struct traffic *traffic);
void traffic_arrive(struct traffic *traffic, uint64_t now_us);
void traffic_routed(struct traffic *traffic, float prefill_ms);

// A prompt was a cache hit; `lasts`: it would be one even if every backend cached all that any
// backend holds.
void traffic_reused(struct traffic *traffic, bool lasts);
void traffic_complete(struct traffic *traffic, float decode_ms, uint32_t output_tokens);

// The engine's own count of a prompt of `text_size` bytes.
void traffic_learn_text(struct traffic *traffic, uint64_t text_size, uint64_t prompt_tokens);

// The expected number of tokens in a prompt of `text_size` bytes; a quarter of them before the
// first sample.
uint32_t traffic_tokens_of(const struct traffic *traffic, uint64_t text_size);

// Requests arrive at the other routers of a cluster, too, at that rate in all.
void traffic_set_others(struct traffic *traffic, float per_ms);

// The rate of arrivals at this router alone.
float traffic_own_arrivals(const struct traffic *traffic, uint64_t now_us);

void traffic_read(const struct traffic *traffic, uint64_t now_us, struct traffic_view *out);
