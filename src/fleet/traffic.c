// SPDX-License-Identifier: Apache-2.0

#include "fleet/traffic.h"

#include <math.h>

#define LOAD(field) atomic_load_explicit(field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(field, value, memory_order_relaxed)
#define ADD(field, value) atomic_fetch_add_explicit(field, value, memory_order_relaxed)

enum {
    mean_window = 256,
    completions_min = 20,
    reuses_min = 20,
    arrivals_min = 600,
};

static const float output_tokens_shipped = 200;
static const float bytes_per_token_shipped = 4;

void traffic_init(struct traffic *traffic)
{
    *traffic = (struct traffic){0};
}

void traffic_arrive(struct traffic *traffic, uint64_t now_us)
{
    uint64_t turn = ADD(&traffic->arrival_count, 1);
    STORE(&traffic->arrivals_us[turn % traffic_arrival_window], now_us);
}

// Sample number `turn`, from 0: a plain mean until the window is full, then an exponential one.
static void traffic_blend(_Atomic float *mean, float sample, uint64_t turn)
{
    if (!(sample >= 0) || !isfinite(sample)) {
        return;
    }
    float size = turn < mean_window ? (float)(turn + 1) : mean_window;
    float old = LOAD(mean);
    STORE(mean, old + (sample - old) / size);
}

void traffic_routed(struct traffic *traffic, float prefill_ms)
{
    // Each request arrives before it is routed, so that arrivals count the samples well enough.
    uint64_t arrivals = LOAD(&traffic->arrival_count);
    uint64_t turn = arrivals > 0 ? arrivals - 1 : 0;
    traffic_blend(&traffic->prefill_ms, prefill_ms, turn);
}

void traffic_reused(struct traffic *traffic, bool lasts)
{
    uint64_t turn = ADD(&traffic->reuse_count, 1);
    traffic_blend(&traffic->scarcity, lasts ? 0 : 1, turn);
}

void traffic_complete(struct traffic *traffic, float decode_ms, uint32_t output_tokens)
{
    uint64_t turn = ADD(&traffic->completion_count, 1);
    traffic_blend(&traffic->decode_ms, decode_ms, turn);
    traffic_blend(&traffic->output_tokens, (float)output_tokens, turn);
}

void traffic_learn_text(struct traffic *traffic, uint64_t text_size, uint64_t prompt_tokens)
{
    // Short prompts are mostly tokens of the template.  Text does not have tokens of hundreds of
    // bytes.  With more tokens than bytes, most tokens are of an image whose URL we counted.
    if (prompt_tokens < 16 || text_size < prompt_tokens || text_size / prompt_tokens >= 64) {
        return;
    }
    uint64_t turn = ADD(&traffic->text_count, 1);
    traffic_blend(&traffic->text_size, (float)text_size, turn);
    traffic_blend(&traffic->text_tokens, (float)prompt_tokens, turn);
}

uint32_t traffic_tokens_of(const struct traffic *traffic, uint64_t text_size)
{
    float size = LOAD(&traffic->text_size);
    float tokens = LOAD(&traffic->text_tokens);
    float bytes = size > 0 && tokens > 0 ? size / tokens : bytes_per_token_shipped;
    double count = ceil((double)text_size / (double)bytes);
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

// The arrivals in the ring after the oldest one, over the time since that one, so the rate falls
// while no request arrives.
float traffic_own_arrivals(const struct traffic *traffic, uint64_t now_us)
{
    uint64_t count = LOAD(&traffic->arrival_count);
    if (count < 2) {
        return 0;
    }
    uint64_t kept = count < traffic_arrival_window ? count : traffic_arrival_window;
    uint64_t oldest_us = LOAD(&traffic->arrivals_us[(count - kept) % traffic_arrival_window]);
    uint64_t span_us = now_us > oldest_us ? now_us - oldest_us : 0;
    // Workers read the clock once a turn: under a millisecond the span is mostly chance.
    float span_ms = fmaxf((float)span_us / 1000, 1);
    return (float)(kept - 1) / span_ms;
}

void traffic_set_others(struct traffic *traffic, float per_ms)
{
    STORE(&traffic->others_per_ms, per_ms);
}

void traffic_read(const struct traffic *traffic, uint64_t now_us, struct traffic_view *out)
{
    out->completion_count = LOAD(&traffic->completion_count);
    bool has_completions = out->completion_count >= completions_min;
    out->arrivals_per_ms = traffic_own_arrivals(traffic, now_us) + LOAD(&traffic->others_per_ms);
    out->decode_ms = has_completions ? LOAD(&traffic->decode_ms) : 0;
    out->output_tokens = has_completions ? LOAD(&traffic->output_tokens) : output_tokens_shipped;
    out->prefill_ms = LOAD(&traffic->prefill_ms);
    bool has_reuses =
        LOAD(&traffic->reuse_count) >= reuses_min && LOAD(&traffic->arrival_count) >= arrivals_min;
    out->scarcity = has_reuses ? LOAD(&traffic->scarcity) : -1;
}
