// SPDX-License-Identifier: Apache-2.0
//
// saturation -- how much of a workload a fleet can do.

#include "base/base.h"
#include "sim/lab.h"

#include <math.h>

// At this much more than it can do a fleet is saturated and not yet absurd.
static const double overload = 1.1;

enum { rounds_max = 12 };

// Different in kind, so that one of them is near the best on any workload.
static const char *const judges[] = {"warm", "lmetric", "smetric"};

// What is completed per second while requests still come.
static bool throughput(const struct lab_options *options, const char *policy, double rate,
                       double *out, char error[lab_error_size])
{
    struct lab_options run = *options;
    struct lab_result result;

    run.policy = policy_find(policy);
    run.workload.rate = rate;
    if (!lab_run(&run, &result, error)) {
        return false;
    }
    *out = result.completed_per_s;
    return true;
}

static bool best_throughput(const struct lab_options *options, double rate, double *out,
                            char error[lab_error_size])
{
    *out = 0;
    for (size_t i = 0; i < ARRAY_COUNT(judges); i++) {
        double completed;
        if (!throughput(options, judges[i], rate, &completed, error)) {
            return false;
        }
        *out = completed > *out ? completed : *out;
        if (*out > rate * 0.98) {
            break; // nobody completes more than is offered
        }
    }
    return true;
}

// A rate to begin with: a prompt of the workload, half of it cached, and its share of a full batch.
static double guess(const struct lab_options *options)
{
    struct workload_options sample = options->workload;
    char error[workload_error_size];
    double prompt = 1;
    double output = 1;
    double count = 1;

    sample.requests = 200;
    sample.rate = 1;
    struct workload *workload = workload_create(&sample, error);
    uint64_t at_us;
    while (workload != NULL && workload_peek(workload, &at_us)) {
        struct work_item item;
        workload_take(workload, &item);
        prompt += item.prompt_tokens;
        output += item.output_tokens;
        count++;
        workload_done(workload, &item, at_us);
    }
    workload_destroy(&workload);

    const struct profile *profile = options->profile;
    double tokens = prompt / count;
    double answer = output / count;
    double batch = (double)profile->kv_tokens / (tokens + answer);
    batch = batch < profile->sequences_max ? batch : profile->sequences_max;
    double prefill_ms =
        step_prefill_ms(&profile->step, 0, (uint32_t)(tokens / 2) + 1, profile->step_tokens);
    double decode_ms = answer * (profile->step.floor_ms / batch + profile->step.token_ms +
                                 profile->step.context_ms * tokens);
    return 1000.0 * options->backend_count / (prefill_ms + decode_ms);
}

bool lab_saturation(const struct lab_options *options, double *rate, char error[lab_error_size])
{
    double low = 0;         // can be done
    double high = INFINITY; // cannot
    double try = guess(options);

    for (int i = 0; i < rounds_max && high > low * 1.03; i++) {
        double completed;
        if (!best_throughput(options, try * overload, &completed, error)) {
            return false;
        }
        if (completed >= try) {
            low = try;
            try = isinf(high) ? try * 1.4 : (low + high) / 2;
        } else {
            high = try;
            // What it did complete is near the truth, but for what the queues do to the caches.
            try = completed > low ? completed : (low + high) / 2;
        }
    }
    *rate = low > 0 ? low : try;
    return true;
}
