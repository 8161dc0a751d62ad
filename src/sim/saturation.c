// SPDX-License-Identifier: Apache-2.0
//
// saturation -- how much of a workload a fleet can do.

#include "base/base.h"
#include "sim/lab.h"

#include <math.h>

// Offered load over capacity: enough to saturate the fleet soon, without an absurd queue.
static const double overload = 1.25;
// Larger, because the first capacity is a guess.
static const double first_overload = 2.5;
// Requests of a run over the sequences that fill all batches: leaves time to measure.
static const double fill_factor = 3;

// Larger fleets count as several of this size: the throughput of a replica hardly depends on how
// many others there are, and filling their batches takes long.
enum { replicas_max = 16 };

// Different in kind, so that one of them is near the best on any workload.
static const char *const judges[] = {"warm", "smetric", "cache_aware", "gaie"};

// Completions per second while requests still arrive.
static bool lab_throughput(const struct lab_options *options, const char *policy, double rate,
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

static bool lab_best_throughput(const struct lab_options *options, double rate, double *out,
                                char error[lab_error_size])
{
    *out = 0;
    for (size_t i = 0; i < ARRAY_COUNT(judges); i++) {
        double completed;
        if (!lab_throughput(options, judges[i], rate, &completed, error)) {
            return false;
        }
        *out = completed > *out ? completed : *out;
    }
    return true;
}

// Mean sizes of the workload's requests.
struct usual {
    double prompt_tokens;
    double output_tokens;
};

static struct usual workload_usual_sizes(const struct lab_options *options)
{
    struct workload_options sample = options->workload;
    char error[workload_error_size];
    struct usual sum = {.prompt_tokens = 1, .output_tokens = 1};
    double count = 1;
    uint64_t at_us;

    sample.requests = 200;
    sample.rate = 1;
    struct workload *workload = workload_create(&sample, error);
    while (workload != NULL && workload_peek(workload, &at_us)) {
        struct work_item item;
        workload_take(workload, &item);
        sum.prompt_tokens += item.prompt_tokens;
        sum.output_tokens += item.output_tokens;
        count++;
        workload_done(workload, &item, at_us);
    }
    workload_destroy(&workload);
    return (struct usual){sum.prompt_tokens / count, sum.output_tokens / count};
}

static double batch_of(const struct profile *profile, const struct usual *usual)
{
    double batch = (double)profile->kv_tokens / (usual->prompt_tokens + usual->output_tokens);
    return fmin(batch, profile->sequences_max);
}

// A rate to begin with: a prompt of the workload, half of it cached, and its share of a full batch.
static double saturation_guess(const struct lab_options *options, const struct usual *usual)
{
    const struct profile *profile = options->profile;
    uint32_t computed = (uint32_t)(usual->prompt_tokens / 2) + 1;
    double prefill_ms = step_prefill_ms(&profile->step, 0, computed, profile->step_tokens);
    double decode_ms = usual->output_tokens *
                       (profile->step.floor_ms / batch_of(profile, usual) + profile->step.token_ms +
                        profile->step.context_ms * usual->prompt_tokens);
    return 1000.0 * options->backend_count / (prefill_ms + decode_ms);
}

bool lab_saturation(const struct lab_options *options, double *rate, char error[lab_error_size])
{
    struct lab_options run = *options;
    struct usual usual = workload_usual_sizes(options);
    double scale = fmax(1, (double)options->backend_count / replicas_max);

    run.backend_count =
        options->backend_count < replicas_max ? options->backend_count : replicas_max;
    run.sharing = (struct lab_sharing){0};
    run.warm_up = 0.5;
    // Batches fill at the rate at which more comes than goes.
    double fill = fill_factor * batch_of(options->profile, &usual) * run.backend_count * overload /
                  (overload - 1);
    run.workload.requests = (uint32_t)fmax(options->workload.requests, fill);
    // One judge says about where, then all of them how much.
    double first;
    if (!lab_throughput(&run, judges[0], saturation_guess(&run, &usual) * first_overload, &first,
                        error) ||
        !lab_best_throughput(&run, first * overload, rate, error)) {
        return false;
    }
    *rate *= scale;
    return true;
}
