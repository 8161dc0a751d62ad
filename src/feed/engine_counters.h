// SPDX-License-Identifier: Apache-2.0
//
// engine_counters.h -- the counters of an engine since its start, from its metrics page.
//
// Reads Prometheus text (vLLM, SGLang, TensorRT-LLM, llama.cpp; old and new names), the JSON list
// of steps that TensorRT-LLM serves at the same path, and SGLang's /v1/loads (engine_page.h).  The
// value of a missing name is negative, not zero.
//
// Missing values that follow from others are filled in:
//
//     asked      = prompt               if cached tokens are counted by request (SGLang)
//     prompt     = asked                if only blocks are counted (TensorRT-LLM's JSON)
//     cached     = hit rate * prompt    if the rate is since the start (TensorRT-LLM's text)
//     computed   = prompt - cached
//     requests   = first tokens         in the histogram of TTFT
//
// llama.cpp reports computed tokens and their time, and nothing about its cache.
//
// Memory: copies; keeps nothing of the page.
#pragma once

#include "base/slice.h"

enum engine_kind {
    ENGINE_UNKNOWN,
    ENGINE_VLLM,
    ENGINE_SGLANG,
    ENGINE_TENSORRT_LLM,
    ENGINE_LLAMA_CPP,
};

enum counter {
    COUNTER_REQUESTS,        // successful ones
    COUNTER_PROMPT,          // tokens of prompts, cached or not
    COUNTER_ASKED,           // of these, tokens that were looked up in the prefix cache
    COUNTER_CACHED,          // and were found there, or in a cache behind it
    COUNTER_COMPUTED,        // tokens of prompts that were computed
    COUNTER_PREFILL_SECONDS, // time spent on them
    COUNTER_COUNT,
};

// vLLM has 22 buckets and SGLang up to 35.  Further buckets are dropped, which makes the histogram
// coarser.
enum { counter_bucket_max = 64 };

struct counter_histogram {
    uint32_t bucket_count;             // 0: no histogram
    double bounds[counter_bucket_max]; // ascending; the unbounded bucket is `count`
    double counts[counter_bucket_max]; // of samples up to the bound; ascending
    double count;
};

struct engine_counters {
    enum engine_kind kind;
    bool lists_steps;              // the page lists steps, and an idle engine lists none
    double values[COUNTER_COUNT];  // negative: unknown
    double started_s;              // since 1970; negative: unknown
    struct counter_histogram ttft; // seconds
};

void engine_counters_read(struct slice page, struct engine_counters *out);

// Whether any counter is known.
bool engine_counters_has_any(const struct engine_counters *counters);

// Fills unknown values from `other`, of the same engine.
void engine_counters_complete(struct engine_counters *counters,
                              const struct engine_counters *other);

// The increase from `before` to `after`.  A counter that is new in `after` was zero, because most
// appear when they first count; not so in a list of steps.  False when counters fell, because the
// engine restarted: then *out is `after`.
bool engine_counters_since(const struct engine_counters *before,
                           const struct engine_counters *after, struct engine_counters *out);

// For people.
const char *engine_kind_name(enum engine_kind kind);
