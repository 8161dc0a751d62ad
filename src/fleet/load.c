// SPDX-License-Identifier: Apache-2.0

#include "fleet/load.h"

#include "base/base.h"
#include "base/prefill_curve.h"

#include <math.h>

#define LOAD(field) atomic_load_explicit(field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(field, value, memory_order_relaxed)
#define ADD(field, value) atomic_fetch_add_explicit(field, value, memory_order_relaxed)
#define SUB(field, value) atomic_fetch_sub_explicit(field, value, memory_order_relaxed)

enum {
    // Fewer tokens than this take one step at any speed, so they are not a sample.
    prefill_sample_tokens = 64,
    // Tokens arrive in bunches; the time over several is steadier than between two.
    step_sample_tokens = 8,
    // More first tokens than this were held back on their way, so their time is not that of a
    // prefill.
    first_tokens_max = 8,
    // A speed that has moved by a factor of long_move rests on one sample: the next ones may move
    // it by factors of 5.2, 2.7, 1.8 and so on, which repairs a wrong one.
    samples_after_long_move = 2,
    load_stale_ms = 2000, // a speed of ours without a sample for so long
    others_max = 1 << 24, // requests
};

static const float long_move = 2;
static const float step_longest = 4.6F; // in log: a factor of a hundred

// Bound on the change between two reports: on an idle engine a few tokens are a large factor.
static const float usage_change_max = 4;

// A running quantile in log space.
struct learner {
    _Atomic float *value;
    atomic_uint *samples;
    _Atomic uint32_t *at_ms; // of the last sample
    float start;             // until there is a sample
    float expected;          // by the decision, which may trust the value no more; 0: unknown
    float quantile;          // share of the samples below the value
    float step;              // in the long run
};

// Moves the value within the range from the learned to the expected one, as near to the sample as
// it gets.  True: that was a long move, and enough for one sample.
static bool learner_reconsider(const struct learner *learner, float sample, float *value)
{
    float old = *value;
    if (!(learner->expected > 0)) {
        return false;
    }
    float low = fminf(old, learner->expected);
    float high = fmaxf(old, learner->expected);
    *value = fminf(fmaxf(sample, low), high);
    return *value > old * long_move || *value * long_move < old;
}

// A sample moves the value towards itself, by one step at most.  The first step is a factor of a
// hundred and each next one 0.6 of it in log, so that later samples repair an early outlier.  Later
// up and down steps differ, which makes it a quantile.  Two writers at once lose one sample.
static void load_learn(const struct learner *learner, float sample, uint64_t now_us)
{
    if (!(sample > 0) || !isfinite(sample)) {
        return;
    }
    unsigned count = ADD(learner->samples, 1);
    float value = LOAD(learner->value);
    float up = 2 * learner->quantile * learner->step;
    float down = 2 * (1 - learner->quantile) * learner->step;
    if (!(value > 0)) {
        value = learner->start;
        up = down = step_longest;
    } else if (learner_reconsider(learner, sample, &value)) {
        STORE(learner->samples, samples_after_long_move);
        up = down = 0;
    } else if (count < 10) {
        up = down = step_longest * powf(0.6F, (float)count);
    }
    float move = fminf(fmaxf(logf(sample / value), -down), up);
    STORE(learner->value, fminf(fmaxf(value * expf(move), 1e-6F), 1e6F));
    STORE(learner->at_ms, (uint32_t)(now_us / 1000));
}

void load_init(struct load *load)
{
    *load = (struct load){
        .reported_running = -1,
        .reported_waiting = -1,
        .reported_kv_usage = -1,
    };
}

// 1/(1 + t/2T) squared is close to an exponential where it matters, and cheaper.
static float load_fade(uint32_t age_ms, float life_ms)
{
    float fade = 1 / (1 + (float)age_ms / (2 * life_ms));
    return fade * fade;
}

float load_speed_life_ms(float arrivals_per_ms)
{
    float by_requests = arrivals_per_ms > 0 ? load_speed_requests / arrivals_per_ms : 0;
    return fmaxf(by_requests, load_speed_ms);
}

float load_trust(uint32_t age_ms, float life_ms)
{
    ASSERT(life_ms > 0);
    return age_ms > load_speed_fresh_ms ? load_fade(age_ms - load_speed_fresh_ms, life_ms) : 1;
}

// Another thread's clock may be a little ahead.
static uint32_t load_age_ms(const _Atomic uint32_t *at_ms, uint32_t now_ms)
{
    uint32_t age_ms = now_ms - LOAD(at_ms);
    return age_ms < UINT32_MAX / 2 ? age_ms : 0;
}

float load_presence(struct load *load, uint64_t now_ms)
{
    if (LOAD(&load->known_ms) == 0) {
        STORE(&load->known_ms, (uint32_t)now_ms > 0 ? (uint32_t)now_ms : 1);
    }
    return 1 - load_fade(load_age_ms(&load->known_ms, (uint32_t)now_ms), load_recent_ms);
}

static void count_recent(struct load *load, uint64_t requests, uint64_t uncached_tokens,
                         uint32_t now_ms)
{
    float fade = load_fade(load_age_ms(&load->recent_ms, now_ms), load_recent_ms);
    STORE(&load->recent_requests, LOAD(&load->recent_requests) * fade + (float)requests);
    STORE(&load->recent_tokens, LOAD(&load->recent_tokens) * fade + (float)uncached_tokens);
    STORE(&load->recent_ms, now_ms);
}

void load_begin(struct load *load, struct load_request *request, uint64_t now_us)
{
    ASSERT(!request->is_counted);
    ASSERT(request->uncached_tokens <= request->prompt_tokens);

    // The engine computes the prompts of all routers: with ours alone it would seem slow.
    int64_t ahead = ADD(&load->queued_tokens, request->uncached_tokens) +
                    (int64_t)LOAD(&load->others_queued_tokens);
    ADD(&load->requests, 1);
    count_recent(load, 1, request->uncached_tokens, (uint32_t)(now_us / 1000));
    ADD(&load->begun_requests, 1);
    ADD(&load->begun_tokens, request->uncached_tokens);
    request->ahead_tokens = (uint32_t)(ahead < UINT32_MAX ? ahead : UINT32_MAX);
    request->output_tokens = 0;
    request->sampled_tokens = 0;
    request->sent_us = now_us;
    request->first_us = 0;
    request->last_us = now_us;
    request->is_counted = true;
}

// The wait includes queues that we do not see, and is never less than the work: hence a low
// quantile.
static struct learner prefill_learner(struct load *load, float expected_ms)
{
    return (struct learner){.value = &load->prefill_ms,
                            .samples = &load->prefill_samples,
                            .at_ms = &load->prefill_at_ms,
                            .start = PREFILL_SHIPPED_TOKEN_MS,
                            .expected = expected_ms,
                            .quantile = 0.3F,
                            .step = 0.035F};
}

static struct learner step_learner(struct load *load, float expected_ms)
{
    return (struct learner){.value = &load->step_ms,
                            .samples = &load->step_samples,
                            .at_ms = &load->step_at_ms,
                            .start = PREFILL_SHIPPED_STEP_MS,
                            .expected = expected_ms,
                            .quantile = 0.5F,
                            .step = 0.025F};
}

// The curve of base/prefill_curve.h, solved for the time of one token.
static void learn_prefill(struct load *load, const struct load_request *request, uint64_t now_us)
{
    float cached = (float)(request->prompt_tokens - request->uncached_tokens);
    float work =
        (float)request->ahead_tokens + prefill_curve_work(cached, (float)request->uncached_tokens);
    if (work < prefill_sample_tokens || now_us <= request->sent_us) {
        return;
    }
    float waited_ms = (float)(now_us - request->sent_us) / 1000;
    float step_ms = LOAD(&load->step_ms);
    float sample;
    if (step_ms > 0) {
        // If the step is most of the wait, assume that prefill was a quarter.
        float square = fmaxf(waited_ms * waited_ms - step_ms * step_ms, waited_ms * waited_ms / 16);
        sample = sqrtf(square) / work;
    } else {
        sample = waited_ms / sqrtf(work * work + PREFILL_STEP_TOKENS * PREFILL_STEP_TOKENS);
    }

    ADD(&load->prefill_measured, 1);
    struct learner learner = prefill_learner(load, request->expected_prefill_ms);
    load_learn(&learner, sample, now_us);
}

static void learn_step(struct load *load, struct load_request *request, uint64_t now_us)
{
    uint32_t tokens = request->output_tokens - request->sampled_tokens;
    if (tokens < step_sample_tokens) {
        return;
    }
    struct learner learner = step_learner(load, request->expected_step_ms);
    if (now_us > request->last_us) {
        ADD(&load->step_measured, 1);
        load_learn(&learner, (float)(now_us - request->last_us) / 1000 / (float)tokens, now_us);
        request->expected_step_ms = 0; // later samples meet a speed that was just learned
    }
    request->sampled_tokens = request->output_tokens;
    request->last_us = now_us;
}

static void become_sequence(struct load *load, struct load_request *request, uint64_t now_us)
{
    request->first_us = now_us > 0 ? now_us : 1;
    request->last_us = now_us;
    SUB(&load->queued_tokens, request->uncached_tokens);
    ADD(&load->context_tokens, request->prompt_tokens);
    ADD(&load->sequences, 1);
}

void load_assume_first_token(struct load *load, struct load_request *request, uint64_t now_us)
{
    if (request->is_counted && request->first_us == 0) {
        become_sequence(load, request, now_us);
    }
}

void load_output(struct load *load, struct load_request *request, uint32_t tokens, uint64_t now_us)
{
    if (!request->is_counted) {
        return;
    }
    bool is_first = request->first_us == 0;
    if (is_first) {
        if (tokens <= first_tokens_max) {
            learn_prefill(load, request, now_us);
        }
        become_sequence(load, request, now_us);
    }
    uint32_t room = UINT32_MAX - request->output_tokens;
    uint32_t counted = tokens < room ? tokens : room;
    request->output_tokens += counted;
    ADD(&load->context_tokens, counted);
    if (is_first) {
        request->sampled_tokens = request->output_tokens;
    } else {
        learn_step(load, request, now_us);
    }
}

void load_end(struct load *load, struct load_request *request)
{
    if (!request->is_counted) {
        return;
    }
    request->is_counted = false;
    if (request->first_us == 0) {
        SUB(&load->queued_tokens, request->uncached_tokens);
    } else {
        SUB(&load->context_tokens, (int64_t)request->prompt_tokens + request->output_tokens);
        SUB(&load->sequences, 1);
    }
    SUB(&load->requests, 1);
}

struct load_speeds load_take_measured(const struct load *load, struct load_told *told)
{
    struct load_told now = {.prefill = LOAD(&load->prefill_measured),
                            .step = LOAD(&load->step_measured)};
    struct load_speeds speeds = {
        .prefill_ms = now.prefill != told->prefill ? LOAD(&load->prefill_ms) : 0,
        .step_ms = now.step != told->step ? LOAD(&load->step_ms) : 0,
    };
    *told = now;
    return speeds;
}

void load_hear_speed(struct load *load, float prefill_ms, float step_ms, uint64_t now_us)
{
    // Ours may be stale, because we avoid a backend that was slow: then the fresh one takes its
    // place.
    uint32_t now_ms = (uint32_t)(now_us / 1000);
    bool is_stale = load_age_ms(&load->prefill_at_ms, now_ms) > load_stale_ms;
    struct learner prefill = prefill_learner(load, is_stale ? prefill_ms : 0);
    is_stale = load_age_ms(&load->step_at_ms, now_ms) > load_stale_ms;
    struct learner step = step_learner(load, is_stale ? step_ms : 0);
    load_learn(&prefill, prefill_ms, now_us);
    load_learn(&step, step_ms, now_us);
}

void load_set_others(struct load *load, const struct load_others *others)
{
    // Added to ours, they are a number as well, whatever other routers say.
    STORE(&load->others_requests, others->requests < others_max ? others->requests : others_max);
    STORE(&load->others_sequences, others->sequences < others_max ? others->sequences : others_max);
    STORE(&load->others_queued_tokens, saturate_u32(others->queued_tokens));
    STORE(&load->others_context_tokens, saturate_u32(others->context_tokens));
}

void load_note_begun(struct load *load, uint64_t requests, uint64_t uncached_tokens,
                     uint64_t now_ms)
{
    count_recent(load, requests, uncached_tokens, (uint32_t)now_ms);
}

static float not_below_zero(float value)
{
    return value > 0 ? value : 0;
}

// Unreported values and NaN become -1.
static float load_reported(float value)
{
    return value >= 0 && value < 1e9F ? value : -1;
}

// Of ours and of the other routers: what the engine reports beyond that is of other clients.
static int64_t known_tokens(const struct load *load)
{
    return LOAD(&load->queued_tokens) + LOAD(&load->context_tokens) +
           LOAD(&load->others_queued_tokens) + LOAD(&load->others_context_tokens);
}

static int known_requests(const struct load *load)
{
    return LOAD(&load->requests) + (int)LOAD(&load->others_requests);
}

// A report is up to one scrape old, and the emptiest backend would get all requests until the next.
// So our own tokens that came and went since change the usage, in proportion, because prompts share
// blocks.
static float usage_now(const struct load *load)
{
    float usage = LOAD(&load->reported_kv_usage);
    float then = (float)LOAD(&load->reported_own_tokens);
    if (usage <= 0 || then < 1) {
        return usage;
    }
    float change = (float)known_tokens(load) / then;
    return fminf(usage * fminf(change, usage_change_max), 1);
}

void load_report(struct load *load, const struct load_report *report, uint64_t now_ms)
{
    STORE(&load->reported_running, load_reported(report->running));
    STORE(&load->reported_waiting, load_reported(report->waiting));
    STORE(&load->reported_kv_usage, fminf(load_reported(report->kv_usage), 1));
    STORE(&load->reported_own_requests, known_requests(load));
    STORE(&load->reported_own_tokens, known_tokens(load));
    if (report->cache_tokens >= 1 && report->cache_tokens < 1e15) {
        STORE(&load->cache_tokens, (uint64_t)report->cache_tokens);
    }
    if (report->block_tokens >= 1 && report->block_tokens < 1e9) {
        STORE(&load->block_tokens, (unsigned)report->block_tokens);
    }
    STORE(&load->reported_ms, now_ms > 0 ? now_ms : 1);
}

static void read_report(const struct load *load, uint64_t now_ms, struct load_view *out)
{
    out->foreign_requests = 0;
    out->waiting = -1;
    out->kv_usage = -1;

    uint64_t reported_ms = LOAD(&load->reported_ms);
    uint64_t age_ms = now_ms > reported_ms ? now_ms - reported_ms : 0;
    if (reported_ms == 0 || age_ms >= load_report_life_ms) {
        return;
    }
    float fade = 1 - (float)age_ms / load_report_life_ms;
    float running = LOAD(&load->reported_running);
    float waiting = LOAD(&load->reported_waiting);
    if (running >= 0) {
        float all = running + not_below_zero(waiting);
        float own = (float)LOAD(&load->reported_own_requests);
        out->foreign_requests = not_below_zero(all - own) * fade;
    }
    if (waiting >= 0) {
        out->waiting = waiting * fade;
    }
    out->kv_usage = usage_now(load);
}

// If only one of the two speeds is learned, the other follows from it.
float load_prefill_ms(const struct load *load)
{
    float prefill_ms = LOAD(&load->prefill_ms);
    float step_ms = LOAD(&load->step_ms);

    return prefill_ms > 0 ? prefill_ms
           : step_ms > 0  ? step_ms / PREFILL_STEP_TOKENS
                          : PREFILL_SHIPPED_TOKEN_MS;
}

static void read_speeds(const struct load *load, uint32_t now_ms, struct load_view *out)
{
    float step_ms = LOAD(&load->step_ms);

    out->prefill_ms = load_prefill_ms(load);
    out->prefill_age_ms = load_age_ms(&load->prefill_at_ms, now_ms);
    out->step_ms = step_ms > 0 ? step_ms : out->prefill_ms * PREFILL_STEP_TOKENS;
    out->step_age_ms = step_ms > 0 ? load_age_ms(&load->step_at_ms, now_ms) : out->prefill_age_ms;
}

// No counter is ever below zero: a request takes back only what it added before.
void load_read(const struct load *load, uint64_t now_ms, struct load_view *out)
{
    int sequences = LOAD(&load->sequences);
    int requests = LOAD(&load->requests);
    out->awaits_first_token = requests > sequences;
    out->queued_tokens = (uint64_t)LOAD(&load->queued_tokens) + LOAD(&load->others_queued_tokens);
    out->context_tokens =
        (uint64_t)LOAD(&load->context_tokens) + LOAD(&load->others_context_tokens);
    out->sequences = (uint32_t)sequences + LOAD(&load->others_sequences);
    out->requests = (uint32_t)requests + LOAD(&load->others_requests);
    float fade = load_fade(load_age_ms(&load->recent_ms, (uint32_t)now_ms), load_recent_ms);
    out->recent_requests = LOAD(&load->recent_requests) * fade;
    out->recent_tokens = LOAD(&load->recent_tokens) * fade;
    read_speeds(load, (uint32_t)now_ms, out);
    out->cache_tokens = LOAD(&load->cache_tokens);
    out->speed_is_learned = LOAD(&load->prefill_samples) > 0;
    read_report(load, now_ms, out);
}

uint32_t load_block_tokens(const struct load *load)
{
    uint32_t told = atomic_load_explicit(&load->told_block_tokens, memory_order_relaxed);
    return told > 0 ? told : atomic_load_explicit(&load->block_tokens, memory_order_relaxed);
}
