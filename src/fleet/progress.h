// SPDX-License-Identifier: Apache-2.0
//
// progress.h -- whether a backend still makes progress on the requests that it has.
//
// An engine that hangs keeps its connections and passes its probes.  Its requests produce neither a
// token nor an end, and each one takes new requests' place in no queue that we see.  So the time
// since its last output counts, by its own usual pace.  A first token shows only that prefill
// works: while streams have begun, the clock is that of outputs that follow an earlier one, and of
// ends.  Engines that schedule prefills first pause their streams meanwhile: each first token
// excuses the time that its prefill may have taken: since the output before it, but not since
// before its request was sent; up to the configured time in all.
//
//     streams in flight    8 times its longest gap between two outputs of late, at least 2 s if
//                          one of them has begun, else at least the configured time
//     whole responses      4 times its longest response of late, at least the configured time
//     nothing known        the configured time
//
// and in each case 4 times what the prompts in its queue are expected to take.
//
// A stalled backend is taken out until it makes progress.  When none of its requests is left, it
// gets one at a time.
//
// Threads: workers note progress, the keeper judges; each word is independent.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct progress {
    _Alignas(64) atomic_uint_fast64_t moved_ms; // the last output, or the first request since idle
    atomic_uint_fast64_t went_on_ms; // the last one but first outputs, or the first stream to begin
    _Atomic float excused_ms;        // since then, by first outputs
    atomic_uint requests;            // in flight, those that should get output
    atomic_uint streams;             // of them; other responses come as a whole
    atomic_uint begun;               // streams past their first output
    _Atomic float gap_ms;            // longest of late between two outputs; 0: unknown
    _Atomic float whole_ms;          // longest of late from request to whole response
};

struct progress_request {
    bool is_streamed;
    bool has_begun; // a stream whose first output has come
};

// A request goes to the backend, or its client reads again.
void progress_begin(struct progress *progress, struct progress_request request, uint64_t now_ms);
void progress_end(struct progress *progress, struct progress_request request);

// The first output of a stream has come, to a request that was sent then; it has begun.
void progress_first(struct progress *progress, uint64_t sent_ms, uint64_t now_ms);

// More output of a stream has come, or its end.
void progress_output(struct progress *progress, uint64_t now_ms);

// A whole response with output has come, to a request that was sent then.
void progress_whole(struct progress *progress, uint64_t sent_ms, uint64_t now_ms);

uint32_t progress_requests(const struct progress *progress);

// Since when the backend owes output: its last one, or its first request since it was idle.
uint64_t progress_moved_ms(const struct progress *progress);

struct progress_limits {
    uint32_t configured_ms; // 0: never stalled
    float queue_ms;         // that the prompts in its queue are expected to take
};

// How long no output has come, if that is too long and requests are in flight; else 0.
uint64_t progress_stalled_ms(const struct progress *progress, const struct progress_limits *limits,
                             uint64_t now_ms);
