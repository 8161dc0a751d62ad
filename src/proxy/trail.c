// SPDX-License-Identifier: Apache-2.0

#include "proxy/trail.h"

#include "base/base.h"
#include "config/config.h"
#include "fleet/traffic.h"
#include "http/head.h"
#include "http/sse.h"
#include "route/knowledge.h"
#include "sys/loop.h"

#include <stddef.h>
#include <string.h>

enum {
    // What an answer adds to its prompt's keys, about; more is simply not named.
    answer_keys = 16,
    // What a turn adds to a prompt that is held already, about.
    own_keys = 8,
    // A document that is not streamed and larger than this tells nothing.
    document_size_max = 4 << 20,
    // A timer cannot be exact about the end of a prefill: it is at least one turn of the loop.
    prefill_end_min_ms = 1,
};

static const uint32_t class_keys[trail_class_count] = {32, 128, 512, 2048, prefix_letter_keys_max};

size_t trail_slot_size(uint32_t class_index)
{
    size_t size = sizeof(struct trail) + class_keys[class_index] * sizeof(uint64_t);
    // Large ones are whole pages, so that they can be given back.
    return size < 16384 ? size : (size + 4095) / 4096 * 4096;
}

static uint32_t seconds_of(const struct worker *worker)
{
    return (uint32_t)(loop_now_ms(worker->loop) / 1000);
}

static uint64_t now_us(const struct trail *trail)
{
    return loop_now_us(trail->worker->loop);
}

// The smallest that is free and has room for so many keys.
static struct trail *take_for(struct worker *worker, uint32_t key_count)
{
    for (uint32_t i = 0; i < trail_class_count; i++) {
        struct trail *trail = class_keys[i] >= key_count ? pool_take(&worker->trails[i]) : NULL;
        if (trail != NULL) {
            trail->class_index = i;
            return trail;
        }
    }
    return NULL;
}

// With room for some of the answer, if there is one.
static struct trail *take(struct worker *worker, uint32_t key_count)
{
    struct trail *trail = take_for(worker, key_count + answer_keys);
    return trail != NULL ? trail : take_for(worker, key_count);
}

static void store(struct trail *trail, enum prefix_residency residency, const uint64_t *keys,
                  uint32_t key_count)
{
    struct worker *worker = trail->worker;

    if (key_count > 0) {
        knowledge_store(worker->knowledge, worker->index, trail->backend,
                        &(struct prefix_letter){.residency = residency,
                                                .keys = keys,
                                                .key_count = key_count,
                                                .block_tokens = trail->block_tokens,
                                                .now_s = seconds_of(worker)});
    }
}

// An answer that comes in one piece does not show when its prompt was done; the prediction must do.
static void prefill_is_over(struct timer *timer)
{
    struct trail *trail = CONTAINER_OF(timer, struct trail, prefill_end);
    load_assume_first_token(&trail->backend->load, &trail->load, now_us(trail));
}

static void begin_load(struct trail *trail)
{
    const struct route_decision *decision = &trail->decision;

    trail->load = (struct load_request){
        .prompt_tokens = decision->prompt_tokens,
        .uncached_tokens = decision->prompt_tokens - decision->matched_tokens,
    };
    load_begin(&trail->backend->load, &trail->load, now_us(trail));
    if (!trail->is_streamed) {
        float predicted_ms = decision->wait_ms + decision->prefill_ms;
        trail->prefill_end = (struct timer){.fire = prefill_is_over};
        loop_arm(trail->worker->loop, &trail->prefill_end,
                 prefill_end_min_ms + (predicted_ms < 60000 ? (uint64_t)predicted_ms : 60000));
    }
}

// The others go on where the prompt ends, without a role in between.
static bool is_chat(enum prompt_api api)
{
    return api == PROMPT_CHAT || api == PROMPT_RESPONSES || api == PROMPT_MESSAGES;
}

// The session lives where its last request went.
static void settle_session(struct trail *trail)
{
    struct worker *worker = trail->worker;
    uint64_t block = route_session_block(trail->session_key);
    uint32_t before = trail->decision.session_slot;

    if (before != UINT32_MAX && before != trail->backend->slot) {
        knowledge_move_session(worker->knowledge, worker->index, block, before);
    }
    store(trail, PREFIX_PREDICTED, &block, 1);
}

struct trail *trail_begin(struct worker *worker, const struct route_request *request,
                          const struct route_choice *choice)
{
    struct trail *trail = take(worker, request->key_count);
    if (trail == NULL) {
        return NULL;
    }
    uint32_t class_index = trail->class_index;
    bool is_text = request->prompt->form == PROMPT_TEXT;
    // The chain is large, and whole from its copying.
    memset(trail, 0, offsetof(struct trail, chain));
    trail->worker = worker;
    trail->backend = choice->backend;
    trail->class_index = class_index;
    trail->decision = choice->decision;
    trail->text_size = is_text ? request->prompt->text_size : 0;
    trail->session_key = request->session_key;
    trail->prompt_keys = request->key_count;
    trail->block_tokens = request->block_tokens;
    trail->api = request->prompt->api;
    trail->is_streamed = request->prompt->stream;
    prefix_chain_copy(request->chain, trail->keys, class_keys[class_index], &trail->chain);
    if (is_text && is_chat(trail->api)) {
        prompt_begin_answer(&trail->chain);
    }
    begin_load(trail);
    // A few new blocks are this request's own end: nobody else asks for them before it is answered, and
    // then they are stored anyway.
    trail->is_predicted = trail->prompt_keys > trail->decision.matched_blocks + own_keys;
    if (trail->is_predicted) {
        store(trail, PREFIX_PREDICTED, trail->keys, trail->prompt_keys);
    }
    if (request->session_key != 0) {
        settle_session(trail);
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
    if (trail->is_predicted && !trail->has_begun) {
        knowledge_withdraw(worker->knowledge, worker->index, trail->backend,
                           &(struct prefix_letter){.keys = trail->keys,
                                                   .key_count = trail->prompt_keys,
                                                   .from = trail->decision.matched_blocks});
    }
    loop_disarm(worker->loop, &trail->prefill_end);
    load_end(&trail->backend->load, &trail->load);
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
        load_assume_first_token(&trail->backend->load, &trail->load, now_us(trail));
    }
}

// The prompt has been read: what was believed of it is true.  A document is read when it is complete,
// and then the prompt is stored together with the answer.
static void confirm(struct trail *trail)
{
    if (!trail->has_begun && trail->watch != TRAIL_DOCUMENT) {
        store(trail, PREFIX_CONFIRMED, trail->keys, trail->prompt_keys);
    }
    trail->has_begun = true;
}

static void note(struct trail *trail, const struct answer_event *event)
{
    if (event->has_output) {
        confirm(trail);
        if (trail->is_streamed && trail->watch == TRAIL_EVENTS) {
            load_output(&trail->backend->load, &trail->load, 1, now_us(trail));
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
    return trail->text_size > 0 ? &trail->chain : NULL;
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
        if (event.data.size > 0) {
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
    if (trail->chain.key_count > trail->prompt_keys) {
        prefix_index_expect(knowledge_index(trail->worker->knowledge),
                            trail->keys[trail->prompt_keys]);
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

// What the engine says it had, against what we believed.
static void learn_cached(struct trail *trail)
{
    struct worker *worker = trail->worker;
    const struct answer_usage *usage = &trail->usage;
    const struct route_decision *decision = &trail->decision;
    // Our blocks are not the engine's, and the number of tokens is an estimate.
    uint32_t slack = 2 * trail->block_tokens + decision->confirmed_tokens / 8;

    if (!usage->has_cached_tokens) {
        return;
    }
    knowledge_learn(worker->knowledge, worker->index, trail->backend,
                    &(struct knowledge_truth){
                        .believed_tokens = decision->confirmed_tokens,
                        .cached_tokens = usage->cached_tokens < UINT32_MAX
                                             ? (uint32_t)usage->cached_tokens
                                             : UINT32_MAX,
                        .slack_tokens = slack,
                        .age = decision->age,
                    });
}

void trail_complete(struct trail *trail)
{
    struct worker *worker = trail->worker;
    const struct load_request *load = &trail->load;
    struct traffic *traffic = knowledge_traffic(worker->knowledge, trail->decision.pool);

    if (!trail->is_answered) {
        return;
    }
    if (trail->usage.has_prompt_tokens && trail->text_size > 0) {
        traffic_learn_text(traffic, trail->text_size, trail->usage.prompt_tokens);
    }
    // First what is gone, then what is there.
    learn_cached(trail);
    trail->has_begun = true;
    store(trail, PREFIX_CONFIRMED, trail->keys, trail->chain.key_count);
    uint64_t tokens =
        trail->usage.completion_tokens > 0 ? trail->usage.completion_tokens : load->output_tokens;
    if (load->first_us != 0 && tokens > 0) {
        uint64_t end_us = now_us(trail);
        uint64_t decode_us = end_us > load->first_us ? end_us - load->first_us : 0;
        traffic_complete(traffic, (float)decode_us / 1000,
                         tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX);
    }
}
