// SPDX-License-Identifier: Apache-2.0
//
// One pass over the JSON notes the members of the tables below, in any order.  Once the text has
// proved well-formed to its last byte, the API's `finish` interprets the notes: half an event
// leaves no trace.
//
// Names of members are compared as they stand: engines do not escape the letters of their own
// names.

#include "api/response_body.h"

#include "base/base.h"
#include "json/json.h"

struct response_count {
    bool is_known;
    uint64_t number;
};

// A content block, an output item, a part of one, or a tool call.  Absent members stay empty.
struct block {
    struct slice type;
    struct slice text;
    struct slice name;
    struct json_value arguments; // a string, or a container with all its text
    struct json_value content;   // an array with all its text
};

struct notes {
    struct json json;
    struct response_event event;
    struct slice type;  // of the event
    struct block block; // that the event begins, or the current one of a list

    // Chat and completions.
    bool has_usage;
    bool has_no_choices;         // the array is there and empty
    bool has_first;              // the first choice was found
    struct response_count index; // of the current choice
    struct slice choice_text;
    struct json_value choice_calls;
    struct json_value calls; // of the first choice

    struct slice text;      // of the first choice, or of the delta
    struct json_value list; // of the body: its blocks or items

    struct response_count prompt;
    struct response_count completion;
    struct response_count cached;
    struct response_count cache_read; // Anthropic's: tokens that its input_tokens leaves out
    struct response_count cache_creation;
    struct response_count cache_n; // llama.cpp's timings
    struct response_count prompt_n;
};

// A member that is read, and where it goes.  A table ends with a row without a name, whose `inside`
// is another table that continues it.
struct response_member {
    const char *name;
    size_t name_size;
    void (*read)(struct notes *notes, const struct json_value *value, void *to);
    size_t offset;                        // of a field of struct notes, which `to` points at
    const struct response_member *inside; // instead of `read`: the members of an object
};

#define NAME(text) .name = (text), .name_size = sizeof(text) - 1
#define FIELD(text, how, field) NAME(text), .read = (how), .offset = offsetof(struct notes, field)
#define CALL(text, how) NAME(text), .read = (how)
#define OBJECT(text, members) NAME(text), .inside = (members)

// Most members are of no interest, and differ in size or in the first letter.
static inline bool member_is(const struct response_member *member, struct slice key)
{
    size_t same = 0;

    if (key.size != member->name_size) {
        return false;
    }
    while (same < key.size && key.bytes[same] == (uint8_t)member->name[same]) {
        same++;
    }
    return same == key.size;
}

// Reads the object that json_next has found.
static void read_members(struct notes *notes, const struct response_member *members)
{
    struct json_item item;

    json_enter(&notes->json);
    while (json_next(&notes->json, &item)) {
        const struct response_member *member = members;
        while (member != NULL && !member_is(member, item.key)) {
            member = member[1].name != NULL ? member + 1 : member[1].inside;
        }
        if (member != NULL && member->read != NULL) {
            member->read(notes, &item.value, (char *)notes + member->offset);
        } else if (member != NULL && item.value.kind == JSON_OBJECT) {
            read_members(notes, member->inside);
        }
    }
}

// Values of another type leave the field alone.
static void note_string(struct notes *notes, const struct json_value *value, void *to)
{
    (void)notes;
    if (value->kind == JSON_STRING) {
        *(struct slice *)to = value->raw;
    }
}

// A string, or a container with all of its text.
static void note_whole(struct notes *notes, const struct json_value *value, void *to)
{
    struct json_value whole = *value;
    if (json_skip(&notes->json, &whole)) {
        *(struct json_value *)to = whole;
    }
}

static void note_count(struct notes *notes, const struct json_value *value, void *to)
{
    (void)notes;
    struct response_count *count = to;
    count->is_known |= json_uint(value, &count->number);
}

// The names differ between APIs; the meaning does not, except for Anthropic's.
static const struct response_member details_members[] = {
    {FIELD("cached_tokens", note_count, cached)}, {0}};
static const struct response_member usage_members[] = {
    {FIELD("prompt_tokens", note_count, prompt)},
    {FIELD("input_tokens", note_count, prompt)},
    {FIELD("completion_tokens", note_count, completion)},
    {FIELD("output_tokens", note_count, completion)},
    {FIELD("cached_tokens", note_count, cached)},
    {OBJECT("prompt_tokens_details", details_members)},
    {OBJECT("input_tokens_details", details_members)},
    {FIELD("cache_read_input_tokens", note_count, cache_read)},
    {FIELD("cache_creation_input_tokens", note_count, cache_creation)},
    {0},
};

static void note_usage(struct notes *notes, const struct json_value *value, void *to)
{
    (void)to;
    if (value->kind == JSON_OBJECT) {
        notes->has_usage = true;
        read_members(notes, usage_members);
    }
}

static void note_error(struct notes *notes, const struct json_value *value, void *to)
{
    (void)to;
    notes->event.is_error |= value->kind == JSON_OBJECT || value->kind == JSON_STRING;
}

// SGLang and TensorRT-LLM have errors without an object around them.
static void note_kind(struct notes *notes, const struct json_value *value, void *to)
{
    (void)to;
    notes->event.is_error |= value->kind == JSON_STRING && slice_is(value->raw, "error");
}

// Members that mean the same in all APIs.
static const struct response_member common_members[] = {
    {CALL("usage", note_usage)},
    {CALL("error", note_error)},
    {CALL("object", note_kind)},
    {0},
};

static const struct response_member envelope_members[] = {{CALL("usage", note_usage)}, {0}};

static const struct response_member block_members[] = {
    {FIELD("type", note_string, block.type)},
    {FIELD("text", note_string, block.text)},
    {FIELD("name", note_string, block.name)},
    {FIELD("arguments", note_whole, block.arguments)},
    {FIELD("input", note_whole, block.arguments)},
    {FIELD("content", note_whole, block.content)},
    {0},
};

// Extending the chain.  Without a chain these functions do nothing.

static void add_text(struct prefix_chain *chain, struct slice raw)
{
    if (chain != NULL && raw.size > 0) {
        prompt_add_string(chain, raw);
    }
}

// A call begins with its name; pieces of its arguments follow without one.
static void add_call(struct prefix_chain *chain, const struct block *block)
{
    const struct json_value *arguments = &block->arguments;

    if (chain == NULL) {
        return;
    }
    if (block->name.size > 0) {
        prompt_begin_tool_call(chain, block->name);
    }
    if (arguments->kind == JSON_STRING) {
        add_text(chain, arguments->raw);
    } else if (arguments->kind == JSON_OBJECT || arguments->kind == JSON_ARRAY) {
        prefix_chain_add(chain, arguments->raw);
    }
}

static void add_block(struct prefix_chain *chain, const struct block *block)
{
    if (slice_is(block->type, "text") || slice_is(block->type, "output_text")) {
        add_text(chain, block->text);
    } else if (slice_is(block->type, "tool_use") || slice_is(block->type, "function_call")) {
        add_call(chain, block);
    }
}

// Enters a text that is one array.
static void enter_list(struct json *json)
{
    struct json_item item;
    bool is_list = json_next(json, &item) && item.value.kind == JSON_ARRAY;
    ASSERT(is_list);
    json_enter(json);
}

// Calls `add` for every object of the list, which may be absent.
static void add_list(struct prefix_chain *chain, const struct json_value *list,
                     const struct response_member *members,
                     void (*add)(struct prefix_chain *chain, const struct block *block))
{
    struct notes notes;
    struct json_item item;

    if (chain == NULL || list->kind != JSON_ARRAY) {
        return;
    }
    notes = (struct notes){.json = json_open(list->raw)};
    enter_list(&notes.json);
    while (json_next(&notes.json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            notes.block = (struct block){0};
            read_members(&notes, members);
            add(chain, &notes.block);
        }
    }
}

// An item of a response: a message, which has blocks, or a call.
static void add_item(struct prefix_chain *chain, const struct block *block)
{
    if (slice_is(block->type, "message")) {
        add_list(chain, &block->content, block_members, add_block);
    } else {
        add_block(chain, block);
    }
}

static bool has_items(const struct json_value *list)
{
    struct json json = json_open(list->raw);
    struct json_item item;

    if (list->kind != JSON_ARRAY) {
        return false;
    }
    enter_list(&json);
    return json_next(&json, &item);
}

// Chat and text completions.

// Tokens that are not text of the response.
static void note_token(struct notes *notes, const struct json_value *value, void *to)
{
    (void)to;
    bool is_text = value->kind == JSON_STRING && value->raw.size > 0;
    notes->event.has_token |= is_text || value->kind == JSON_OBJECT;
}

// A delta, or a message.  Reasoning is left out: clients do not send it back, and templates drop
// it.
static const struct response_member message_members[] = {
    {FIELD("content", note_string, choice_text)},
    {FIELD("tool_calls", note_whole, choice_calls)},
    {CALL("reasoning_content", note_token)},
    {CALL("reasoning", note_token)},
    {CALL("function_call", note_token)},
    {CALL("refusal", note_token)},
    {CALL("audio", note_token)},
    {0},
};
static const struct response_member choice_members[] = {
    {FIELD("index", note_count, index)},
    {FIELD("text", note_string, choice_text)},
    {OBJECT("delta", message_members)},
    {OBJECT("message", message_members)},
    {0},
};

static void read_choice(struct notes *notes, uint64_t position)
{
    const struct json_value *calls = &notes->choice_calls;

    notes->index = (struct response_count){.number = position};
    notes->choice_text = (struct slice){0};
    notes->choice_calls = (struct json_value){0};
    read_members(notes, choice_members);
    bool has_calls = calls->kind == JSON_ARRAY && calls->raw.size > strlen("[]");
    notes->event.has_token |= notes->choice_text.size > 0 || has_calls;
    if (notes->index.number == 0 && !notes->has_first) {
        notes->has_first = true;
        notes->text = notes->choice_text;
        notes->calls = notes->choice_calls;
    }
}

static void note_choices(struct notes *notes, const struct json_value *value, void *to)
{
    struct json_item item;
    uint64_t count = 0;
    (void)to;

    if (value->kind != JSON_ARRAY) {
        return;
    }
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

static const struct response_member timings_members[] = {
    {FIELD("cache_n", note_count, cache_n)},
    {FIELD("prompt_n", note_count, prompt_n)},
    {0},
};
static const struct response_member choices_members[] = {
    {CALL("choices", note_choices)},
    {OBJECT("timings", timings_members)},
    {.inside = common_members},
};
static const struct response_member function_members[] = {
    {FIELD("name", note_string, block.name)},
    {FIELD("arguments", note_whole, block.arguments)},
    {0},
};
static const struct response_member call_members[] = {{OBJECT("function", function_members)}, {0}};

static void choices_finish(struct notes *notes, struct prefix_chain *chain)
{
    notes->event.is_usage_only = notes->has_no_choices && notes->has_usage;
    notes->event.text = notes->text;
    if (!notes->cached.is_known) {
        notes->cached = notes->cache_n;
    }
    if (!notes->prompt.is_known && notes->cache_n.is_known && notes->prompt_n.is_known) {
        notes->prompt = notes->prompt_n;
        notes->prompt.number += notes->cache_n.number;
    }
    add_text(chain, notes->text);
    add_list(chain, &notes->calls, call_members, add_call);
}

// Responses.

static const struct response_member response_event_members[] = {
    {FIELD("type", note_string, type)}, {FIELD("delta", note_string, text)},
    {OBJECT("item", block_members)},    {OBJECT("response", envelope_members)},
    {.inside = common_members},
};

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
    if (is_call) {
        // Its arguments follow as deltas, whether or not they are here too.
        add_call(chain, &(struct block){.name = notes->block.name});
    } else if (slice_is(type, "response.output_text.delta") ||
               slice_is(type, "response.function_call_arguments.delta")) {
        add_text(chain, notes->text);
    }
}

static const struct response_member response_body_members[] = {{FIELD("output", note_whole, list)},
                                                               {.inside = common_members}};

static void response_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    notes->event.has_list = notes->list.kind == JSON_ARRAY;
    notes->event.has_output = has_items(&notes->list);
    add_list(chain, &notes->list, block_members, add_item);
}

// Messages.

static const struct response_member message_delta_members[] = {
    {FIELD("text", note_string, text)},
    {FIELD("partial_json", note_string, text)},
    {0},
};
static const struct response_member message_event_members[] = {
    {FIELD("type", note_string, type)},
    {OBJECT("delta", message_delta_members)},
    {OBJECT("content_block", block_members)},
    {OBJECT("message", envelope_members)},
    {.inside = common_members},
};

// Anthropic's input_tokens are those that were neither read from the cache nor written to it.
static void count_whole_prompt(struct notes *notes)
{
    if (notes->cache_read.is_known) {
        notes->cached = notes->cache_read;
    }
    if (notes->prompt.is_known) {
        notes->prompt.number += notes->cache_read.number + notes->cache_creation.number;
    }
}

static void message_event_finish(struct notes *notes, struct prefix_chain *chain)
{
    bool is_delta = slice_is(notes->type, "content_block_delta");
    bool is_start = slice_is(notes->type, "content_block_start");

    count_whole_prompt(notes);
    notes->event.has_output = is_delta || (is_start && slice_is(notes->block.type, "tool_use"));
    notes->event.is_error |= slice_is(notes->type, "error");
    notes->event.is_last = slice_is(notes->type, "message_stop");
    if (is_delta) {
        add_text(chain, notes->text);
    } else if (is_start) {
        // The input is an empty object that stands for the deltas to come.
        notes->block.arguments = (struct json_value){0};
        add_block(chain, &notes->block);
    }
}

// count_tokens responds with input_tokens alone.
static const struct response_member message_body_members[] = {
    {FIELD("content", note_whole, list)},
    {FIELD("input_tokens", note_count, prompt)},
    {.inside = common_members},
};

static void message_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    count_whole_prompt(notes);
    notes->event.has_list = notes->list.kind == JSON_ARRAY;
    notes->event.has_output = has_items(&notes->list);
    add_list(chain, &notes->list, block_members, add_block);
}

// Generate.

static void note_generated(struct notes *notes, const struct json_value *value, void *to)
{
    notes->event.has_output |= value->kind == JSON_STRING;
    note_string(notes, value, to);
}

static void note_generated_ids(struct notes *notes, const struct json_value *value, void *to)
{
    (void)to;
    notes->event.has_output |= value->kind == JSON_ARRAY;
}

static const struct response_member generate_members[] = {
    {FIELD("text", note_generated, text)},
    {CALL("output_ids", note_generated_ids)},
    {CALL("meta_info", note_usage)},
    {.inside = common_members},
};

// Each event of a stream repeats the text so far, so an event's new text is unknown.
static void generate_event_finish(struct notes *notes, struct prefix_chain *chain)
{
    (void)notes;
    (void)chain;
}

static void generate_body_finish(struct notes *notes, struct prefix_chain *chain)
{
    add_text(chain, notes->text);
}

struct response_reader {
    const struct response_member *members;
    void (*finish)(struct notes *notes, struct prefix_chain *chain);
};

enum { EVENT, BODY };

static const struct response_reader readers[][2] = {
    [PROMPT_OTHER] = {{choices_members, choices_finish}, {choices_members, choices_finish}},
    [PROMPT_CHAT] = {{choices_members, choices_finish}, {choices_members, choices_finish}},
    [PROMPT_COMPLETION] = {{choices_members, choices_finish}, {choices_members, choices_finish}},
    [PROMPT_RESPONSES] = {{response_event_members, response_event_finish},
                          {response_body_members, response_body_finish}},
    [PROMPT_EMBEDDING] = {{choices_members, choices_finish}, {choices_members, choices_finish}},
    [PROMPT_MESSAGES] = {{message_event_members, message_event_finish},
                         {message_body_members, message_body_finish}},
    [PROMPT_GENERATE] = {{generate_members, generate_event_finish},
                         {generate_members, generate_body_finish}},
};

static void read_response(enum prompt_api api, int kind, struct slice text,
                          struct prefix_chain *chain, struct response_event *out)
{
    ASSERT(api < ARRAY_COUNT(readers));

    const struct response_reader *reader = &readers[api][kind];
    struct notes notes = {.json = json_open(text)};
    struct json_item item;

    *out = (struct response_event){0};
    bool is_there = json_next(&notes.json, &item);
    if (is_there && item.value.kind == JSON_ARRAY) {
        // SGLang sends several samples or prompts as a list; the first one counts.
        json_enter(&notes.json);
        is_there = json_next(&notes.json, &item);
    }
    if (is_there && item.value.kind == JSON_OBJECT) {
        read_members(&notes, reader->members);
    }
    if (json_close(&notes.json) != STATUS_OK) {
        return;
    }
    // The text of other responses does not become part of a next prompt.
    bool has_text = api != PROMPT_OTHER && api != PROMPT_EMBEDDING;
    reader->finish(&notes, has_text ? chain : NULL);
    *out = notes.event;
    out->usage = (struct response_usage){
        .has_prompt_tokens = notes.prompt.is_known,
        .has_cached_tokens = notes.cached.is_known,
        .prompt_tokens = notes.prompt.number,
        .cached_tokens = notes.cached.number,
        .completion_tokens = notes.completion.number,
    };
}

void response_read_event(enum prompt_api api, struct slice data, struct prefix_chain *chain,
                         struct response_event *out)
{
    if (slice_is(data, "[DONE]")) {
        *out = (struct response_event){.is_last = true};
        return;
    }
    read_response(api, EVENT, data, chain, out);
}

void response_read_body(enum prompt_api api, struct slice body, struct prefix_chain *chain,
                        struct response_event *out)
{
    read_response(api, BODY, body, chain, out);
}
