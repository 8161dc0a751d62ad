// SPDX-License-Identifier: Apache-2.0
//
// engine_counters.h -- what an engine has done since it started, as its metrics page tells it.
//
// Reads Prometheus text (vLLM, SGLang, TensorRT-LLM, llama.cpp; old and new names), the JSON list of
// steps that TensorRT-LLM serves at the same path, and SGLang's /v1/loads.  Several series of one name,
// as data-parallel ranks have, are added up.  A name that is missing is not zero: its value is negative.
//
// What an engine does not say but what follows from what it says is filled in:
//
//     asked      = prompt               of who counts cached tokens by request (SGLang)
//     prompt     = asked                of who counts blocks alone (TensorRT-LLM's JSON)
//     cached     = hit rate * prompt    where the rate is one since the start (TensorRT-LLM's text)
//     computed   = prompt - cached
//     requests   = first tokens         in the histogram of TTFT
//
// llama.cpp says what it computed and how long that took, and nothing of what it found in its cache.
//
// Any bytes may come: what is no counter is passed over.  Memory: copies; keeps nothing of the page.
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
    COUNTER_REQUESTS,        // that ended well
    COUNTER_PROMPT,          // tokens of prompts, cached or not
    COUNTER_ASKED,           // of these, tokens that were looked up in the prefix cache
    COUNTER_CACHED,          // and were found there, or in a cache behind it
    COUNTER_COMPUTED,        // tokens of prompts that were computed
    COUNTER_PREFILL_SECONDS, // that took
    COUNTER_COUNT,
};

// vLLM has 22 buckets and SGLang up to 35.  What is beyond the limit only makes the histogram coarser.
enum { counter_bucket_max = 64 };

struct counter_histogram {
    uint32_t bucket_count;             // 0: there is none
    double bounds[counter_bucket_max]; // ascending; the one without end is `count`
    double counts[counter_bucket_max]; // at most the bound; never falls
    double count;
};

struct engine_counters {
    enum engine_kind kind;
    bool lists_steps;              // and an engine that has nothing to do lists none
    double values[COUNTER_COUNT];  // negative: not said
    double started_s;              // since 1970; negative: not said
    struct counter_histogram ttft; // seconds
};

void engine_counters_read(struct slice page, struct engine_counters *out);

// Whether it says anything of prompts.
bool engine_counters_has_any(const struct engine_counters *counters);

// Takes from `other`, of the same engine, what is missing.
void engine_counters_complete(struct engine_counters *counters,
                              const struct engine_counters *other);

// What was done from `before` to `after`.  A counter that was not there before was zero: most appear when
// they first count; only a list of steps proves nothing by what it lacks.  False when the engine has
// started anew in between, as falling counters show: then *out is what it did since.
bool engine_counters_since(const struct engine_counters *before,
                           const struct engine_counters *after, struct engine_counters *out);

// For people.
const char *engine_kind_name(enum engine_kind kind);
