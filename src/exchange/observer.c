// SPDX-License-Identifier: Apache-2.0

#include "exchange/observer.h"

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
    // Room for the keys of a response behind those of its prompt; a longer one gets no more keys.
    response_keys = 16,
    // The same for blocks of ids, which are smaller.
    response_id_keys = 64,
    // A larger document is not read.
    document_size_max = 4 << 20,
    // One turn of the loop: a timer cannot be more precise.
    prefill_end_min_ms = 1,
};

// The first class is for those that have no keys.
static const uint32_t class_keys[observer_class_count] = {0,   32,   128,
                                                          512, 2048, prefix_update_keys_max};

size_t observer_slot_size(uint32_t class_index)
{
    if (class_index == 0) {
        return offsetof(struct observer, chain);
    }
    size_t size = sizeof(struct observer) + class_keys[class_index] * sizeof(uint64_t);
    // Large ones are whole pages, so that they can be given back.
    return size < 16384 ? size : (size + 4095) / 4096 * 4096;
}

static uint64_t now_us(const struct observer *observer)
{
    return loop_now_us(observer->worker->loop);
}

// The smallest free one with room for `key_count` keys.
static struct observer *observer_take_class(struct worker *worker, uint32_t key_count)
{
    for (uint32_t i = 1; i < observer_class_count; i++) {
        struct observer *observer =
            class_keys[i] >= key_count ? pool_take(&worker->observers[i]) : NULL;
        if (observer != NULL) {
            observer->class_index = i;
            return observer;
        }
    }
    return NULL;
}

// With room for keys of the response, if one is free.
static struct observer *observer_take(struct worker *worker, const struct route_request *request)
{
    uint32_t more = request->dialect != NULL ? response_id_keys : response_keys;

    if (request->chain == NULL) {
        struct observer *bare = pool_take(&worker->observers[0]);
        if (bare != NULL) {
            bare->class_index = 0;
        }
        return bare;
    }
    struct observer *observer = observer_take_class(worker, request->key_count + more);
    return observer != NULL ? observer : observer_take_class(worker, request->key_count);
}

static struct load *observer_load(const struct observer *observer)
{
    return &observer->feedback.backend->load;
}

static void assume_first_token(struct observer *observer)
{
    load_assume_first_token(observer_load(observer), &observer->feedback.load, now_us(observer));
}

// A response that comes in one piece does not show the end of its prefill: the predicted time
// counts.
static void observer_prefill_over(struct timer *timer)
{
    struct observer *observer = CONTAINER_OF(timer, struct observer, prefill_end);
    assume_first_token(observer);
}

static void await_prefill(struct observer *observer)
{
    const struct decision_party *chosen = &observer->feedback.decision->chosen;
    float predicted_ms = chosen->wait_ms + chosen->prefill_ms;

    observer->prefill_end = (struct timer){.fire = observer_prefill_over};
    loop_arm(observer->worker->loop, &observer->prefill_end,
             prefill_end_min_ms + (predicted_ms < 60000 ? (uint64_t)predicted_ms : 60000));
}

// In the other APIs the response continues the prompt without a role in between.
static bool is_chat(enum prompt_api api)
{
    return api == PROMPT_CHAT || api == PROMPT_RESPONSES || api == PROMPT_MESSAGES;
}

struct observer *observer_begin(struct worker *worker, const struct route_request *request,
                                struct backend *backend, const struct decision *decision,
                                uint64_t arrived_us)
{
    // Without keys an observer still feeds the meters.
    bool is_wanted = request->chain != NULL || worker->meters != NULL;
    struct observer *observer = is_wanted ? observer_take(worker, request) : NULL;
    if (observer == NULL) {
        return NULL;
    }
    uint32_t class_index = observer->class_index;
    bool is_text = request->prompt->form == PROMPT_TEXT;
    // The chain is large, and prefix_chain_copy writes all of it.
    memset(observer, 0, offsetof(struct observer, chain));
    observer->worker = worker;
    observer->class_index = class_index;
    observer->text_size = is_text ? request->prompt->text_size : 0;
    observer->arrived_us = arrived_us;
    observer->turn = request->prompt->turns;
    observer->dialect = request->dialect;
    observer->shape = request->shape;
    observer->is_extended = request->dialect != NULL && request->chain != NULL;
    observer->api = request->prompt->api;
    observer->form = request->prompt->form;
    observer->is_streamed = request->prompt->stream;
    observer->is_named = request->chain != NULL;
    if (observer->is_named) {
        prefix_chain_copy(request->chain, observer->keys, class_keys[class_index],
                          &observer->chain);
    }
    if (observer->is_named && is_text && is_chat(observer->api)) {
        prompt_begin_answer(&observer->chain);
    }
    feedback_begin(&observer->feedback,
                   &(struct feedback_input){
                       .knowledge = worker->knowledge,
                       .sender = worker->index,
                       .backend = backend,
                       .decision = decision,
                       .session_key = request->session_key,
                       .keys = request->keys,
                       .key_count = request->key_count,
                       .block_tokens = request->block_tokens,
                       .is_named = request->chain != NULL || request->key_count > 0,
                   },
                   now_us(observer));
    if (observer->is_named && !observer->is_streamed) {
        await_prefill(observer);
    }
    return observer;
}

void observer_end(struct observer **observer_ptr)
{
    struct observer *observer = *observer_ptr;
    *observer_ptr = NULL;

    if (observer == NULL) {
        return;
    }
    struct worker *worker = observer->worker;
    loop_disarm(worker->loop, &observer->prefill_end);
    feedback_end(&observer->feedback, observer->keys);
    buffer_put(worker, &observer->tail);
    body_store_put(&worker->bodies, &observer->document);
    pool_put(&worker->observers[observer->class_index], &observer);
}

enum observer_watch observer_watch_for(enum prompt_api api, const struct http_head *head,
                                       bool may_hold_back, bool *is_opaque)
{
    bool is_understood = api != PROMPT_OTHER && api != PROMPT_EMBEDDING;
    bool is_stream = http_head_type_is(head, "text/event-stream");

    *is_opaque = !is_understood || (is_stream && !may_hold_back) ||
                 http_head_find_text(head, "content-encoding") != NULL;
    if (*is_opaque) {
        return OBSERVER_BLIND;
    }
    if (is_stream) {
        return OBSERVER_EVENTS;
    }
    return http_head_type_is(head, "application/json") ? OBSERVER_DOCUMENT : OBSERVER_BLIND;
}

void observer_head(struct observer *observer, const struct http_head *head, bool may_hold_back)
{
    enum observer_watch watch =
        observer_watch_for(observer->api, head, may_hold_back, &observer->is_opaque);

    observer->is_success = head->status >= 200 && head->status < 300;
    observer->watch = observer->is_success ? watch : OBSERVER_BLIND;
    // A stream that is not read shows the end of its prefill by its head only.
    if (observer->is_streamed && observer->watch != OBSERVER_EVENTS) {
        assume_first_token(observer);
    }
}

// An event nearly always brings one token, so the ids of each event alone are those of the whole
// text.  The template renders thoughts and tool calls in its own way: the chain ends before them.
static void observer_extend(struct observer *observer, const struct response_event *event)
{
    if (!observer->is_extended) {
        return;
    }
    if (event->text.size > 0) {
        observer->is_extended = token_thread_add_response(
            observer->worker->token_thread, observer->dialect, event->text, &observer->chain);
    } else if (event->has_token) {
        observer->is_extended = false;
    }
}

static void observer_note(struct observer *observer, const struct response_event *event)
{
    observer_extend(observer, event);
    output_note(&observer->output, observer->api, event);
    if (event->has_output) {
        // A document is read when it is complete: its prompt is then stored together with the
        // response.
        if (observer->watch == OBSERVER_DOCUMENT) {
            observer->feedback.has_begun = true;
        } else {
            feedback_confirm(&observer->feedback, observer->keys, now_us(observer));
        }
        if (observer->is_streamed && observer->watch == OBSERVER_EVENTS) {
            observer->last_us = now_us(observer);
            observer->first_us = observer->first_us != 0 ? observer->first_us : observer->last_us;
            load_output(observer_load(observer), &observer->feedback.load, 1, now_us(observer));
        }
    }
    struct response_usage *usage = &observer->usage;
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

// The text of the response continues the prompt only if the prompt is text too.
static struct prefix_chain *observer_text_chain(struct observer *observer)
{
    return observer->is_named && observer->text_size > 0 ? &observer->chain : NULL;
}

// If the index learns nothing from it, an event after the first, without usage, counts as one token
// and is not parsed.
static bool is_one_more(const struct observer *observer, struct slice data)
{
    static const char usage[] = "\"usage\"";
    return !observer->is_named && observer->output.has_answer && data.size > 0 &&
           data.bytes[0] == '{' && memmem(data.bytes, data.size, usage, sizeof(usage) - 1) == NULL;
}

static size_t see_events(struct observer *observer, uint8_t *bytes, size_t size, bool is_end)
{
    struct worker *worker = observer->worker;
    struct slice rest = slice_of(bytes, size);
    struct sse_event event;
    struct sse sse;
    uint8_t *to = bytes;
    const uint8_t *from = bytes;

    sse_begin(&sse, worker->event_space, event_space_size);
    while (sse_next(&sse, &rest, &event)) {
        struct response_event answer = {0};
        if (is_one_more(observer, event.data)) {
            observer_note(observer, &(struct response_event){.has_output = true});
        } else if (event.data.size > 0) {
            response_read_event(observer->api, event.data, observer_text_chain(observer), &answer);
            observer_note(observer, &answer);
        }
        ASSERT(event.whole.bytes == from);
        from += event.whole.size;
        if (!(observer->hides_usage && answer.is_usage_only)) {
            memmove(to, event.whole.bytes, event.whole.size);
            to += event.whole.size;
        }
    }
    size_t left = (size_t)(bytes + size - from);
    if (left > 0 && !is_end && left <= observer_tail_max && buffer_take(worker, &observer->tail)) {
        memcpy(observer->tail.bytes, from, left);
        observer->tail.end = (uint32_t)left;
        left = 0;
    }
    observer->output.has_answer |= left > 0 && !is_end; // an event that is too large to be read
    memmove(to, from, left);
    return (size_t)(to - bytes) + left;
}

static void keep_document(struct observer *observer, const uint8_t *bytes, size_t size)
{
    struct body_store *bodies = &observer->worker->bodies;
    size_t needed = observer->document_size + size;

    if (observer->is_too_large || size == 0) {
        return;
    }
    // Blocks are sized for requests, and limits.body_size may be small.
    bool has_room = needed <= document_size_max && needed <= bodies->sizes[body_class_count - 1];
    if (has_room && observer->document.bytes == NULL) {
        has_room = body_store_take(bodies, needed, &observer->document);
    } else if (has_room && needed > observer->document.capacity) {
        has_room = body_store_grow(bodies, &observer->document, observer->document_size, needed);
    }
    if (!has_room) {
        observer->is_too_large = true;
        body_store_put(bodies, &observer->document);
        return;
    }
    memcpy(observer->document.bytes + observer->document_size, bytes, size);
    observer->document_size = needed;
}

static void read_document(struct observer *observer, struct slice document)
{
    struct response_event answer = {0};
    response_read_body(observer->api, document, observer_text_chain(observer), &answer);
    observer_note(observer, &answer);
    // The response's own blocks are stored once it has been relayed; they are new to the index.
    if (observer->is_named && observer->chain.key_count > observer->feedback.prompt_keys) {
        prefix_index_prefetch(knowledge_index(observer->worker->knowledge),
                              observer->keys[observer->feedback.prompt_keys]);
    }
}

size_t observer_see(struct observer *observer, uint8_t *bytes, size_t size, bool is_end)
{
    if (observer->watch == OBSERVER_EVENTS) {
        return see_events(observer, bytes, size, is_end);
    }
    if (observer->watch == OBSERVER_DOCUMENT) {
        if (is_end && observer->document_size == 0 && !observer->is_too_large) {
            read_document(observer, slice_of(bytes, size)); // it came in one piece
        } else {
            keep_document(observer, bytes, size);
            if (is_end && !observer->is_too_large) {
                read_document(observer,
                              slice_of(observer->document.bytes, observer->document_size));
            }
        }
    }
    return size;
}

size_t observer_tail_size(const struct observer *observer)
{
    return observer->tail.end;
}

void observer_take_tail(struct observer *observer, uint8_t *bytes)
{
    if (observer->tail.bytes != NULL) {
        memcpy(bytes, observer->tail.bytes, observer->tail.end);
        buffer_put(observer->worker, &observer->tail);
    }
}

// A body that was not understood is left out: it may not be a prompt.
static void observer_record(const struct observer *observer, const struct traffic *traffic)
{
    struct recorder *recorder = observer->worker->recorder;
    const struct feedback *feedback = &observer->feedback;
    const struct response_usage *usage = &observer->usage;

    if (recorder == NULL || !observer->is_named || observer->form == PROMPT_NOTHING) {
        return;
    }
    uint32_t stride = recorder_stride(recorder, observer->chain.block_size);
    uint32_t span_size = stride * observer->chain.block_size;
    struct recorder_entry entry = {
        .arrived_us = observer->arrived_us,
        .session_key = feedback->session_key,
        .prompt_size = observer->text_size,
        .told_tokens = usage->has_prompt_tokens ? usage->prompt_tokens : 0,
        .output_tokens =
            usage->completion_tokens > 0 ? usage->completion_tokens : feedback->load.output_tokens,
        .turn = observer->turn,
        .pool = feedback->decision->pool,
        .span_size = span_size,
        // The mean over 1,024 spans, since the tokens of one are rounded up.
        .span_tokens = (traffic_tokens_of(traffic, (uint64_t)span_size * 1024) + 512) / 1024,
        .is_text = observer->form == PROMPT_TEXT,
    };
    if (!entry.is_text) {
        entry.prompt_size = (uint64_t)feedback->decision->prompt_tokens * sizeof(uint32_t);
        entry.span_tokens = span_size / sizeof(uint32_t);
    }
    recorder_put(recorder, observer->worker->index, &entry, observer->keys, feedback->prompt_keys,
                 stride);
}

// Compares the engine's count of the prompt's tokens with ours.
static void check_dialect(const struct observer *observer)
{
    uint32_t ours = observer->feedback.decision->prompt_tokens;
    uint32_t revoked = 0;
    char space[512];
    struct text names = text_over(space, sizeof(space));

    if (observer->dialect == NULL || !observer->usage.has_prompt_tokens ||
        !dialect_check(observer->dialect, observer->shape, ours, observer->usage.prompt_tokens,
                       &revoked)) {
        return;
    }
    dialect_add_shapes(revoked, &names);
    log_warn_seldom(
        observer->feedback.backend->id,
        "tokenizer %s: backend %s counted %lu tokens in a prompt where we counted %u; requests "
        "with these features are routed by their text from now on: %.*s",
        observer->dialect->name, observer->feedback.backend->url,
        (unsigned long)observer->usage.prompt_tokens, ours, (int)names.size, space);
}

bool observer_is_answered(const struct observer *observer)
{
    return observer->is_too_large || output_is_given(&observer->output);
}

void observer_complete(struct observer *observer)
{
    struct feedback *feedback = &observer->feedback;
    const struct response_usage *usage = &observer->usage;
    struct traffic *traffic = knowledge_traffic(feedback->knowledge, feedback->decision->pool);

    if (!observer->is_success) {
        return;
    }
    if (usage->has_prompt_tokens && observer->text_size > 0) {
        traffic_learn_text(traffic, observer->text_size, usage->prompt_tokens);
    }
    check_dialect(observer);
    observer_record(observer, traffic);
    feedback_complete(feedback,
                      &(struct feedback_usage){.has_cached_tokens = usage->has_cached_tokens,
                                               .cached_tokens = usage->cached_tokens,
                                               .output_tokens = usage->completion_tokens},
                      observer->keys, observer->is_named ? observer->chain.key_count : 0,
                      now_us(observer));
}
