// SPDX-License-Identifier: Apache-2.0
//
// audit_verdict.h -- from what engines counted to what better routing could gain.
//
// Counters do not show prompts, so the wasted computation is an estimate:
//
//     wasted tokens = (achievable hit rate - measured) * tokens that were looked up
//     GPU-hours     = wasted tokens * seconds for a token * GPUs of a replica / 3600
//
// *Achievable*: a fleet of n replicas that gets its prompts at random finds about 1/n of what one
// cache would (each prefix has to be computed n times before it is everywhere), so one cache would
// have found n times as much; but no more than 80%, above which there is little to gain.  A fleet
// whose requests are not placed at random, or whose caches are too small, makes this too high; the
// user may say better.
//
// *Seconds for a token*: what the engines say their prefills took, over the tokens that these
// computed.  vLLM counts the time of each request, and requests in one batch overlap: hence no more
// than all of the time.  A model's profile takes its place when one is given.
//
// Pure.  Not known is negative everywhere.
#pragma once

#include "feed/engine_counters.h"

struct profile;

// The work of one replica in a span of time.
struct audit_replica {
    const char *name;
    const char *why; // it could not be read; NULL: it could
    bool restarted;  // its counters before that are lost
    double span_s;
    struct engine_counters done;
};

struct audit_terms {
    double achievable;           // hit rate; negative: to be guessed
    const struct profile *model; // says how long prefills take; NULL: the engines say
    double gpu_hour_price;
    double gpus_per_replica;
};

struct audit_figures {
    double requests;
    double prompt_tokens;
    double computed_tokens;
    double hit_rate;
    double first_tokens; // how many TTFT has
    double ttft_p50_s;
    double ttft_p99_s;
    bool ttft_is_beyond; // p99 is above the last bucket, which stands for it
};

struct audit_rule;

struct audit_result {
    uint32_t replica_count;
    uint32_t read_count;
    uint32_t spread_count; // that had traffic, or may have had it
    uint32_t blind_count;  // with traffic, and nothing said of hits
    double span_s;         // the mean
    struct audit_figures fleet;
    bool achievable_is_guess;
    double achievable;
    double token_s; // to compute one of a prompt
    bool token_is_capped;
    double wasted_tokens;
    double wasted_gpu_hours;
    double wasted_share; // of the time of all GPUs
    double wasted_money;
    double wasted_money_month;
    const struct audit_rule *verdict; // the first that applies
    const struct audit_rule *also;    // one that applies beside it; NULL: none
};

struct audit_rule {
    const char *name;
    const char *condition;
    const char *sentence;
    bool is_beside; // said even if another one came first
    bool (*applies)(const struct audit_result *result);
};

void audit_figures_of(const struct audit_replica *replica, struct audit_figures *out);

void audit_judge(const struct audit_replica *replicas, uint32_t replica_count,
                 const struct audit_terms *terms, struct audit_result *out);

// The rules in the order in which they are asked; NULL past the last.
const struct audit_rule *audit_rule_at(uint32_t index);
