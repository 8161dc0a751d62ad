// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/step_model.h"

#include <math.h>

void step_work_add_chunk(struct step_work *work, const struct step_model *model, uint32_t cached,
                         uint32_t tokens)
{
    double n = tokens;
    double c = cached;
    double square = cached > 0 ? model->square_behind_ms : model->square_ms;

    work->tokens += n;
    work->extra_ms += c * fmax(model->cached_ms, model->cross_ms * n) + square * n * n;
}

void step_work_add_decode(struct step_work *work, const struct step_model *model,
                          uint32_t sequences, uint64_t context_tokens)
{
    work->tokens += sequences;
    work->extra_ms +=
        model->context_ms * (double)context_tokens + model->sequence_ms * (double)sequences;
}

double step_ms(const struct step_work *work, const struct step_model *model)
{
    double p = model->sharpness;
    double compute = model->token_ms * work->tokens;
    double floor = model->floor_ms;
    // The longer one alone, as long as the other one is too small to show.
    double longer = compute > floor ? compute : floor;
    double shorter = compute > floor ? floor : compute;
    double base = longer;
    if (shorter > longer * 0.01) {
        base = longer * pow(1 + pow(shorter / longer, p), 1 / p);
    }
    return base + work->extra_ms;
}

double step_prefill_ms(const struct step_model *model, uint32_t cached, uint32_t tokens,
                       uint32_t step_tokens)
{
    double sum = 0;
    while (tokens > 0) {
        uint32_t chunk = tokens < step_tokens ? tokens : step_tokens;
        struct step_work work = {0};
        step_work_add_chunk(&work, model, cached, chunk);
        sum += step_ms(&work, model);
        cached += chunk;
        tokens -= chunk;
    }
    return sum;
}
