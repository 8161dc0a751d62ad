// SPDX-License-Identifier: Apache-2.0

#include "fleet/refusals.h"

#include "base/base.h"

// Relaxed everywhere: each word is independent, and a stale value only routes as a moment before.
#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), value, memory_order_relaxed)

// A response moves the share by this.
static const float refusal_weight = 0.2F;
// Two refusals in a row, or every second response of many.
static const float refusal_suspect = 0.35F;
// Nine refusals in a row.
static const float refusal_usual = 0.85F;
// Below this a refusal is long ago.
static const float refusal_forgotten = 0.02F;

enum {
    ejection_doublings_max = 16,
    output_step_ms = 1000, // the time of output is written that often
    refusal_life_ms = 60000,
};

// The row of that kind; refusal_kind_count: there is none.
static uint32_t refusals_row(const struct refusals *refusals, uint64_t kind)
{
    for (uint32_t i = 0; kind != 0 && i < refusal_kind_count; i++) {
        if (LOAD(refusals->kinds[i]) == kind) {
            return i;
        }
    }
    return refusal_kind_count;
}

static struct refusal_record *refusals_find(struct refusals *refusals, uint64_t kind)
{
    uint32_t at = refusals_row(refusals, kind);
    return at < refusal_kind_count ? &refusals->rows[at] : NULL;
}

static const struct refusal_record *refusals_read(const struct refusals *refusals, uint64_t kind)
{
    uint32_t at = refusals_row(refusals, kind);
    return at < refusal_kind_count ? &refusals->rows[at] : NULL;
}

static bool is_kept(const struct refusal_record *row, uint64_t now_ms)
{
    uint64_t refused_ms = LOAD(row->refused_ms);
    uint64_t out_until_ms = LOAD(row->out_until_ms);
    uint64_t since_ms = refused_ms > out_until_ms ? refused_ms : out_until_ms;
    bool is_suspect = LOAD(row->share) >= refusal_suspect || out_until_ms != 0;
    return is_suspect && now_ms < since_ms + refusal_life_ms;
}

static void refusal_clear(struct refusal_record *row)
{
    STORE(row->output_ms, 0);
    STORE(row->refused_ms, 0);
    STORE(row->out_until_ms, 0);
    STORE(row->asked_until_ms, 0);
    STORE(row->rests_until_ms, 0);
    STORE(row->blamed_ms, 0);
    STORE(row->share, 0);
    STORE(row->run, 0);
    STORE(row->proofs, 0);
    STORE(row->ejections, 0);
    STORE(row->trial, false);
}

static uint64_t last_ms(const struct refusal_record *row)
{
    uint64_t output_ms = LOAD(row->output_ms);
    uint64_t refused_ms = LOAD(row->refused_ms);
    return output_ms > refused_ms ? output_ms : refused_ms;
}

// The row of that kind, in place of the one that was used least recently.  NULL: all are kept.
static struct refusal_record *refusals_take(struct refusals *refusals, uint64_t kind,
                                            uint64_t now_ms)
{
    struct refusal_record *found = refusals_find(refusals, kind);
    uint32_t oldest = refusal_kind_count;

    if (found != NULL || kind == 0) {
        return found;
    }
    for (uint32_t i = 0; i < refusal_kind_count; i++) {
        bool is_older = oldest == refusal_kind_count ||
                        last_ms(&refusals->rows[i]) < last_ms(&refusals->rows[oldest]);
        if (is_older && !is_kept(&refusals->rows[i], now_ms)) {
            oldest = i;
        }
    }
    if (oldest == refusal_kind_count) {
        return NULL;
    }
    refusal_clear(&refusals->rows[oldest]);
    STORE(refusals->kinds[oldest], kind);
    return &refusals->rows[oldest];
}

static bool is_half_open(const struct refusal_record *row, uint64_t now_ms)
{
    uint64_t out_until_ms = LOAD(row->out_until_ms);
    return out_until_ms != 0 && now_ms >= out_until_ms;
}

// It has had output of the kind a moment ago: hardly a black hole.
static bool is_producing(const struct refusal_record *row, uint64_t now_ms)
{
    uint64_t output_ms = LOAD(row->output_ms);
    return output_ms != 0 && now_ms < output_ms + refusal_ask_ms && LOAD(row->run) < refusal_run;
}

enum refusal_state refusals_look(const struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    if (!LOAD(refusals->any)) {
        return REFUSAL_NONE;
    }
    bool is_barren = now_ms < LOAD(refusals->barren_until_ms);
    const struct refusal_record *row = refusals_read(refusals, kind);
    if (row == NULL) {
        return is_barren ? REFUSAL_OUT : REFUSAL_NONE;
    }
    uint64_t out_until_ms = LOAD(row->out_until_ms);
    if (out_until_ms != 0 && (now_ms < out_until_ms || LOAD(row->trial))) {
        return REFUSAL_OUT;
    }
    if (out_until_ms == 0 && is_barren) {
        return REFUSAL_OUT;
    }
    if (now_ms < LOAD(row->asked_until_ms) && !is_producing(row, now_ms)) {
        return REFUSAL_ASKED;
    }
    bool is_recent = now_ms < LOAD(row->refused_ms) + refusal_noted_ms;
    return is_recent && LOAD(row->share) > 0 ? REFUSAL_NOTED : REFUSAL_NONE;
}

bool refusals_begin(struct refusals *refusals, uint64_t kind, uint64_t now_ms, bool anyway,
                    bool *on_trial)
{
    struct refusal_record *row = LOAD(refusals->any) ? refusals_find(refusals, kind) : NULL;

    *on_trial = false;
    if (row == NULL || !is_half_open(row, now_ms)) {
        return true;
    }
    *on_trial = !atomic_exchange_explicit(&row->trial, true, memory_order_relaxed);
    return *on_trial || anyway;
}

void refusals_end_trial(struct refusals *refusals, uint64_t kind)
{
    struct refusal_record *row = refusals_find(refusals, kind);
    if (row != NULL) {
        STORE(row->trial, false);
    }
}

// Clears `any` when the last refusal is forgotten.
static void refusals_settle(struct refusals *refusals)
{
    for (uint32_t i = 0; i < refusal_kind_count; i++) {
        const struct refusal_record *row = &refusals->rows[i];
        if (LOAD(row->share) > 0 || LOAD(row->out_until_ms) != 0) {
            return;
        }
    }
    STORE(refusals->any, false);
}

// Halves what speaks against the backend: a few good responses in a row clear it.
static void refusal_relent(struct refusals *refusals, struct refusal_record *row, bool on_trial)
{
    float share = LOAD(row->share) * (1 - refusal_weight);

    if (on_trial) {
        STORE(row->out_until_ms, 0);
        STORE(row->trial, false);
        share = refusal_suspect;
        STORE(row->proofs, 0);
    } else {
        STORE(row->proofs, LOAD(row->proofs) / 2);
    }
    STORE(row->asked_until_ms, 0);
    if (share < refusal_forgotten) {
        share = 0;
        STORE(row->ejections, 0);
    }
    STORE(row->share, share);
    if (share == 0) {
        refusals_settle(refusals);
    }
}

void refusals_note_output(struct refusals *refusals, uint64_t kind, bool on_trial, uint64_t now_ms)
{
    struct refusal_record *row = refusals_take(refusals, kind, now_ms);

    if (LOAD(refusals->barren_kinds) > 0) {
        STORE(refusals->barren_kinds, 0);
        STORE(refusals->barren_until_ms, 0);
    }
    if (row == NULL) {
        return;
    }
    if (now_ms >= LOAD(row->output_ms) + output_step_ms) {
        STORE(row->output_ms, now_ms);
    }
    if (LOAD(row->run) != 0) {
        STORE(row->run, 0);
    }
    // Output of a request from before the ejection is not proof of health.
    if (LOAD(row->share) > 0 && (on_trial || LOAD(row->out_until_ms) == 0)) {
        refusal_relent(refusals, row, on_trial);
    }
}

// Three kinds are proven, this one just now.
static void refusals_extend_barren(struct refusals *refusals, const struct refusal_record *row)
{
    uint64_t until_ms = LOAD(row->out_until_ms);

    if (LOAD(refusals->barren_kinds) >= refusal_kinds &&
        LOAD(refusals->barren_until_ms) < until_ms) {
        STORE(refusals->barren_until_ms, until_ms);
    }
}

static void refusal_eject(struct refusals *refusals, struct refusal_record *row, uint64_t now_ms,
                          const struct refusal_rules *rules)
{
    bool is_new = LOAD(row->out_until_ms) == 0;
    unsigned ejections = atomic_fetch_add_explicit(&row->ejections, 1, memory_order_relaxed);
    unsigned doublings = ejections < ejection_doublings_max ? ejections : ejection_doublings_max;
    uint64_t time_ms = (uint64_t)rules->eject_time_ms << doublings;

    time_ms = time_ms < rules->eject_time_max_ms ? time_ms : rules->eject_time_max_ms;
    STORE(row->out_until_ms, now_ms + time_ms);
    STORE(row->trial, false);
    if (is_new) {
        atomic_fetch_add_explicit(&refusals->barren_kinds, 1, memory_order_relaxed);
        refusals_extend_barren(refusals, row);
    }
}

bool refusals_note(struct refusals *refusals, uint64_t kind, bool on_trial, uint64_t now_ms,
                   const struct refusal_rules *rules)
{
    struct refusal_record *row = refusals_take(refusals, kind, now_ms);

    if (row == NULL) {
        return false;
    }
    bool is_old = now_ms >= LOAD(row->refused_ms) + refusal_life_ms;
    float share = is_old ? 0 : LOAD(row->share);
    share += (1 - share) * refusal_weight;
    STORE(row->share, share);
    STORE(row->refused_ms, now_ms);
    atomic_fetch_add_explicit(&row->run, 1, memory_order_relaxed);
    STORE(refusals->any, true);
    if (on_trial && is_half_open(row, now_ms)) {
        refusal_eject(refusals, row, now_ms, rules);
    }
    return on_trial || share >= refusal_suspect || LOAD(refusals->barren_kinds) > 0;
}

bool refusals_may_ask(const struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    const struct refusal_record *row = refusals_read(refusals, kind);
    return row != NULL && now_ms >= LOAD(row->rests_until_ms);
}

void refusals_ask(struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    struct refusal_record *row = refusals_find(refusals, kind);
    if (row != NULL) {
        STORE(row->asked_until_ms, now_ms + refusal_ask_ms);
    }
}

void refusals_absolve(struct refusals *refusals, uint64_t kind, bool has_output, uint64_t now_ms)
{
    struct refusal_record *row = refusals_find(refusals, kind);

    if (row == NULL) {
        return;
    }
    // Of two backends only the other one has output: this one's other refusals stay.
    bool is_clear = !has_output || is_producing(row, now_ms);
    if (has_output) {
        STORE(row->blamed_ms, now_ms);
    }
    if (has_output && is_clear) {
        STORE(row->rests_until_ms, now_ms + refusal_rest_ms);
    }
    STORE(row->asked_until_ms, 0);
    if (LOAD(row->out_until_ms) > now_ms) {
        // Its trial has shown nothing: the next request is one.
        unsigned ejections = LOAD(row->ejections);
        STORE(row->ejections, ejections > 0 ? ejections - 1 : 0);
        STORE(row->out_until_ms, now_ms);
        return;
    }
    if (LOAD(row->out_until_ms) == 0) {
        float before = (LOAD(row->share) - refusal_weight) / (1 - refusal_weight);
        STORE(row->share, is_clear || before < refusal_forgotten ? 0 : before);
        refusals_settle(refusals);
    }
}

bool refusals_prove(struct refusals *refusals, uint64_t kind, uint64_t now_ms,
                    const struct refusal_rules *rules)
{
    struct refusal_record *row = refusals_find(refusals, kind);

    if (row == NULL) {
        return false;
    }
    if (LOAD(row->out_until_ms) != 0) { // its trial has failed
        refusals_extend_barren(refusals, row);
        return false;
    }
    unsigned proofs = atomic_fetch_add_explicit(&row->proofs, 1, memory_order_relaxed) + 1;
    if (proofs < refusal_proofs) {
        STORE(row->asked_until_ms, 0);
        return false;
    }
    refusals_eject(refusals, kind, now_ms, rules);
    return true;
}

bool refusals_are_suspect(const struct refusals *refusals, uint64_t kind)
{
    if (LOAD(refusals->barren_kinds) > 0) {
        return true;
    }
    const struct refusal_record *row = LOAD(refusals->any) ? refusals_read(refusals, kind) : NULL;
    return row != NULL &&
           LOAD(row->share) * (1 - refusal_weight) + refusal_weight >= refusal_suspect;
}

bool refusals_are_usual(const struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    const struct refusal_record *row = refusals_read(refusals, kind);

    if (row == NULL || LOAD(row->out_until_ms) != 0 || LOAD(row->share) < refusal_usual) {
        return false;
    }
    uint64_t blamed_ms = LOAD(row->blamed_ms);
    bool was_absolved = blamed_ms != 0 && now_ms < blamed_ms + refusal_fresh_ms;
    return !was_absolved && now_ms >= LOAD(row->asked_until_ms);
}

bool refusals_are_rare(const struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    const struct refusal_record *row = refusals_read(refusals, kind);
    return row != NULL && LOAD(row->share) < refusal_suspect &&
           refusals_has_output(refusals, kind, now_ms);
}

void refusals_eject(struct refusals *refusals, uint64_t kind, uint64_t now_ms,
                    const struct refusal_rules *rules)
{
    struct refusal_record *row = refusals_find(refusals, kind);

    if (row != NULL) {
        STORE(row->proofs, 0);
        STORE(row->asked_until_ms, 0);
        refusal_eject(refusals, row, now_ms, rules);
    }
}

bool refusals_has_output(const struct refusals *refusals, uint64_t kind, uint64_t now_ms)
{
    const struct refusal_record *row = refusals_read(refusals, kind);
    uint64_t output_ms = row != NULL ? LOAD(row->output_ms) : 0;
    return output_ms != 0 && now_ms < output_ms + refusal_fresh_ms;
}

bool refusals_any(const struct refusals *refusals)
{
    return LOAD(refusals->any);
}

uint32_t refusals_out_count(const struct refusals *refusals, uint64_t now_ms)
{
    uint32_t count = 0;

    for (uint32_t i = 0; LOAD(refusals->any) && i < refusal_kind_count; i++) {
        uint64_t kind = LOAD(refusals->kinds[i]);
        count += kind != 0 && refusals_look(refusals, kind, now_ms) == REFUSAL_OUT;
    }
    return count;
}
