// SPDX-License-Identifier: Apache-2.0

#include "knowledge/feedback.h"

#include "base/base.h"
#include "fleet/traffic.h"
#include "fleet/truth.h"
#include "knowledge/knowledge.h"

enum {
    // About as many keys as one turn adds to a prompt that is already held.
    turn_keys = 8,
};

static void feedback_store(const struct feedback *feedback, enum prefix_residency residency,
                           const uint64_t *keys, uint32_t key_count, uint64_t now_us)
{
    if (key_count > 0) {
        knowledge_store(feedback->knowledge, feedback->sender, feedback->backend,
                        &(struct prefix_update){.residency = residency,
                                                .keys = keys,
                                                .key_count = key_count,
                                                .block_tokens = feedback->block_tokens,
                                                .prediction = feedback->prediction,
                                                .now_s = (uint32_t)(now_us / 1000000)});
    }
}

void feedback_begin(struct feedback *feedback, const struct feedback_input *input, uint64_t now_us)
{
    const struct decision *decision = input->decision;
    const struct decision_party *chosen = &decision->chosen;
    ASSERT(chosen->matched_tokens <= decision->prompt_tokens);

    *feedback = (struct feedback){
        .knowledge = input->knowledge,
        .backend = input->backend,
        .decision = decision,
        .load = {.prompt_tokens = decision->prompt_tokens,
                 .uncached_tokens = decision->prompt_tokens - chosen->matched_tokens,
                 .expected_prefill_ms = chosen->token_ms,
                 .expected_step_ms = chosen->step_ms},
        .session_key = input->session_key,
        .sender = input->sender,
        .prompt_keys = input->key_count,
        .block_tokens = input->block_tokens,
        .is_named = input->is_named,
    };
    load_begin(&feedback->backend->load, &feedback->load, now_us);
    if (!feedback->is_named) {
        return;
    }
    // The last few blocks of a prompt are this request's own: no other request needs them before
    // its response is complete, and then they are stored anyway.  With live events all are
    // predicted.
    feedback->is_predicted =
        chosen->by_events || input->key_count > chosen->matched_blocks + turn_keys;
    if (feedback->is_predicted) {
        feedback->prediction = knowledge_number(feedback->knowledge, feedback->sender);
        feedback_store(feedback, chosen->by_events ? PREFIX_EXPECTED : PREFIX_PREDICTED,
                       input->keys, input->key_count, now_us);
    }
    if (input->session_key != 0) {
        // The session lives where its last request went.
        uint64_t block = knowledge_session_block(feedback->session_key);
        knowledge_move_session(feedback->knowledge, feedback->sender, feedback->backend,
                               &(struct prefix_update){.keys = &block,
                                                       .key_count = 1,
                                                       .block_tokens = feedback->block_tokens,
                                                       .now_s = (uint32_t)(now_us / 1000000)},
                               decision->session_slot);
    }
}

void feedback_confirm(struct feedback *feedback, const uint64_t *keys, uint64_t now_us)
{
    // With live events the prompt stays predicted: output may arrive before the event.
    if (!feedback->has_begun && !feedback->decision->chosen.by_events) {
        feedback_store(feedback, PREFIX_CONFIRMED, keys, feedback->prompt_keys, now_us);
        feedback->is_settled = true;
    }
    feedback->has_begun = true;
}

// Compares the cached tokens that the engine reports with our prediction.
static void feedback_learn_cached(const struct feedback *feedback,
                                  const struct feedback_usage *usage, uint64_t now_us)
{
    const struct decision_party *chosen = &feedback->decision->chosen;
    uint32_t cached = saturate_u32(usage->cached_tokens);
    // Our blocks differ from the engine's, and our number of tokens may be an estimate.
    uint32_t slack = 2 * feedback->block_tokens + chosen->confirmed_tokens / 8;

    if (!usage->has_cached_tokens || !feedback->is_named) {
        return;
    }
    truth_note(&feedback->backend->truth, chosen->by_events ? TRUTH_BY_EVENTS : TRUTH_BELIEVED,
               chosen->expected_tokens, cached, now_us / 1000);
    if (chosen->by_events) {
        // The engine computes the last block of a prompt again, even if events report it.
        uint32_t reported = chosen->reported_tokens < chosen->expected_tokens
                                ? chosen->reported_tokens
                                : chosen->expected_tokens;
        knowledge_audit(feedback->knowledge, feedback->sender, feedback->backend,
                        &(struct knowledge_report){.reported_tokens = reported,
                                                   .expected_tokens = chosen->expected_tokens,
                                                   .cached_tokens = cached});
        return;
    }
    knowledge_learn(feedback->knowledge, feedback->sender, feedback->backend,
                    &(struct knowledge_truth){.believed_tokens = chosen->confirmed_tokens,
                                              .cached_tokens = cached,
                                              .slack_tokens = slack,
                                              .age = chosen->age});
}

// The engine has computed the first block that events did not report.  If it had been evicted, the
// eviction no longer proves that the block is missing.
static void feedback_note_computed(const struct feedback *feedback, const uint64_t *keys,
                                   uint32_t key_count)
{
    const struct decision_party *chosen = &feedback->decision->chosen;
    uint32_t reported =
        feedback->block_tokens == 0 ? 0 : chosen->reported_tokens / feedback->block_tokens;

    if (chosen->by_events && reported < key_count) {
        prefix_ledger_note_computed(knowledge_ledger(feedback->knowledge), keys[reported],
                                    feedback->backend->slot);
    }
}

void feedback_complete(struct feedback *feedback, const struct feedback_usage *usage,
                       const uint64_t *keys, uint32_t key_count, uint64_t now_us)
{
    const struct load_request *load = &feedback->load;

    // Learn of evictions before the new blocks are stored.
    feedback_learn_cached(feedback, usage, now_us);
    feedback->has_begun = true;
    feedback->is_settled = true;
    feedback_note_computed(feedback, keys, key_count);
    feedback_store(feedback, PREFIX_CONFIRMED, keys, key_count, now_us);
    uint64_t tokens = usage->output_tokens > 0 ? usage->output_tokens : load->output_tokens;
    if (load->first_us != 0 && tokens > 0) {
        uint64_t decode_us = now_us > load->first_us ? now_us - load->first_us : 0;
        traffic_complete(knowledge_traffic(feedback->knowledge, feedback->decision->pool),
                         (float)decode_us / 1000, saturate_u32(tokens));
    }
}

void feedback_end(struct feedback *feedback, const uint64_t *keys)
{
    const struct decision_party *chosen = &feedback->decision->chosen;
    bool is_there = feedback->is_settled || (feedback->has_begun && !chosen->by_events);

    if (feedback->is_predicted && !is_there) {
        feedback->is_predicted = false;
        uint64_t prediction = feedback->prediction;
        feedback->prediction = 0; // ended by the withdrawal, not by what is confirmed here
        if (chosen->by_events) {
            // PREFIX_EXPECTED cleared the confirmed bits; set them again.
            feedback_store(feedback, PREFIX_CONFIRMED, keys,
                           chosen->reported_tokens / feedback->block_tokens,
                           feedback->load.sent_us);
        }
        knowledge_withdraw(feedback->knowledge, feedback->sender, feedback->backend,
                           &(struct prefix_update){.keys = keys,
                                                   .key_count = feedback->prompt_keys,
                                                   .prediction = prediction,
                                                   .from = chosen->matched_blocks});
    }
    load_end(&feedback->backend->load, &feedback->load);
}
