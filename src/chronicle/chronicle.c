// SPDX-License-Identifier: Apache-2.0

#include "chronicle/chronicle.h"

#include "base/base.h"
#include "base/rng.h"
#include "chronicle/account_internal.h"
#include "chronicle/backend_minute.h"
#include "chronicle/decision_ring.h"
#include "chronicle/hot_prefixes.h"
#include "chronicle/shadow.h"
#include "chronicle/thinning.h"
#include "chronicle/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct chronicle {
    uint32_t member_max;
    uint32_t decision_max;
    uint64_t wall_ms; // of the last tick; 0: none yet
    uint64_t step;
    struct thinning thinning;
    struct rng rng; // selects requests whose prefixes are noted
    struct chronicle_figures total;
    struct shadow *shadow;
    struct timeline *timeline;
    struct backend_minute *minutes;
    struct hot_prefixes *prefixes;
    struct decision_ring *decisions;
    uint64_t *ids;   // of backends, by slot; 0: none
    bool *is_member; // for chronicle_set_members alone
};

struct chronicle *chronicle_create(const struct chronicle_options *options)
{
    struct chronicle *self = calloc(1, sizeof(*self));
    if (self == NULL) {
        return NULL;
    }
    self->member_max = options->member_max;
    self->decision_max = options->decision_max;
    self->rng = (struct rng){options->seed};
    self->shadow = shadow_create(options->member_max);
    self->timeline = timeline_create();
    self->minutes = backend_minute_create(options->member_max);
    self->prefixes = hot_prefixes_create(options->hot_max, options->member_max);
    self->decisions = decision_ring_create(options->decision_max);
    self->ids = calloc(options->member_max + 1, sizeof(*self->ids));
    self->is_member = calloc(options->member_max + 1, sizeof(*self->is_member));
    if (self->shadow == NULL || self->timeline == NULL || self->minutes == NULL ||
        self->prefixes == NULL || self->decisions == NULL || self->ids == NULL ||
        self->is_member == NULL) {
        chronicle_destroy(&self);
    }
    return self;
}

void chronicle_destroy(struct chronicle **chronicle)
{
    struct chronicle *self = *chronicle;
    if (self == NULL) {
        return;
    }
    shadow_destroy(&self->shadow);
    timeline_destroy(&self->timeline);
    backend_minute_destroy(&self->minutes);
    hot_prefixes_destroy(&self->prefixes);
    decision_ring_destroy(&self->decisions);
    free(self->ids);
    free(self->is_member);
    free(self);
    *chronicle = NULL;
}

static void chronicle_set_slot(struct chronicle *self, uint32_t slot, uint64_t id)
{
    if (self->ids[slot] != 0 && self->ids[slot] != id) {
        shadow_forget(self->shadow, slot);
        backend_minute_forget(self->minutes, slot);
        hot_prefixes_forget(self->prefixes, slot);
    }
    self->ids[slot] = id;
}

void chronicle_set_members(struct chronicle *chronicle, const struct chronicle_member *members,
                           uint32_t count)
{
    ASSERT(count <= chronicle->member_max);
    memset(chronicle->is_member, 0, chronicle->member_max * sizeof(*chronicle->is_member));
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(members[i].slot < chronicle->member_max && members[i].id != 0);
        chronicle->is_member[members[i].slot] = true;
        chronicle_set_slot(chronicle, members[i].slot, members[i].id);
    }
    for (uint32_t slot = 0; slot < chronicle->member_max; slot++) {
        if (!chronicle->is_member[slot]) {
            chronicle_set_slot(chronicle, slot, 0);
        }
    }
    shadow_set_members(chronicle->shadow, members, count);
}

// chronicle_no_slot: it has left, or is not a member yet.
static uint32_t chronicle_slot_of(const struct chronicle *self, uint32_t slot, uint64_t id)
{
    bool is_there = id != 0 && slot < self->member_max && self->ids[slot] == id;
    return is_there ? slot : chronicle_no_slot;
}

// Whether a backend has computed the prompt.
static bool is_computed(const struct receipt *receipt)
{
    return receipt->decision.chosen.backend != 0 &&
           (receipt->outcome == RECEIPT_OK || receipt->has_cached_tokens || receipt->first_us > 0);
}

static struct receipt_share account_of(const struct receipt *receipt,
                                       const struct shadow_estimate *estimate)
{
    struct receipt_share account = {.sums = {.requests = 1,
                                             .failures = receipt_has_failed(receipt),
                                             .output_tokens = receipt->output_tokens},
                                    .ttft_ms = (double)NAN,
                                    .model_ms = (double)NAN,
                                    .shadow_model_ms = (double)NAN};
    if (!is_computed(receipt)) {
        return account;
    }
    account.sums.prompt_tokens = receipt->prompt_tokens;
    account.sums.saved_s = (double)receipt->saved_us / 1e6;
    account.sums.shadow_saved_s = estimate->saved_s;
    account.ttft_ms = receipt_ttft_ms(receipt);
    account.model_ms = estimate->model_ms;
    account.shadow_model_ms = estimate->shadow_model_ms;
    if (receipt->has_cached_tokens) {
        account.sums.told_prompt_tokens = receipt->prompt_tokens;
        account.sums.cached_tokens = receipt->cached_tokens < receipt->prompt_tokens
                                         ? receipt->cached_tokens
                                         : receipt->prompt_tokens;
        account.sums.shadow_cached_tokens = estimate->cached_tokens;
    }
    return account;
}

static void note_prefixes(struct chronicle *self, const struct receipt *receipt, uint32_t slot)
{
    uint32_t shift = self->thinning.keep_shift;
    if (shift > 0 && (rng_next(&self->rng) & ((1U << shift) - 1)) != 0) {
        return;
    }
    struct receipt_parts parts;
    receipt_parts(receipt, &parts);
    struct hot_sighting sighting = {
        .others = (1U << shift) - 1,
        .depths = parts.depths,
        .depth_count = receipt->depth_count,
        .block_tokens = receipt->block_tokens,
        .holder = receipt->outcome == RECEIPT_OK ? slot : chronicle_no_slot,
        .rival_count = receipt->rival_count,
    };
    for (uint32_t i = 0; i < receipt->rival_count; i++) {
        sighting.rivals[i].slot =
            chronicle_slot_of(self, parts.rivals[i].slot, parts.rivals[i].backend);
        sighting.rivals[i].expected_tokens = parts.rivals[i].expected_tokens;
    }
    hot_prefixes_note(self->prefixes, &sighting);
}

// When more requests end in a second than the list can hold, it keeps a random sample, so that it
// reaches back about a second.  Failed and announced requests are always kept.
static bool is_kept(struct chronicle *self, const struct receipt *receipt)
{
    uint64_t rate = self->thinning.rate;
    if (rate <= self->decision_max || receipt_has_failed(receipt) || receipt->is_announced) {
        return true;
    }
    return rng_next(&self->rng) % rate < self->decision_max;
}

void chronicle_note(struct chronicle *chronicle, const struct receipt *receipt)
{
    struct chronicle_decision decision = {.shadow_ttft_ms = NAN};
    const struct decision_party *chosen = &receipt->decision.chosen;
    uint32_t slot = chronicle_slot_of(chronicle, chosen->slot, chosen->backend);

    if (receipt->outcome == RECEIPT_RUNNING) {
        shadow_begin(chronicle->shadow, receipt, slot);
        decision_ring_put(chronicle->decisions, receipt, &decision);
        return;
    }
    thinning_count(&chronicle->thinning);
    struct shadow_estimate estimate = {0};
    if (is_computed(receipt)) {
        shadow_note(chronicle->shadow, receipt, slot, &estimate);
        if (estimate.backend != 0) {
            decision.shadow_backend = estimate.backend;
            decision.shadow_cached_tokens = (uint32_t)(estimate.cached_tokens + 0.5);
            decision.shadow_ttft_ms = (float)estimate.ttft_ms;
        }
    }
    struct receipt_share account = account_of(receipt, &estimate);
    figures_add(&chronicle->total, &account.sums);
    timeline_note(chronicle->timeline, &account);
    if (slot != chronicle_no_slot) {
        backend_minute_note(chronicle->minutes, slot, chronicle->step, &account);
    }
    if (receipt->decision.chosen.backend != 0) {
        note_prefixes(chronicle, receipt, slot);
    }
    if (is_kept(chronicle, receipt)) {
        decision_ring_put(chronicle->decisions, receipt, &decision);
    }
}

void chronicle_tick(struct chronicle *chronicle, uint64_t wall_ms)
{
    uint64_t step = timeline_tick(chronicle->timeline, wall_ms);
    if (step < chronicle->step) {
        // Old stretches would count again when the clock passes them a second time.
        for (uint32_t i = 0; i < chronicle->member_max; i++) {
            backend_minute_forget(chronicle->minutes, i);
        }
    }
    if (chronicle->wall_ms != 0 && wall_ms > chronicle->wall_ms) {
        hot_prefixes_fade(chronicle->prefixes, wall_ms - chronicle->wall_ms);
        shadow_fade(chronicle->shadow, wall_ms - chronicle->wall_ms);
        chronicle->total.span_s += (double)(wall_ms - chronicle->wall_ms) / 1000;
    }
    thinning_tick(&chronicle->thinning, wall_ms);
    shadow_set_sieve(chronicle->shadow,
                     (struct shadow_sieve){.keep_shift = chronicle->thinning.keep_shift,
                                           .judge_shift = chronicle->thinning.judge_shift});
    chronicle->step = step;
    chronicle->wall_ms = wall_ms;
}

uint32_t chronicle_points(const struct chronicle *chronicle, uint64_t since_ms,
                          struct chronicle_point *out, uint32_t out_max)
{
    return timeline_points(chronicle->timeline, since_ms, out, out_max);
}

void chronicle_recent(const struct chronicle *chronicle, struct chronicle_figures *out)
{
    timeline_recent(chronicle->timeline, out);
}

void chronicle_total(const struct chronicle *chronicle, struct chronicle_figures *out)
{
    *out = chronicle->total;
    figures_no_percentiles(out);
}

bool chronicle_backend(const struct chronicle *chronicle, uint32_t slot, uint64_t id,
                       struct chronicle_figures *out)
{
    if (chronicle_slot_of(chronicle, slot, id) == chronicle_no_slot) {
        return false;
    }
    backend_minute_sum(chronicle->minutes, slot, chronicle->step, out);
    out->span_s = timeline_span_s(chronicle->timeline, timeline_minute_steps);
    return true;
}

uint32_t chronicle_prefixes(const struct chronicle *chronicle, struct chronicle_prefix *out,
                            uint32_t out_max)
{
    uint32_t count = hot_prefixes_list(chronicle->prefixes, out, out_max);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < out[i].holder_count && k < chronicle_holder_max; k++) {
            out[i].holders[k] = chronicle->ids[out[i].holders[k]];
        }
    }
    return count;
}

bool chronicle_find(const struct chronicle *chronicle, struct slice id,
                    struct chronicle_decision *out)
{
    return decision_ring_find(chronicle->decisions, id, out);
}

uint32_t chronicle_decisions(const struct chronicle *chronicle, uint64_t since,
                             struct chronicle_decision *out, uint32_t out_max)
{
    return decision_ring_list(chronicle->decisions, since, out, out_max);
}
