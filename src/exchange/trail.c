// SPDX-License-Identifier: Apache-2.0

#include "exchange/trail.h"

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "dialect/token_reader.h"
#include "fleet/traffic.h"
#include "http/head.h"
#include "http/sse.h"
#include "knowledge/knowledge.h"
#include "sys/log.h"
#include "sys/loop.h"
#include "worker/recorder.h"

#include <stddef.h>
#include <string.h>

enum {
    // What an answer adds to its prompt's keys, about; more is simply not named.
    answer_keys = 16,
    // The same for blocks of ids, which are smaller.
    answer_id_keys = 64,
    // A document that is not streamed and larger than this tells nothing.
    document_size_max = 4 << 20,
    // A timer cannot be exact about the end of a prefill: it is at least one turn of the loop.
    prefill_end_min_ms = 1,
};

// The first class is for those that have no keys.
static const uint32_t class_keys[trail_class_count] = {0,   32,   128,
                                                       512, 2048, prefix_letter_keys_max};

size_t trail_slot_size(uint32_t class_index)
{
    if (class_index == 0) {
        return offsetof(struct trail, chain);
    }
    size_t size = sizeof(struct trail) + class_keys[class_index] * sizeof(uint64_t);
    // Large ones are whole pages, so that they can be given back.
    return size < 16384 ? size : (size + 4095) / 4096 * 4096;
}

static uint64_t now_us(const struct trail *trail)
{
    return loop_now_us(trail->worker->loop);
}

// The smallest that is free and has room for so many keys.
static struct trail *take_for(struct worker *worker, uint32_t key_count)
{
    for (uint32_t i = 1; i < trail_class_count; i++) {
        struct trail *trail = class_keys[i] >= key_count ? pool_take(&worker->trails[i]) : NULL;
        if (trail != NULL) {
            trail->class_index = i;
            return trail;
        }
    }
    return NULL;
}

// With room for some of the answer, if there is one.
static struct trail *take(struct worker *worker, const struct route_request *request)
{
    uint32_t more = request->dialect != NULL ? answer_id_keys : answer_keys;

    if (request->chain == NULL) {
        struct trail *bare = pool_take(&worker->trails[0]);
        if (bare != NULL) {
            bare->class_index = 0;
        }
        return bare;
    }
    struct trail *trail = take_for(worker, request->key_count + more);
    return trail != NULL ? trail : take_for(worker, request->key_count);
}

static struct load *load_of(const struct trail *trail)
{
    return &trail->outcome.backend->load;
}

static void assume_first_token(struct trail *trail)
{
    load_assume_first_token(load_of(trail), &trail->outcome.load, now_us(trail));
}

// An answer that comes in one piece does not show when its prompt was done; the prediction must do.
static void prefill_is_over(struct timer *timer)
{
    struct trail *trail = CONTAINER_OF(timer, struct trail, prefill_end);
    assume_first_token(trail);
}

static void await_prefill(struct trail *trail)
{
    const struct route_decision *decision = &trail->outcome.decision;
    float predicted_ms = decision->wait_ms + decision->prefill_ms;

    trail->prefill_end = (struct timer){.fire = prefill_is_over};
    loop_arm(trail->worker->loop, &trail->prefill_end,
             prefill_end_min_ms + (predicted_ms < 60000 ? (uint64_t)predicted_ms : 60000));
}

// The others go on where the prompt ends, without a role in between.
static bool is_chat(enum prompt_api api)
{
    return api == PROMPT_CHAT || api == PROMPT_RESPONSES || api == PROMPT_MESSAGES;
}

struct trail *trail_begin(struct worker *worker, const struct route_request *request,
                          const struct route_choice *choice, uint64_t arrived_us)
{
    struct trail *trail = take(worker, request);
    if (trail == NULL) {
        return NULL;
    }
    uint32_t class_index = trail->class_index;
    bool is_text = request->prompt->form == PROMPT_TEXT;
    // The chain is large, and whole from its copying.
    memset(trail, 0, offsetof(struct trail, chain));
    trail->worker = worker;
    trail->class_index = class_index;
    trail->text_size = is_text ? request->prompt->text_size : 0;
    trail->arrived_us = arrived_us;
    trail->turn = request->prompt->turns;
    trail->dialect = request->dialect;
    trail->shape = request->shape;
    trail->is_extended = request->dialect != NULL && request->chain != NULL;
    trail->api = request->prompt->api;
    trail->form = request->prompt->form;
    trail->is_streamed = request->prompt->stream;
    trail->is_named = request->chain != NULL;
    if (trail->is_named) {
        prefix_chain_copy(request->chain, trail->keys, class_keys[class_index], &trail->chain);
    }
    if (trail->is_named && is_text && is_chat(trail->api)) {
        prompt_begin_answer(&trail->chain);
    }
    outcome_begin(&trail->outcome, worker->knowledge, worker->index, request, choice,
                  now_us(trail));
    if (trail->is_named && !trail->is_streamed) {
        await_prefill(trail);
    }
    return trail;
}

void trail_end(struct trail **trail_ptr)
{
    struct trail *trail = *trail_ptr;
    *trail_ptr = NULL;

    if (trail == NULL) {
        return;
    }
    struct worker *worker = trail->worker;
    loop_disarm(worker->loop, &trail->prefill_end);
    outcome_end(&trail->outcome, trail->keys);
    buffer_put(worker, &trail->tail);
    body_store_put(&worker->bodies, &trail->document);
    pool_put(&worker->trails[trail->class_index], &trail);
}

void trail_answer(struct trail *trail, const struct http_head *head, bool may_hold_back)
{
    trail->is_answered = head->status >= 200 && head->status < 300;
    bool is_understood = trail->api != PROMPT_OTHER && trail->api != PROMPT_EMBEDDING;
    if (!trail->is_answered || !is_understood ||
        http_head_find_text(head, "content-encoding") != NULL) {
        trail->watch = TRAIL_BLIND;
    } else if (http_head_type_is(head, "text/event-stream") && may_hold_back) {
        trail->watch = TRAIL_EVENTS;
    } else if (http_head_type_is(head, "application/json")) {
        trail->watch = TRAIL_DOCUMENT;
    }
    // Of a stream that we cannot read the head is the last that shows when the prompt was done.
    if (trail->is_streamed && trail->watch != TRAIL_EVENTS) {
        assume_first_token(trail);
    }
}

// Events bring a token each, nearly always, so what each is alone is what they are together.  Thoughts and
// tool calls are rendered in the template's own way: behind them nothing is known.
static void extend(struct trail *trail, const struct answer_event *event)
{
    if (!trail->is_extended) {
        return;
    }
    if (event->text.size > 0) {
        trail->is_extended = token_thread_add_response(trail->worker->token_thread, trail->dialect,
                                                       event->text, &trail->chain);
    } else if (event->has_token) {
        trail->is_extended = false;
    }
}

static void note(struct trail *trail, const struct answer_event *event)
{
    extend(trail, event);
    if (event->has_output) {
        // A document is read when it is complete, and then the prompt is stored together with the answer.
        if (trail->watch == TRAIL_DOCUMENT) {
            trail->outcome.has_begun = true;
        } else {
            outcome_confirm(&trail->outcome, trail->keys, now_us(trail));
        }
        if (trail->is_streamed && trail->watch == TRAIL_EVENTS) {
            trail->last_us = now_us(trail);
            trail->first_us = trail->first_us != 0 ? trail->first_us : trail->last_us;
            load_output(load_of(trail), &trail->outcome.load, 1, now_us(trail));
        }
    }
    struct answer_usage *usage = &trail->usage;
    if (event->usage.has_prompt_tokens) {
        usage->has_prompt_tokens = true;
        usage->prompt_tokens = event->usage.prompt_tokens;
    }
    if (event->usage.has_cached_tokens) {
        usage->has_cached_tokens = true;
        usage->cached_tokens = event->usage.cached_tokens;
    }
    if (event->usage.completion_tokens > 0) {
        usage->completion_tokens = event->usage.completion_tokens;
    }
}

// The text of the answer continues the prompt only where the prompt is text too.
static struct prefix_chain *chain_of(struct trail *trail)
{
    return trail->is_named && trail->text_size > 0 ? &trail->chain : NULL;
}

// Where nobody learns from what the answer says, an event after the first that tells no counts is one more
// token, and need not be read for that.
static bool is_one_more(const struct trail *trail, struct slice data)
{
    static const char usage[] = "\"usage\"";
    return !trail->is_named && trail->first_us != 0 && data.size > 0 && data.bytes[0] == '{' &&
           memmem(data.bytes, data.size, usage, sizeof(usage) - 1) == NULL;
}

static size_t see_events(struct trail *trail, uint8_t *bytes, size_t size, bool is_end)
{
    struct worker *worker = trail->worker;
    struct slice rest = slice_of(bytes, size);
    struct sse_event event;
    struct sse sse;
    uint8_t *to = bytes;
    const uint8_t *from = bytes;

    sse_begin(&sse, worker->event_space, event_space_size);
    while (sse_next(&sse, &rest, &event)) {
        struct answer_event answer = {0};
        if (is_one_more(trail, event.data)) {
            note(trail, &(struct answer_event){.has_output = true});
        } else if (event.data.size > 0) {
            answer_read_event(trail->api, event.data, chain_of(trail), &answer);
            note(trail, &answer);
        }
        ASSERT(event.whole.bytes == from);
        from += event.whole.size;
        if (!(trail->hides_usage && answer.is_usage_only)) {
            memmove(to, event.whole.bytes, event.whole.size);
            to += event.whole.size;
        }
    }
    size_t left = (size_t)(bytes + size - from);
    if (left > 0 && !is_end && left <= trail_tail_max && buffer_take(worker, &trail->tail)) {
        memcpy(trail->tail.bytes, from, left);
        trail->tail.end = (uint32_t)left;
        left = 0;
    }
    memmove(to, from, left);
    return (size_t)(to - bytes) + left;
}

static void keep_document(struct trail *trail, const uint8_t *bytes, size_t size)
{
    struct body_store *bodies = &trail->worker->bodies;
    size_t needed = trail->document_size + size;

    if (trail->is_too_large || size == 0) {
        return;
    }
    // The blocks are made for requests, and limits.body_size may be small.
    bool has_room = needed <= document_size_max && needed <= bodies->sizes[body_class_count - 1];
    if (has_room && trail->document.bytes == NULL) {
        has_room = body_store_take(bodies, needed, &trail->document);
    } else if (has_room && needed > trail->document.capacity) {
        has_room = body_store_grow(bodies, &trail->document, trail->document_size, needed);
    }
    if (!has_room) {
        trail->is_too_large = true;
        body_store_put(bodies, &trail->document);
        return;
    }
    memcpy(trail->document.bytes + trail->document_size, bytes, size);
    trail->document_size = needed;
}

static void read_document(struct trail *trail, struct slice document)
{
    struct answer_event answer = {0};
    answer_read_body(trail->api, document, chain_of(trail), &answer);
    note(trail, &answer);
    // What the answer adds is stored when it has gone its way, and is new to the index.
    if (trail->is_named && trail->chain.key_count > trail->outcome.prompt_keys) {
        prefix_index_expect(knowledge_index(trail->worker->knowledge),
                            trail->keys[trail->outcome.prompt_keys]);
    }
}

size_t trail_see(struct trail *trail, uint8_t *bytes, size_t size, bool is_end)
{
    if (trail->watch == TRAIL_EVENTS) {
        return see_events(trail, bytes, size, is_end);
    }
    if (trail->watch == TRAIL_DOCUMENT) {
        if (is_end && trail->document_size == 0 && !trail->is_too_large) {
            read_document(trail, slice_of(bytes, size)); // it came in one piece
        } else {
            keep_document(trail, bytes, size);
            if (is_end && !trail->is_too_large) {
                read_document(trail, slice_of(trail->document.bytes, trail->document_size));
            }
        }
    }
    return size;
}

size_t trail_tail_size(const struct trail *trail)
{
    return trail->tail.end;
}

void trail_take_tail(struct trail *trail, uint8_t *bytes)
{
    if (trail->tail.bytes != NULL) {
        memcpy(bytes, trail->tail.bytes, trail->tail.end);
        buffer_put(trail->worker, &trail->tail);
    }
}

// What was not understood is no prompt of an engine that generates, as far as one can tell.
static void record(const struct trail *trail, const struct traffic *traffic)
{
    struct recorder *recorder = trail->worker->recorder;
    const struct outcome *outcome = &trail->outcome;
    const struct answer_usage *usage = &trail->usage;

    if (recorder == NULL || !trail->is_named || trail->form == PROMPT_NOTHING) {
        return;
    }
    uint32_t stride = recorder_stride(recorder, trail->chain.block_size);
    uint32_t span_size = stride * trail->chain.block_size;
    struct recorder_entry entry = {
        .arrived_us = trail->arrived_us,
        .session_key = outcome->session_key,
        .prompt_size = trail->text_size,
        .told_tokens = usage->has_prompt_tokens ? usage->prompt_tokens : 0,
        .output_tokens =
            usage->completion_tokens > 0 ? usage->completion_tokens : outcome->load.output_tokens,
        .turn = trail->turn,
        .pool = outcome->decision.pool,
        .span_size = span_size,
        // Of many, since the tokens of one are rounded up.
        .span_tokens = (traffic_tokens_of(traffic, (uint64_t)span_size * 1024) + 512) / 1024,
        .is_text = trail->form == PROMPT_TEXT,
    };
    if (!entry.is_text) {
        entry.prompt_size = (uint64_t)outcome->decision.prompt_tokens * sizeof(uint32_t);
        entry.span_tokens = span_size / sizeof(uint32_t);
    }
    recorder_put(recorder, trail->worker->index, &entry, trail->keys, outcome->prompt_keys, stride);
}

// The engine says how many tokens the prompt had, and we had said it before.
static void check_dialect(const struct trail *trail)
{
    uint32_t ours = trail->outcome.decision.prompt_tokens;
    uint32_t revoked = 0;
    char space[512];
    struct text names = text_over(space, sizeof(space));

    if (trail->dialect == NULL || !trail->usage.has_prompt_tokens ||
        !dialect_check(trail->dialect, trail->shape, ours, trail->usage.prompt_tokens, &revoked)) {
        return;
    }
    dialect_add_shapes(revoked, &names);
    log_warn_seldom(
        trail->outcome.backend->id,
        "tokenizer %s: backend %s counted %lu tokens in a prompt where we counted %u; requests "
        "with these features are routed by their text from now on: %.*s",
        trail->dialect->name, trail->outcome.backend->url,
        (unsigned long)trail->usage.prompt_tokens, ours, (int)names.size, space);
}

void trail_complete(struct trail *trail)
{
    struct outcome *outcome = &trail->outcome;
    const struct answer_usage *usage = &trail->usage;
    struct traffic *traffic = knowledge_traffic(outcome->knowledge, outcome->decision.pool);

    if (!trail->is_answered) {
        return;
    }
    if (usage->has_prompt_tokens && trail->text_size > 0) {
        traffic_learn_text(traffic, trail->text_size, usage->prompt_tokens);
    }
    check_dialect(trail);
    record(trail, traffic);
    outcome_complete(outcome,
                     &(struct outcome_usage){.has_cached_tokens = usage->has_cached_tokens,
                                             .cached_tokens = usage->cached_tokens,
                                             .output_tokens = usage->completion_tokens},
                     trail->keys, trail->is_named ? trail->chain.key_count : 0, now_us(trail));
}
