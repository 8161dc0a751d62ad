// SPDX-License-Identifier: Apache-2.0

#include "route/outcome.h"

#include "base/base.h"
#include "fleet/traffic.h"
#include "fleet/truth.h"
#include "knowledge/knowledge.h"

enum {
    // What a turn adds to a prompt that is held already, about.
    own_keys = 8,
};

static void store(const struct outcome *outcome, enum prefix_residency residency,
                  const uint64_t *keys, uint32_t key_count, uint64_t now_us)
{
    if (key_count > 0) {
        knowledge_store(outcome->knowledge, outcome->sender, outcome->backend,
                        &(struct prefix_letter){.residency = residency,
                                                .keys = keys,
                                                .key_count = key_count,
                                                .block_tokens = outcome->block_tokens,
                                                .now_s = (uint32_t)(now_us / 1000000)});
    }
}

// The session lives where its last request went.
static void settle_session(const struct outcome *outcome, uint64_t now_us)
{
    uint64_t block = route_session_block(outcome->session_key);
    uint32_t before = outcome->decision.session_slot;

    if (before != UINT32_MAX && before != outcome->backend->slot) {
        knowledge_move_session(outcome->knowledge, outcome->sender, block, before);
    }
    store(outcome, PREFIX_PREDICTED, &block, 1, now_us);
}

void outcome_begin(struct outcome *outcome, struct knowledge *knowledge, uint32_t sender,
                   const struct route_request *request, const struct route_choice *choice,
                   uint64_t now_us)
{
    const struct route_decision *decision = &choice->decision;

    *outcome = (struct outcome){
        .knowledge = knowledge,
        .backend = choice->backend,
        .load = {.prompt_tokens = decision->prompt_tokens,
                 .uncached_tokens = decision->prompt_tokens - decision->matched_tokens},
        .decision = *decision,
        .session_key = request->session_key,
        .sender = sender,
        .prompt_keys = request->key_count,
        .block_tokens = request->block_tokens,
        .is_named = request->chain != NULL || request->key_count > 0,
    };
    load_begin(&outcome->backend->load, &outcome->load, now_us);
    if (!outcome->is_named) {
        return;
    }
    // A few new blocks are this request's own end: nobody else asks for them before it is answered, and
    // then they are stored anyway.  Where we claim to know all we predict all.
    outcome->is_predicted =
        decision->is_exact || request->key_count > decision->matched_blocks + own_keys;
    if (outcome->is_predicted) {
        store(outcome, decision->is_exact ? PREFIX_EXPECTED : PREFIX_PREDICTED, request->keys,
              request->key_count, now_us);
    }
    if (request->session_key != 0) {
        settle_session(outcome, now_us);
    }
}

void outcome_confirm(struct outcome *outcome, const uint64_t *keys, uint64_t now_us)
{
    // Output may be here before the event: the prompt stays predicted until the answer has ended.
    if (!outcome->has_begun && !outcome->decision.is_exact) {
        store(outcome, PREFIX_CONFIRMED, keys, outcome->prompt_keys, now_us);
        outcome->is_settled = true;
    }
    outcome->has_begun = true;
}

static uint32_t at_most_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

// What the engine says it had, against what we believed.
static void learn_cached(const struct outcome *outcome, const struct outcome_usage *usage,
                         uint64_t now_us)
{
    const struct route_decision *decision = &outcome->decision;
    uint32_t cached = at_most_u32(usage->cached_tokens);
    // Our blocks are not the engine's, and the number of tokens is an estimate.
    uint32_t slack = 2 * outcome->block_tokens + decision->confirmed_tokens / 8;

    if (!usage->has_cached_tokens || !outcome->is_named) {
        return;
    }
    truth_note(&outcome->backend->truth, decision->is_exact ? TRUTH_EXACT : TRUTH_BELIEVED,
               decision->expected_tokens, cached, now_us / 1000);
    if (decision->is_exact) {
        // Of what is told the last block of a prompt is computed again.
        uint32_t told = decision->told_tokens < decision->expected_tokens
                            ? decision->told_tokens
                            : decision->expected_tokens;
        knowledge_audit(outcome->knowledge, outcome->sender, outcome->backend, told, cached);
        return;
    }
    knowledge_learn(outcome->knowledge, outcome->sender, outcome->backend,
                    &(struct knowledge_truth){.believed_tokens = decision->confirmed_tokens,
                                              .cached_tokens = cached,
                                              .slack_tokens = slack,
                                              .age = decision->age});
}

void outcome_complete(struct outcome *outcome, const struct outcome_usage *usage,
                      const uint64_t *keys, uint32_t key_count, uint64_t now_us)
{
    const struct load_request *load = &outcome->load;

    // First what is gone, then what is there.
    learn_cached(outcome, usage, now_us);
    outcome->has_begun = true;
    outcome->is_settled = true;
    store(outcome, PREFIX_CONFIRMED, keys, key_count, now_us);
    uint64_t tokens = usage->output_tokens > 0 ? usage->output_tokens : load->output_tokens;
    if (load->first_us != 0 && tokens > 0) {
        uint64_t decode_us = now_us > load->first_us ? now_us - load->first_us : 0;
        traffic_complete(knowledge_traffic(outcome->knowledge, outcome->decision.pool),
                         (float)decode_us / 1000, at_most_u32(tokens));
    }
}

void outcome_end(struct outcome *outcome, const uint64_t *keys)
{
    bool is_there = outcome->is_settled || (outcome->has_begun && !outcome->decision.is_exact);
    if (outcome->is_predicted && !is_there) {
        outcome->is_predicted = false;
        if (outcome->decision.is_exact) {
            // To expect it all again took from what was told that it had been shown.
            store(outcome, PREFIX_CONFIRMED, keys,
                  outcome->decision.told_tokens / outcome->block_tokens, outcome->load.sent_us);
        }
        knowledge_withdraw(outcome->knowledge, outcome->sender, outcome->backend,
                           &(struct prefix_letter){.keys = keys,
                                                   .key_count = outcome->prompt_keys,
                                                   .from = outcome->decision.matched_blocks});
    }
    load_end(&outcome->backend->load, &outcome->load);
}
