// SPDX-License-Identifier: Apache-2.0

#include "metrics/receipt.h"

#include "base/base.h"

#include <string.h>

_Static_assert(sizeof(struct receipt) % sizeof(uint64_t) == 0, "the parts behind it are aligned");
_Static_assert(sizeof(struct decision_party) % sizeof(uint64_t) == 0,
               "keys behind rivals are aligned");
_Static_assert(receipt_size_max % sizeof(uint64_t) == 0, "rings count in words");

static const struct {
    const char *name;
    bool is_failure;
} outcomes[] = {
#define OUTCOME(id, name, is_failure, help) {name, is_failure},
#include "metrics/outcomes.def"
#undef OUTCOME
};

static const char *const stage_names[] = {
#define STAGE(id, name, help) name,
#include "metrics/stages.def"
#undef STAGE
};

const char *receipt_outcome_name(enum receipt_outcome outcome)
{
    ASSERT((size_t)outcome < ARRAY_COUNT(outcomes));
    return outcomes[outcome].name;
}

bool receipt_has_failed(const struct receipt *receipt)
{
    ASSERT((size_t)receipt->outcome < ARRAY_COUNT(outcomes));
    return outcomes[receipt->outcome].is_failure;
}

const char *receipt_stage_name(enum receipt_stage stage)
{
    ASSERT((size_t)stage < ARRAY_COUNT(stage_names));
    return stage_names[stage];
}

static size_t receipt_text_size(const struct receipt *receipt)
{
    return (size_t)receipt->id_size + receipt->model_size + receipt->url_size + receipt->path_size;
}

size_t receipt_size(const struct receipt *receipt)
{
    size_t size = sizeof(*receipt) + receipt->rival_count * sizeof(struct decision_party) +
                  ((size_t)receipt->sampled_count + receipt->depth_count) * sizeof(uint64_t) +
                  receipt_text_size(receipt);
    return (size + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t);
}

void receipt_parts(const struct receipt *receipt, struct receipt_parts *out)
{
    const struct decision_party *rivals = (const struct decision_party *)(receipt + 1);
    const uint64_t *sampled = (const uint64_t *)(rivals + receipt->rival_count);
    const uint64_t *depths = sampled + receipt->sampled_count;
    const uint8_t *text = (const uint8_t *)(depths + receipt->depth_count);

    *out = (struct receipt_parts){
        .rivals = rivals,
        .sampled = sampled,
        .depths = depths,
        .id = slice_of(text, receipt->id_size),
        .model = slice_of(text + receipt->id_size, receipt->model_size),
        .url = slice_of(text + receipt->id_size + receipt->model_size, receipt->url_size),
        .path = slice_of(text + receipt->id_size + receipt->model_size + receipt->url_size,
                         receipt->path_size),
    };
}

static uint8_t *receipt_put(uint8_t *to, const void *from, size_t size)
{
    if (size > 0) {
        memcpy(to, from, size);
    }
    return to + size;
}

void receipt_write(const struct receipt *receipt, const struct receipt_parts *parts, void *to)
{
    ASSERT(receipt->rival_count <= decision_rival_max);
    ASSERT(receipt->sampled_count <= receipt_sampled_max);
    ASSERT(receipt->depth_count <= receipt_depth_max);

    uint8_t *at = receipt_put(to, receipt, sizeof(*receipt));
    at = receipt_put(at, parts->rivals, receipt->rival_count * sizeof(struct decision_party));
    at = receipt_put(at, parts->sampled, receipt->sampled_count * sizeof(uint64_t));
    at = receipt_put(at, parts->depths, receipt->depth_count * sizeof(uint64_t));
    at = receipt_put(at, parts->id.bytes, receipt->id_size);
    at = receipt_put(at, parts->model.bytes, receipt->model_size);
    at = receipt_put(at, parts->url.bytes, receipt->url_size);
    at = receipt_put(at, parts->path.bytes, receipt->path_size);
    while ((uintptr_t)at % sizeof(uint64_t) != 0) {
        *at++ = 0;
    }
}

double receipt_ttft_ms(const struct receipt *receipt)
{
    return receipt->first_us > 0 ? (double)receipt->first_us / 1000 : (double)NAN;
}

double receipt_tpot_ms(const struct receipt *receipt)
{
    if (receipt->first_us == 0 || receipt->output_tokens < 2 ||
        receipt->last_us <= receipt->first_us) {
        return (double)NAN;
    }
    return (double)(receipt->last_us - receipt->first_us) / 1000 /
           (double)(receipt->output_tokens - 1);
}

double receipt_total_ms(const struct receipt *receipt)
{
    return receipt->end_us > 0 ? (double)receipt->end_us / 1000 : (double)NAN;
}

double receipt_predicted_ms(const struct receipt *receipt)
{
    return decision_predicted_ms(&receipt->decision, &receipt->decision.chosen);
}
