// SPDX-License-Identifier: Apache-2.0
//
// One pass over the JSON notes what is of interest, in whatever order it comes; once the text has
// proved well-formed to its last byte, the API's own `finish` says what the notes mean.  So half an
// event leaves no trace, and members may come in any order.
//
// Names of members are compared as they stand: no engine escapes the letters of its own names.

#include "api/answer.h"

#include "base/base.h"
#include "json/json.h"

// A content block, an output item or a part of one.  What is missing or of another type is absent.
struct block {
    struct slice type;
    struct slice text;
    struct slice name;
    struct json_value arguments; // a string, or a container with all its text
    struct json_value content;   // an array with all its text
};

struct timings {
    bool has_cache_n;
    bool has_prompt_n;
    uint64_t cache_n;
    uint64_t prompt_n;
};

struct notes {
    struct json json;
    struct answer_event event;
    bool has_usage;
    bool has_no_choices; // the array is there and empty
    bool has_first;      // the first choice was found
    bool has_cache_read;
    struct slice type;       // of the event
    struct slice text;       // of the first choice, or of the delta
    struct json_value calls; // of the first choice
    struct json_value list;  // of the body: its blocks or items
    struct block block;      // that the event begins
    struct timings timings;  // llama.cpp's
    uint64_t cache_read;     // Anthropic's: tokens that its input_tokens leaves out
    uint64_t cache_creation;
};

struct reader {
    void (*member)(struct notes *notes, const struct json_item *item);
    void (*finish)(struct notes *notes, struct prefix_chain *chain); // NULL: nothing to extend
};

// A string goes to `out`, anything else leaves it alone.
static void note_string(const struct json_value *value, struct slice *out)
{
    if (value->kind == JSON_STRING) {
        *out = value->raw;
    }
}

// A string, or a container with all of its text.
static void note_value(struct json *json, const struct json_value *value, struct json_value *out)
{
    struct json_value whole = *value;
    if (json_skip(json, &whole)) {
        *out = whole;
    }
}

static void add_text(struct prefix_chain *chain, struct slice raw)
{
    if (raw.size > 0) {
        prompt_add_string(chain, raw);
    }
}

// A call begins with its name; pieces of its arguments follow without one.
static void add_call(struct prefix_chain *chain, struct slice name,
                     const struct json_value *arguments)
{
    if (name.size > 0) {
        prompt_begin_tool_call(chain, name);
    }
    if (arguments->kind == JSON_STRING) {
        add_text(chain, arguments->raw);
    } else if (arguments->kind == JSON_OBJECT || arguments->kind == JSON_ARRAY) {
        prefix_chain_add(chain, arguments->raw);
    }
}

// Enters the only value of a document when it is of that kind.
static bool enter_document(struct json *json, enum json_kind kind)
{
    struct json_item item;
    if (!json_next(json, &item) || item.value.kind != kind) {
        return false;
    }
    json_enter(json);
    return true;
}

static void read_details(struct notes *notes)
{
    struct answer_usage *usage = &notes->event.usage;
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "cached_tokens")) {
            usage->has_cached_tokens |= json_uint(&item.value, &usage->cached_tokens);
        }
    }
}

// The members have different names in each API and the same meaning, but for Anthropic's.
static void read_usage(struct notes *notes)
{
    struct answer_usage *usage = &notes->event.usage;
    struct json_item item;

    notes->has_usage = true;
    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "prompt_tokens") || slice_is(item.key, "input_tokens")) {
            usage->has_prompt_tokens |= json_uint(&item.value, &usage->prompt_tokens);
        } else if (slice_is(item.key, "completion_tokens") || slice_is(item.key, "output_tokens")) {
            json_uint(&item.value, &usage->completion_tokens);
        } else if (slice_is(item.key, "cached_tokens")) {
            usage->has_cached_tokens |= json_uint(&item.value, &usage->cached_tokens);
        } else if (slice_is(item.key, "prompt_tokens_details") ||
                   slice_is(item.key, "input_tokens_details")) {
            if (item.value.kind == JSON_OBJECT) {
                read_details(notes);
            }
        } else if (slice_is(item.key, "cache_read_input_tokens")) {
            notes->has_cache_read |= json_uint(&item.value, &notes->cache_read);
        } else if (slice_is(item.key, "cache_creation_input_tokens")) {
            json_uint(&item.value, &notes->cache_creation);
        }
    }
}

// Members that mean the same in all APIs.
static void common_member(struct notes *notes, const struct json_item *item)
{
    enum json_kind kind = item->value.kind;

    if (slice_is(item->key, "usage")) {
        if (kind == JSON_OBJECT) {
            read_usage(notes);
        }
    } else if (slice_is(item->key, "error")) {
        notes->event.is_error |= kind == JSON_OBJECT || kind == JSON_STRING;
    } else if (slice_is(item->key, "object")) {
        // SGLang and TensorRT-LLM have errors without an object around them.
        notes->event.is_error |= kind == JSON_STRING && slice_is(item->value.raw, "error");
    }
}

// Chat and text completions: a delta, or a message.  Reasoning is left out: clients do not send it back, and templates drop it.
static void read_message(struct notes *notes, struct slice *text, struct json_value *calls)
{
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "content")) {
            note_string(&item.value, text);
        } else if (slice_is(item.key, "tool_calls") && item.value.kind == JSON_ARRAY) {
            note_value(&notes->json, &item.value, calls);
        } else if (slice_is(item.key, "reasoning_content") || slice_is(item.key, "reasoning")) {
            notes->event.has_token |= item.value.kind == JSON_STRING && item.value.raw.size > 0;
        }
    }
}

static void read_choice(struct notes *notes, uint64_t position)
{
    struct slice text = {0};
    struct json_value calls = {0};
    uint64_t index = position;
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "index")) {
            json_uint(&item.value, &index);
        } else if (slice_is(item.key, "text")) {
            note_string(&item.value, &text);
        } else if ((slice_is(item.key, "delta") || slice_is(item.key, "message")) &&
                   item.value.kind == JSON_OBJECT) {
            read_message(notes, &text, &calls);
        }
    }
    notes->event.has_token |= text.size > 0 || calls.raw.size > strlen("[]");
    if (index == 0 && !notes->has_first) {
        notes->has_first = true;
        notes->text = text;
        notes->calls = calls;
    }
}

static void read_choices(struct notes *notes)
{
    struct json_item item;
    uint64_t count = 0;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            read_choice(notes, count);
        }
        count++;
    }
    notes->has_no_choices = count == 0;
    notes->event.has_output = count > 0;
}

static void read_timings(struct notes *notes)
{
    struct timings *timings = &notes->timings;
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "cache_n")) {
            timings->has_cache_n |= json_uint(&item.value, &timings->cache_n);
        } else if (slice_is(item.key, "prompt_n")) {
            timings->has_prompt_n |= json_uint(&item.value, &timings->prompt_n);
        }
    }
}

static void choices_member(struct notes *notes, const struct json_item *item)
{
    if (slice_is(item->key, "choices") && item->value.kind == JSON_ARRAY) {
        read_choices(notes);
    } else if (slice_is(item->key, "timings") && item->value.kind == JSON_OBJECT) {
        read_timings(notes);
    } else {
        common_member(notes, item);
    }
}

static void add_function(struct json *json, struct prefix_chain *chain)
{
    struct slice name = {0};
    struct json_value arguments = {0};
    struct json_item item;

    json_enter(json);
    while (json_next(json, &item)) {
        if (slice_is(item.key, "name")) {
            note_string(&item.value, &name);
        } else if (slice_is(item.key, "arguments")) {
            note_value(json, &item.value, &arguments);
        }
    }
    add_call(chain, name, &arguments);
}

static void add_calls(struct slice calls, struct prefix_chain *chain)
{
    struct json json = json_open(calls);
    struct json_item item;

    if (!enter_document(&json, JSON_ARRAY)) {
        return;
    }
    while (json_next(&json, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            continue;
        }
        json_enter(&json);
        while (json_next(&json, &item)) {
            if (slice_is(item.key, "function") && item.value.kind == JSON_OBJECT) {
                add_function(&json, chain);
            }
        }
    }
}

static void choices_finish(struct notes *notes, struct prefix_chain *chain)
{
    struct answer_usage *usage = &notes->event.usage;
    const struct timings *timings = &notes->timings;

    notes->event.is_usage_only = notes->has_no_choices && notes->has_usage;
    notes->event.text = notes->text;
    if (!usage->has_cached_tokens && timings->has_cache_n) {
        usage->has_cached_tokens = true;
        usage->cached_tokens = timings->cache_n;
    }
    if (!usage->has_prompt_tokens && timings->has_cache_n && timings->has_prompt_n) {
        usage->has_prompt_tokens = true;
        usage->prompt_tokens = timings->cache_n + timings->prompt_n;
    }
    if (chain == NULL) {
        return;
    }
    add_text(chain, notes->text);
    if (notes->calls.kind == JSON_ARRAY) {
        add_calls(notes->calls.raw, chain);
    }
}

// Blocks and items, of responses and of messages.
static void read_block(struct json *json, struct block *out)
{
    struct json_item item;

    *out = (struct block){0};
    json_enter(json);
    while (json_next(json, &item)) {
        if (slice_is(item.key, "type")) {
            note_string(&item.value, &out->type);
        } else if (slice_is(item.key, "text")) {
            note_string(&item.value, &out->text);
        } else if (slice_is(item.key, "name")) {
            note_string(&item.value, &out->name);
        } else if (slice_is(item.key, "arguments") || slice_is(item.key, "input")) {
            note_value(json, &item.value, &out->arguments);
        } else if (slice_is(item.key, "content")) {
            note_value(json, &item.value, &out->content);
        }
    }
}

static void add_block(struct prefix_chain *chain, const struct block *block)
{
    if (slice_is(block->type, "text") || slice_is(block->type, "output_text")) {
        add_text(chain, block->text);
    } else if (slice_is(block->type, "tool_use") || slice_is(block->type, "function_call")) {
        add_call(chain, block->name, &block->arguments);
    }
}

// Blocks that have no blocks inside.
static void add_blocks(struct slice list, struct prefix_chain *chain)
{
    struct json json = json_open(list);
    struct json_item item;
    struct block block;

    if (!enter_document(&json, JSON_ARRAY)) {
        return;
    }
    while (json_next(&json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            read_block(&json, &block);
            add_block(chain, &block);
        }
    }
}

// Items of a response: messages, which have blocks, and calls.
static void add_items(struct slice list, struct prefix_chain *chain)
{
    struct json json = json_open(list);
    struct json_item item;
    struct block block;

    if (!enter_document(&json, JSON_ARRAY)) {
        return;
    }
    while (json_next(&json, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            continue;
        }
        read_block(&json, &block);
        if (slice_is(block.type, "message") && block.content.kind == JSON_ARRAY) {
            add_blocks(block.content.raw, chain);
        } else {
            add_block(chain, &block);
        }
    }
}

static bool is_filled(const struct json_value *list)
{
    struct json json = json_open(list->raw);
    struct json_item item;
    return list->kind == JSON_ARRAY && enter_document(&json, JSON_ARRAY) && json_next(&json, &item);
}

// The answer so far, in an event about all of it.
static void read_envelope(struct notes *notes)
{
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "usage") && item.value.kind == JSON_OBJECT) {
            read_usage(notes);
        }
    }
}

static void response_event_member(struct notes *notes, const struct json_item *item)
{
    if (slice_is(item->key, "type")) {
        note_string(&item->value, &notes->type);
    } else if (slice_is(item->key, "delta")) {
        note_string(&item->value, &notes->text);
    } else if (slice_is(item->key, "item") && item->value.kind == JSON_OBJECT) {
        read_block(&notes->json, &notes->block);
    } else if (slice_is(item->key, "response") && item->value.kind == JSON_OBJECT) {
        read_envelope(notes);
    } else {
        common_member(notes, item);
    }
}

static bool ends_in_delta(struct slice type)
{
    static const char ending[] = ".delta";
    const size_t size = sizeof(ending) - 1;
    return type.size > size && memcmp(type.bytes + type.size - size, ending, size) == 0;
}

static void response_event_finish(struct notes *notes, struct prefix_chain *chain)
{
    struct slice type = notes->type;
    bool is_call = slice_is(type, "response.output_item.added") &&
                   slice_is(notes->block.type, "function_call");
    bool is_failure = slice_is(type, "response.failed");

    notes->event.has_output = is_call || ends_in_delta(type);
    notes->event.is_error |= is_failure || slice_is(type, "error");
    notes->event.is_last =
        is_failure || slice_is(type, "response.completed") || slice_is(type, "response.incomplete");
    if (chain == NULL) {
        return;
    }
    if (is_call) {
        // Its arguments follow as deltas, whether or not they are here too.
        add_call(chain, notes->block.name, &(struct json_value){0});
    } else if (slice_is(type, "response.output_text.delta") ||
               slice_is(type, "response.function_call_arguments.delta")) {
        add_text(chain, notes->text);
    }
}

static void response_body_member(struct notes *notes, const struct json_item *item)
{
    if (slice_is(item->key, "output")) {
        note_value(&notes->json, &item->value, &notes->list);
    } else {
        common_member(notes, item);
    }
}

static void response_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    notes->event.has_output = is_filled(&notes->list);
    if (chain != NULL && notes->event.has_output) {
        add_items(notes->list.raw, chain);
    }
}

static void read_message_delta(struct notes *notes)
{
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        if (slice_is(item.key, "text") || slice_is(item.key, "partial_json")) {
            note_string(&item.value, &notes->text);
        }
    }
}

static void message_event_member(struct notes *notes, const struct json_item *item)
{
    if (slice_is(item->key, "type")) {
        note_string(&item->value, &notes->type);
    } else if (slice_is(item->key, "delta") && item->value.kind == JSON_OBJECT) {
        read_message_delta(notes);
    } else if (slice_is(item->key, "content_block") && item->value.kind == JSON_OBJECT) {
        read_block(&notes->json, &notes->block);
    } else if (slice_is(item->key, "message") && item->value.kind == JSON_OBJECT) {
        read_envelope(notes);
    } else {
        common_member(notes, item);
    }
}

// Anthropic's input_tokens are those that were neither read from the cache nor written to it.
static void count_whole_prompt(struct notes *notes)
{
    struct answer_usage *usage = &notes->event.usage;

    if (notes->has_cache_read) {
        usage->has_cached_tokens = true;
        usage->cached_tokens = notes->cache_read;
    }
    if (usage->has_prompt_tokens) {
        usage->prompt_tokens += notes->cache_read + notes->cache_creation;
    }
}

static void message_event_finish(struct notes *notes, struct prefix_chain *chain)
{
    bool is_delta = slice_is(notes->type, "content_block_delta");
    bool is_start = slice_is(notes->type, "content_block_start");
    bool is_call = is_start && slice_is(notes->block.type, "tool_use");

    count_whole_prompt(notes);
    notes->event.has_output = is_delta || is_call;
    notes->event.is_error |= slice_is(notes->type, "error");
    notes->event.is_last = slice_is(notes->type, "message_stop");
    if (chain == NULL) {
        return;
    }
    if (is_delta) {
        add_text(chain, notes->text);
    } else if (is_start) {
        // The input is an empty object that stands for the deltas to come.
        notes->block.arguments = (struct json_value){0};
        add_block(chain, &notes->block);
    }
}

static void message_body_member(struct notes *notes, const struct json_item *item)
{
    if (slice_is(item->key, "content")) {
        note_value(&notes->json, &item->value, &notes->list);
    } else {
        common_member(notes, item);
    }
}

static void message_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    count_whole_prompt(notes);
    notes->event.has_output = is_filled(&notes->list);
    if (chain != NULL && notes->event.has_output) {
        add_blocks(notes->list.raw, chain);
    }
}

static void generate_member(struct notes *notes, const struct json_item *item)
{
    enum json_kind kind = item->value.kind;

    if (slice_is(item->key, "text")) {
        note_string(&item->value, &notes->text);
        notes->event.has_output |= kind == JSON_STRING;
    } else if (slice_is(item->key, "output_ids")) {
        notes->event.has_output |= kind == JSON_ARRAY;
    } else if (slice_is(item->key, "meta_info") && kind == JSON_OBJECT) {
        read_usage(notes);
    } else {
        common_member(notes, item);
    }
}

// Each event of a stream has the whole text so far: which of it is new is not known here.
static void generate_event_finish(struct notes *notes, struct prefix_chain *chain)
{
    (void)notes;
    (void)chain;
}

static void generate_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    if (chain != NULL) {
        add_text(chain, notes->text);
    }
}

static const struct reader event_readers[] = {
    [PROMPT_OTHER] = {choices_member, choices_finish},
    [PROMPT_CHAT] = {choices_member, choices_finish},
    [PROMPT_COMPLETION] = {choices_member, choices_finish},
    [PROMPT_RESPONSES] = {response_event_member, response_event_finish},
    [PROMPT_EMBEDDING] = {choices_member, choices_finish},
    [PROMPT_MESSAGES] = {message_event_member, message_event_finish},
    [PROMPT_GENERATE] = {generate_member, generate_event_finish},
};

static const struct reader body_readers[] = {
    [PROMPT_OTHER] = {choices_member, choices_finish},
    [PROMPT_CHAT] = {choices_member, choices_finish},
    [PROMPT_COMPLETION] = {choices_member, choices_finish},
    [PROMPT_RESPONSES] = {response_body_member, response_body_finish},
    [PROMPT_EMBEDDING] = {choices_member, choices_finish},
    [PROMPT_MESSAGES] = {message_body_member, message_body_finish},
    [PROMPT_GENERATE] = {generate_member, generate_body_finish},
};

static void read_answer(const struct reader *reader, struct slice text, struct prefix_chain *chain,
                        struct answer_event *out)
{
    struct notes notes = {.json = json_open(text)};
    struct json_item item;

    *out = (struct answer_event){0};
    bool is_there = json_next(&notes.json, &item);
    if (is_there && item.value.kind == JSON_ARRAY) {
        // SGLang answers several samples or prompts with a list; the first one counts.
        json_enter(&notes.json);
        is_there = json_next(&notes.json, &item);
    }
    if (is_there && item.value.kind == JSON_OBJECT) {
        json_enter(&notes.json);
        while (json_next(&notes.json, &item)) {
            reader->member(&notes, &item);
        }
    }
    if (json_close(&notes.json) != STATUS_OK) {
        return;
    }
    reader->finish(&notes, chain);
    *out = notes.event;
}

// The text of other responses does not become part of a next prompt.
static struct prefix_chain *chain_of(enum prompt_api api, struct prefix_chain *chain)
{
    return api == PROMPT_OTHER || api == PROMPT_EMBEDDING ? NULL : chain;
}

void answer_read_event(enum prompt_api api, struct slice data, struct prefix_chain *chain,
                       struct answer_event *out)
{
    ASSERT(api < ARRAY_COUNT(event_readers));

    if (slice_is(data, "[DONE]")) {
        *out = (struct answer_event){.is_last = true};
        return;
    }
    read_answer(&event_readers[api], data, chain_of(api, chain), out);
}

void answer_read_body(enum prompt_api api, struct slice body, struct prefix_chain *chain,
                      struct answer_event *out)
{
    ASSERT(api < ARRAY_COUNT(body_readers));

    read_answer(&body_readers[api], body, chain_of(api, chain), out);
}
