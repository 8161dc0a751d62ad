// SPDX-License-Identifier: Apache-2.0

#include "dialect/token_reader.h"

#include "base/base.h"
#include "base/date.h"
#include "base/hash.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    // The values of a message take some hundred bytes; texts are not copied.  Templates join and
    // cut texts, so there is also room for several copies of the prompt.
    arena_size_min = 1 << 20,
    arena_copies = 8,
    why_size = dialect_error_size,
    // A chat of 60,000 messages takes less than half of it.  All steps take about 0.1 s.
    step_max = 4 * 1000 * 1000,
    // The greatest difference between our clock and the engine's.
    clock_skew_s = 2,
    // Text of one event, or of a whole response.
    response_size_max = 65536,
};

struct token_thread {
    const struct dialect_set *set;
    uint32_t number;
    struct tokenizer_scratch *scratches[dialect_max]; // by dialect
    uint8_t *response_text;
    uint32_t *response_ids;
    size_t response_id_max;
};

struct token_reader {
    struct token_thread *thread;
    size_t text_max;
    struct arena arena;
    uint8_t *text;
    uint32_t *ids;
    size_t id_max;

    // The current request.
    struct dialect *dialect;
    struct memo_task task;
    uint32_t shape;
    bool is_counted; // a client's request, not a case of certify.c
    char why[why_size];
};

static struct tokenizer_scratch *thread_scratch_of(const struct token_thread *thread,
                                                   const struct dialect *dialect)
{
    for (uint32_t i = 0; i < thread->set->count; i++) {
        if (thread->set->dialects[i] == dialect) {
            return thread->scratches[i];
        }
    }
    ASSERT(false);
    return NULL;
}

struct token_thread *token_thread_create(const struct dialect_set *set, uint32_t number)
{
    ASSERT(set->count <= dialect_max);
    struct token_thread *thread = calloc(1, sizeof(*thread));
    bool complete = thread != NULL;

    if (!complete) {
        return NULL;
    }
    *thread = (struct token_thread){.set = set, .number = number};
    for (uint32_t i = 0; complete && i < set->count; i++) {
        thread->scratches[i] = tokenizer_scratch_create(set->dialects[i]->tokenizer);
        complete = thread->scratches[i] != NULL;
        size_t bound = tokenizer_bound(set->dialects[i]->tokenizer, response_size_max);
        thread->response_id_max = bound > thread->response_id_max ? bound : thread->response_id_max;
    }
    thread->response_text = malloc(response_size_max);
    thread->response_ids = malloc((thread->response_id_max + 1) * sizeof(uint32_t));
    if (!complete || thread->response_text == NULL || thread->response_ids == NULL) {
        token_thread_destroy(&thread);
    }
    return thread;
}

void token_thread_destroy(struct token_thread **thread_ptr)
{
    struct token_thread *thread = *thread_ptr;
    *thread_ptr = NULL;

    if (thread == NULL) {
        return;
    }
    for (uint32_t i = 0; i < dialect_max; i++) {
        tokenizer_scratch_destroy(&thread->scratches[i]);
    }
    free(thread->response_text);
    free(thread->response_ids);
    free(thread);
}

const struct dialect_set *token_thread_set(const struct token_thread *thread)
{
    return thread == NULL ? NULL : thread->set;
}

bool token_thread_add_response(struct token_thread *thread, const struct dialect *dialect,
                               struct slice raw, struct prefix_chain *chain)
{
    struct slice text = {0};
    size_t count = 0;

    if (raw.size > response_size_max ||
        json_string_decode(raw, thread->response_text, response_size_max, &text) != STATUS_OK) {
        return false;
    }
    struct tokenizer_input input = {.text = text, .continues = true, .is_continued = true};
    if (tokenizer_encode(dialect->tokenizer, thread_scratch_of(thread, dialect), &input,
                         thread->response_ids, thread->response_id_max, &count) != STATUS_OK) {
        return false;
    }
    prefix_chain_add(chain, slice_of(thread->response_ids, count * sizeof(uint32_t)));
    return true;
}

struct token_reader *token_reader_create(struct token_thread *thread, size_t text_max)
{
    struct token_reader *reader = calloc(1, sizeof(*reader));
    size_t arena_size = (arena_size_min + arena_copies * text_max + 63) / 64 * 64;

    if (reader == NULL) {
        return NULL;
    }
    *reader = (struct token_reader){.thread = thread, .text_max = text_max};
    for (uint32_t i = 0; i < thread->set->count; i++) {
        size_t bound = tokenizer_bound(thread->set->dialects[i]->tokenizer, text_max);
        reader->id_max = bound > reader->id_max ? bound : reader->id_max;
    }
    reader->text = malloc(text_max);
    reader->ids = malloc((reader->id_max + 1) * sizeof(uint32_t));
    reader->arena = arena_over(aligned_alloc(64, arena_size), arena_size);
    if (reader->text == NULL || reader->ids == NULL || reader->arena.bytes == NULL) {
        token_reader_destroy(&reader);
    }
    return reader;
}

void token_reader_destroy(struct token_reader **reader_ptr)
{
    struct token_reader *reader = *reader_ptr;
    *reader_ptr = NULL;

    if (reader == NULL) {
        return;
    }
    free(reader->arena.bytes);
    free(reader->ids);
    free(reader->text);
    free(reader);
}

const char *token_reader_why(const struct token_reader *reader)
{
    return reader->why;
}

struct slice token_reader_text(const struct token_reader *reader)
{
    return reader->task.input.text;
}

static enum status token_reader_refuse(struct token_reader *reader, enum status status,
                                       const char *why)
{
    snprintf(reader->why, why_size, "%s", why);
    return status;
}

static struct template_time template_time_of(uint64_t wall_s, int32_t utc_offset_s)
{
    int64_t local_s = (int64_t)wall_s + utc_offset_s;
    int64_t days = local_s / 86400;
    int64_t in_day = local_s % 86400;

    if (in_day < 0) {
        in_day += 86400;
        days--;
    }
    struct date date = date_of_days(days);
    return (struct template_time){
        .year = date.year,
        .month = date.month,
        .day = date.day,
        .year_day = date.year_day,
        .weekday = date.weekday,
        .hour = (uint8_t)(in_day / 3600),
        .minute = (uint8_t)(in_day / 60 % 60),
        .second = (uint8_t)(in_day % 60),
    };
}

static bool may_use_shape(const struct token_request *request, uint32_t shape)
{
    return request->any_feature || (shape & ~dialect_shapes(request->dialect)) == 0;
}

static enum status token_reader_render(struct token_reader *reader,
                                       const struct token_request *request,
                                       const struct template *template, const struct chat *chat)
{
    struct text out = text_over(reader->text, reader->text_max);
    struct template_output output = {.text = &out};
    struct template_error why = {0};
    enum status status = template_render(
        template,
        &(struct template_input){
            .variables = chat->variables,
            .now = template_time_of(request->wall_s, request->dialect->utc_offset_s),
            .step_max = step_max,
        },
        &reader->arena, &output, &why);
    if (status == STATUS_OK && output.used_time &&
        dialect_is_midnight(request->dialect, request->wall_s, clock_skew_s)) {
        return token_reader_refuse(reader, STATUS_MALFORMED,
                                   "it has a date, which is about to change");
    }
    // No special tokens: the template has written those that the engine's tokenizer would add.
    reader->task.input = (struct tokenizer_input){.text = text_slice(&out)};
    return status == STATUS_OK ? STATUS_OK : token_reader_refuse(reader, status, why.text);
}

static enum status token_reader_begin_chat(struct token_reader *reader,
                                           const struct token_request *request)
{
    const struct dialect *dialect = request->dialect;
    const struct dialect_chat *how = &dialect->chat;
    struct value_room room = {.arena = &reader->arena, .steps_left = step_max};
    struct chat chat = {0};

    if (how->template == NULL) {
        return token_reader_refuse(reader, STATUS_MALFORMED, dialect->chat_error);
    }
    arena_reset(&reader->arena);
    enum status status = chat_read(&how->rules, request->body, &room, &chat);
    if (status == STATUS_OK && chat.has_tools && dialect->tool_chat.template != NULL) {
        how = &dialect->tool_chat;
        status = chat_read(&how->rules, request->body, &room, &chat);
    }
    if (status != STATUS_OK) {
        return token_reader_refuse(reader, status, room.error);
    }
    reader->shape = chat.shape;
    if (!may_use_shape(request, chat.shape)) {
        return token_reader_refuse(reader, STATUS_MALFORMED,
                                   "it uses a feature that is not certified");
    }
    return token_reader_render(reader, request, how->template, &chat);
}

// The text of a completion, or of SGLang's own API.
static enum status token_reader_begin_text(struct token_reader *reader,
                                           const struct token_request *request)
{
    enum { PROMPT, ADDS, TRUNCATES, SUFFIX, EMBEDS, FIELD_COUNT };
    const char *names[FIELD_COUNT] = {
        [PROMPT] = request->api == PROMPT_GENERATE ? "text" : "prompt",
        [ADDS] = "add_special_tokens",
        [TRUNCATES] = "truncate_prompt_tokens",
        [SUFFIX] = "suffix",
        [EMBEDS] = "prompt_embeds",
    };
    struct json_value values[FIELD_COUNT] = {0};
    struct slice text = {0};

    if (!may_use_shape(request, CHAT_COMPLETION_SHAPE)) {
        return token_reader_refuse(reader, STATUS_MALFORMED, "completions are not certified");
    }
    enum status status = json_find(request->body, names, FIELD_COUNT, values);
    if (status != STATUS_OK || values[PROMPT].kind != JSON_STRING) {
        return token_reader_refuse(reader, STATUS_MALFORMED, "the prompt is not one text");
    }
    for (uint32_t i = TRUNCATES; i < FIELD_COUNT; i++) {
        if (!json_is_unset(&values[i])) {
            return token_reader_refuse(reader, STATUS_MALFORMED, names[i]);
        }
    }
    status = json_string_decode(values[PROMPT].raw, reader->text, reader->text_max, &text);
    if (status != STATUS_OK || text.size > reader->text_max) {
        return token_reader_refuse(reader, status == STATUS_OK ? STATUS_TOO_LARGE : status,
                                   "the prompt");
    }
    // Without escapes the text lies in the body, which token_reader_continue does not have.
    if (text.bytes != reader->text && text.size > 0) {
        memcpy(reader->text, text.bytes, text.size);
    }
    reader->shape = CHAT_COMPLETION_SHAPE;
    bool is_off = values[ADDS].kind == JSON_BOOL && !json_is_true(&values[ADDS]);
    reader->task.input = (struct tokenizer_input){
        .text = slice_of(reader->text, text.size),
        .adds_special = !is_off,
    };
    return STATUS_OK;
}

static void token_reader_count(const struct token_reader *reader, atomic_uint_fast64_t *counter,
                               uint64_t more)
{
    if (reader->is_counted) {
        atomic_fetch_add_explicit(counter, more, memory_order_relaxed);
    }
}

enum status token_reader_begin(struct token_reader *reader, const struct token_request *request,
                               size_t portion, struct token_result *out)
{
    enum status status = STATUS_MALFORMED;

    ASSERT(request->dialect != NULL);
    reader->dialect = request->dialect;
    reader->is_counted = !request->any_feature;
    reader->task = (struct memo_task){
        .memo = reader->thread->set->memo,
        .thread = reader->thread->number,
        .tokenizer = request->dialect->tokenizer,
        .space = request->salt.size > 0 ? hash_bytes(request->salt, 0) : 0,
        .scratch = thread_scratch_of(reader->thread, request->dialect),
        .ids = reader->ids,
        .capacity = reader->id_max,
    };
    switch (request->api) {
    case PROMPT_CHAT:
        status = token_reader_begin_chat(reader, request);
        break;
    case PROMPT_COMPLETION:
    case PROMPT_GENERATE:
        status = token_reader_begin_text(reader, request);
        break;
    default:
        status = token_reader_refuse(reader, STATUS_MALFORMED, "there are no rules for this API");
        break;
    }
    if (status != STATUS_OK) {
        token_reader_count(reader, &request->dialect->shared.by_text_count, 1);
        return status;
    }
    memo_begin(&reader->task);
    return token_reader_continue(reader, portion, out);
}

enum status token_reader_continue(struct token_reader *reader, size_t portion,
                                  struct token_result *out)
{
    struct memo_task *task = &reader->task;
    struct dialect *dialect = reader->dialect;
    ASSERT(dialect != NULL); // token_reader_begin was called
    enum status status = memo_continue(task, portion);

    if (status != STATUS_OK) {
        token_reader_count(reader, &dialect->shared.by_text_count, 1);
        return token_reader_refuse(reader, status, "the text cannot be encoded");
    }
    if (task->done < task->input.text.size) {
        return STATUS_AGAIN;
    }
    ASSERT(task->count <= reader->id_max);
    token_reader_count(reader, &dialect->shared.by_ids_count, 1);
    token_reader_count(reader, &dialect->shared.text_bytes, task->input.text.size);
    token_reader_count(reader, &dialect->shared.known_bytes, task->known_bytes);
    *out = (struct token_result){
        .dialect = dialect,
        .ids = reader->ids,
        .count = (uint32_t)task->count,
        .shape = reader->shape,
    };
    return STATUS_OK;
}
