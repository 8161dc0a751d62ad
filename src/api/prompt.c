// SPDX-License-Identifier: Apache-2.0
//
// Values are kept while the body is read and understood when it has ended: keys come in any order
// and more than once, and a body that breaks off says nothing at all.

#include "api/prompt.h"

#include "api/prompt_internal.h"
#include "base/base.h"
#include "base/text.h"

#include <stdlib.h>

enum field {
    FIELD_MODEL,
    FIELD_STREAM,
    FIELD_STREAM_OPTIONS,
    FIELD_INCLUDE_USAGE,
    FIELD_SESSION_ID,
    FIELD_SESSION_PARAMS,
    FIELD_SESSION_PARAMS_ID,
    FIELD_PROMPT_CACHE_KEY,
    FIELD_USER,
    FIELD_CACHE_SALT,
    FIELD_EXTRA_KEY,
    FIELD_LORA_REQUEST,
    FIELD_LORA_REQUEST_NAME,
    FIELD_LORA_NAME,
    FIELD_LORA_PATH,
    FIELD_ADAPTER,
    FIELD_MAX_COMPLETION_TOKENS,
    FIELD_MAX_TOKENS,
    FIELD_MAX_OUTPUT_TOKENS,
    FIELD_N_PREDICT,
    FIELD_SAMPLING_PARAMS,
    FIELD_SAMPLING_PARAMS_MAX_NEW_TOKENS,
    FIELD_SAMPLING_PARAMS_N,
    FIELD_N,
    FIELD_BEST_OF,
    FIELD_TOOLS,
    FIELD_FUNCTIONS,
    FIELD_COUNT,
};

enum { name_size_max = 512 };

// A prompt that is not a conversation: a string, token ids, or a list of such, of which the first
// counts.
struct source {
    enum prompt_form form;
    bool given;
    struct prompt_list list;
    struct slice literal; // a string, without its quotes
    uint64_t token_count;
    uint64_t prompt_count;
};

struct prompt_reader {
    enum prompt_api api;
    struct slice body;
    const uint8_t *inside;         // behind the opening brace of the body
    const uint8_t *options_inside; // and of stream_options
    bool options_empty;
    struct json_value values[FIELD_COUNT];
    struct prompt_turns turns;
    struct prompt_list system;
    struct source text;
    struct source ids;
    struct prompt_list whole;

    uint8_t model[name_size_max];
    uint8_t adapter[name_size_max];
    uint8_t session[name_size_max];
    uint8_t salt[2 * name_size_max + 1];
    uint8_t salt_parts[2][name_size_max];
    struct prompt_pieces pieces;
};

size_t prompt_reader_size(void)
{
    return sizeof(struct prompt_reader);
}

struct prompt_reader *prompt_reader_create(void)
{
    return calloc(1, sizeof(struct prompt_reader));
}

void prompt_reader_destroy(struct prompt_reader **reader)
{
    free(*reader);
    *reader = NULL;
}

static bool ends_with(struct slice text, struct slice tail)
{
    return text.size >= tail.size &&
           memcmp(text.bytes + text.size - tail.size, tail.bytes, tail.size) == 0;
}

enum prompt_api prompt_api_of(struct slice path)
{
    static const struct {
        struct slice path;
        enum prompt_api api;
    } known[] = {
        {PROMPT_NAME("/v1/chat/completions"), PROMPT_CHAT},
        {PROMPT_NAME("/v1/completions"), PROMPT_COMPLETION},
        {PROMPT_NAME("/v1/responses"), PROMPT_RESPONSES},
        {PROMPT_NAME("/v1/embeddings"), PROMPT_EMBEDDING},
        {PROMPT_NAME("/v1/messages"), PROMPT_MESSAGES},
        {PROMPT_NAME("/v1/messages/count_tokens"), PROMPT_MESSAGES},
    };
    const uint8_t *query = path.size > 0 ? memchr(path.bytes, '?', path.size) : NULL;

    if (query != NULL) {
        path.size = (size_t)(query - path.bytes);
    }
    if (path.size > 1 && path.bytes[path.size - 1] == '/') {
        path.size--;
    }
    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (ends_with(path, known[i].path)) {
            return known[i].api;
        }
    }
    // Others have a path that only ends like this one, and another API behind it.
    return slice_is(path, "/generate") ? PROMPT_GENERATE : PROMPT_OTHER;
}

static void keep(struct prompt_walk *walk, const struct prompt_member *member,
                 struct json_value *value)
{
    json_skip(&walk->json, value);
    walk->reader->values[member->slot] = *value;
}

// Members of objects; `group` is the field whose object they are in.
static const struct prompt_member inner_members[] = {
    {.name = PROMPT_NAME("include_usage"),
     .slot = FIELD_INCLUDE_USAGE,
     .group = FIELD_STREAM_OPTIONS},
    {.name = PROMPT_NAME("session_id"),
     .slot = FIELD_SESSION_PARAMS_ID,
     .group = FIELD_SESSION_PARAMS},
    {.name = PROMPT_NAME("max_new_tokens"),
     .slot = FIELD_SAMPLING_PARAMS_MAX_NEW_TOKENS,
     .group = FIELD_SAMPLING_PARAMS},
    {.name = PROMPT_NAME("n"), .slot = FIELD_SAMPLING_PARAMS_N, .group = FIELD_SAMPLING_PARAMS},
    {.name = PROMPT_NAME("lora_name"),
     .slot = FIELD_LORA_REQUEST_NAME,
     .group = FIELD_LORA_REQUEST},
};

static void group_read(struct prompt_walk *walk, const struct prompt_member *member,
                       struct json_value *value)
{
    struct prompt_reader *reader = walk->reader;
    struct json_item item;

    for (size_t i = 0; i < ARRAY_COUNT(inner_members); i++) {
        if (inner_members[i].group == member->slot) {
            reader->values[inner_members[i].slot] = (struct json_value){0};
        }
    }
    reader->values[member->slot] = *value;
    if (value->kind != JSON_OBJECT) {
        return;
    }
    bool empty = true;
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        const struct prompt_member *inner =
            prompt_member_find(inner_members, ARRAY_COUNT(inner_members), item.key);
        empty = false;
        if (inner != NULL && inner->group == member->slot) {
            reader->values[inner->slot] = item.value;
        }
    }
    if (member->slot == FIELD_STREAM_OPTIONS) {
        reader->options_inside = value->raw.bytes + 1;
        reader->options_empty = empty;
    }
}

static void messages_read(struct prompt_walk *walk,
                          [[maybe_unused]] const struct prompt_member *member,
                          struct json_value *value)
{
    prompt_turns_read(walk, value, &walk->reader->turns);
    // Only the responses API takes a string for a conversation.
    walk->reader->turns.given &= value->kind == JSON_ARRAY || walk->reader->api == PROMPT_RESPONSES;
}

static void system_read(struct prompt_walk *walk,
                        [[maybe_unused]] const struct prompt_member *member,
                        struct json_value *value)
{
    prompt_system_read(walk, value, &walk->reader->system);
}

// Prompts have thousands of them, and almost all have fewer digits than would need counting.
static bool is_id(const struct json_value *value)
{
    uint64_t id = 0;
    uint8_t strange = 0;

    if (value->raw.size > 9) {
        return json_uint(value, &id) && id <= UINT32_MAX;
    }
    for (size_t i = 0; i < value->raw.size; i++) {
        strange |= (uint8_t)(value->raw.bytes[i] - '0') > 9;
    }
    return value->kind == JSON_NUMBER && !strange;
}

// Ids up to the end of the array; the cursor has just handed out the first, `item`.  False when one
// of them is not an id.
static bool ids_read(struct prompt_walk *walk, struct json_item *item, struct source *source)
{
    const uint8_t *begin = item->value.raw.bytes;
    const uint8_t *end = NULL;
    bool good = true;
    uint64_t count = 0;

    do {
        good = good && is_id(&item->value);
        end = item->value.raw.bytes + item->value.raw.size;
        // Nine digits are always an id; the last one comes from json_next, so that `end` is right.
        count += 1 + json_skip_ids(&walk->json);
    } while (json_next(&walk->json, item));
    if (good) {
        prompt_note(walk->pieces, &source->list, PIECE_TOKENS,
                    slice_of(begin, (size_t)(end - begin)));
        source->token_count = count;
    }
    return good;
}

// The first prompt of a list, whose other elements are of the same kind.
static bool first_read(struct prompt_walk *walk, struct json_item *item, struct source *source)
{
    if (item->value.kind == JSON_STRING) {
        source->form = PROMPT_TEXT;
        prompt_note(walk->pieces, &source->list, PIECE_TEXT, item->value.raw);
        return true;
    }
    if (item->value.kind != JSON_ARRAY) {
        return false;
    }
    source->form = PROMPT_TOKENS;
    json_enter(&walk->json);
    return json_next(&walk->json, item) && ids_read(walk, item, source);
}

static bool list_read(struct prompt_walk *walk, struct source *source)
{
    struct json_item item;

    json_enter(&walk->json);
    if (!json_next(&walk->json, &item)) {
        return false;
    }
    if (item.value.kind == JSON_NUMBER) {
        source->form = PROMPT_TOKENS;
        return ids_read(walk, &item, source);
    }
    enum json_kind kind = item.value.kind;
    bool good = first_read(walk, &item, source);
    source->prompt_count = 1;
    while (json_next(&walk->json, &item)) {
        good = good && item.value.kind == kind;
        source->prompt_count++;
    }
    return good;
}

static void source_read(struct prompt_walk *walk, struct json_value *value, struct source *source)
{
    bool good = false;

    *source = (struct source){.given = value->kind != JSON_NULL, .prompt_count = 1};
    if (value->kind == JSON_STRING) {
        source->form = PROMPT_TEXT;
        source->literal = value->raw;
        prompt_note(walk->pieces, &source->list, PIECE_TEXT, value->raw);
        good = true;
    } else if (value->kind == JSON_ARRAY) {
        good = list_read(walk, source);
    }
    if (!good) {
        source->form = PROMPT_NOTHING;
    }
}

static void text_read(struct prompt_walk *walk, [[maybe_unused]] const struct prompt_member *member,
                      struct json_value *value)
{
    source_read(walk, value, &walk->reader->text);
}

static void input_ids_read(struct prompt_walk *walk,
                           [[maybe_unused]] const struct prompt_member *member,
                           struct json_value *value)
{
    source_read(walk, value, &walk->reader->ids);
}

#define API(name) (uint16_t)(1 << PROMPT_##name)
#define FIELD(key, where) .name = PROMPT_NAME(key), .slot = (where), .read = keep
#define GROUP(key, where) .name = PROMPT_NAME(key), .slot = (where), .read = group_read
static const struct prompt_member members[] = {
    {FIELD("model", FIELD_MODEL)},
    {.name = PROMPT_NAME("messages"), .read = messages_read, .apis = API(CHAT) | API(MESSAGES)},
    {FIELD("stream", FIELD_STREAM)},
    {GROUP("stream_options", FIELD_STREAM_OPTIONS)},
    {FIELD("max_tokens", FIELD_MAX_TOKENS)},
    {FIELD("max_completion_tokens", FIELD_MAX_COMPLETION_TOKENS)},
    {FIELD("tools", FIELD_TOOLS), .apis = API(CHAT) | API(MESSAGES) | API(RESPONSES)},
    {FIELD("functions", FIELD_FUNCTIONS), .apis = API(CHAT)},
    {.name = PROMPT_NAME("system"), .read = system_read, .apis = API(MESSAGES)},
    {.name = PROMPT_NAME("instructions"), .read = system_read, .apis = API(RESPONSES)},
    {.name = PROMPT_NAME("input"), .read = messages_read, .apis = API(RESPONSES)},
    {.name = PROMPT_NAME("prompt"), .read = text_read, .apis = API(COMPLETION)},
    {.name = PROMPT_NAME("text"), .read = text_read, .apis = API(GENERATE)},
    {.name = PROMPT_NAME("input_ids"),
     .read = input_ids_read,
     .apis = API(CHAT) | API(COMPLETION) | API(GENERATE)},
    {.name = PROMPT_NAME("prompt_token_ids"),
     .read = input_ids_read,
     .apis = API(CHAT) | API(COMPLETION)},
    {FIELD("user", FIELD_USER)},
    {FIELD("n", FIELD_N)},
    {FIELD("best_of", FIELD_BEST_OF)},
    {FIELD("session_id", FIELD_SESSION_ID)},
    {GROUP("session_params", FIELD_SESSION_PARAMS)},
    {FIELD("prompt_cache_key", FIELD_PROMPT_CACHE_KEY)},
    {FIELD("cache_salt", FIELD_CACHE_SALT)},
    {FIELD("extra_key", FIELD_EXTRA_KEY)},
    {GROUP("lora_request", FIELD_LORA_REQUEST)},
    {FIELD("lora_name", FIELD_LORA_NAME)},
    {FIELD("lora_path", FIELD_LORA_PATH)},
    {FIELD("adapter", FIELD_ADAPTER)},
    {FIELD("max_output_tokens", FIELD_MAX_OUTPUT_TOKENS)},
    {FIELD("n_predict", FIELD_N_PREDICT)},
    {GROUP("sampling_params", FIELD_SAMPLING_PARAMS)},
};

static bool has_member(enum prompt_api api, const struct prompt_member *member)
{
    return member->apis == 0 || (member->apis >> api & 1) != 0;
}

// False when the body is not JSON.  A body that is not an object has no members.
static bool body_read(struct prompt_reader *reader, struct slice body)
{
    struct prompt_walk walk = {
        .json = json_open(body), .pieces = &reader->pieces, .reader = reader};
    struct json_item item;

    if (json_next(&walk.json, &item) && item.value.kind == JSON_OBJECT) {
        reader->inside = item.value.raw.bytes + 1;
        json_enter(&walk.json);
        while (json_next(&walk.json, &item)) {
            const struct prompt_member *member =
                prompt_member_find(members, ARRAY_COUNT(members), item.key);
            if (member != NULL && has_member(reader->api, member)) {
                member->read(&walk, member, &item.value);
            }
        }
    }
    return json_close(&walk.json) == STATUS_OK;
}

// The text of a field, or nothing: not a string, too long, or no UTF-8 can stand for it.
static struct slice string_of(const struct prompt_reader *reader, enum field field, uint8_t *space)
{
    const struct json_value *value = &reader->values[field];
    struct slice text = {0};

    if (value->kind != JSON_STRING ||
        json_string_decode(value->raw, space, name_size_max, &text) != STATUS_OK) {
        return (struct slice){0};
    }
    return text;
}

static struct slice first_string(const struct prompt_reader *reader, const enum field *fields,
                                 size_t count, uint8_t *space)
{
    struct slice text = {0};
    for (size_t i = 0; i < count && text.size == 0; i++) {
        text = string_of(reader, fields[i], space);
    }
    return text;
}

// A salt that cannot be decoded still separates, as it is written.
static struct slice salt_part(const struct prompt_reader *reader, enum field field, uint8_t *space)
{
    const struct json_value *value = &reader->values[field];
    struct slice text = string_of(reader, field, space);

    return text.size == 0 && value->kind == JSON_STRING ? value->raw : text;
}

static struct slice salt_of(struct prompt_reader *reader)
{
    struct slice salt = salt_part(reader, FIELD_CACHE_SALT, reader->salt_parts[0]);
    struct slice key = salt_part(reader, FIELD_EXTRA_KEY, reader->salt_parts[1]);

    if (salt.size == 0 || key.size == 0) {
        return salt.size == 0 ? key : salt;
    }
    // A byte that neither of them can contain keeps them apart.
    struct text joined = text_over(reader->salt, sizeof(reader->salt));
    text_add(&joined, salt);
    text_add_str(&joined, "\xff");
    text_add(&joined, key);
    return joined.overflow ? salt : text_slice(&joined);
}

static uint64_t first_number(const struct prompt_reader *reader, const enum field *fields,
                             size_t count)
{
    uint64_t number = 0;
    for (size_t i = 0; i < count && number == 0; i++) {
        json_uint(&reader->values[fields[i]], &number);
    }
    return number;
}

static uint32_t sequences_of(const struct prompt_reader *reader, uint64_t prompt_count)
{
    static const enum field fields[] = {FIELD_N, FIELD_BEST_OF, FIELD_SAMPLING_PARAMS_N};
    uint64_t most = 1;

    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        uint64_t number = 0;
        if (json_uint(&reader->values[fields[i]], &number) && number > most) {
            most = number;
        }
    }
    prompt_count = prompt_count > 0 ? prompt_count : 1;
    if (__builtin_mul_overflow(most, prompt_count, &most) || most > UINT32_MAX) {
        return UINT32_MAX;
    }
    return (uint32_t)most;
}

static void note_tools(struct prompt_reader *reader, enum field field, struct prompt_list *list)
{
    const struct json_value *value = &reader->values[field];
    if (value->kind == JSON_ARRAY && value->raw.size > 2) {
        prompt_note(&reader->pieces, list, PIECE_TOOLS, value->raw);
    }
}

static void conversation_form(struct prompt_reader *reader, struct prompt *out)
{
    struct prompt_list *whole = &reader->whole;

    reader->pieces.limit += prompt_piece_spare;
    note_tools(reader, FIELD_TOOLS, whole);
    note_tools(reader, FIELD_FUNCTIONS, whole);
    out->has_tools = whole->size > 0;
    prompt_join(&reader->pieces, whole, &reader->system);
    out->history_size = out->turns > 0 ? whole->size + reader->turns.history_size : 0;
    prompt_join(&reader->pieces, whole, &reader->turns.list);
    out->text_size = whole->size;
    out->form = PROMPT_TEXT;
}

static void form_resolve(struct prompt_reader *reader, struct prompt *out)
{
    // Ids stand for the whole prompt, whatever else is there to set stop words by.
    const struct source *source = reader->ids.given ? &reader->ids : &reader->text;

    out->turns = reader->turns.answers;
    out->sequences = sequences_of(reader, source->given ? source->prompt_count : 1);
    if (source->given) {
        bool misplaced = reader->ids.given && source->form == PROMPT_TEXT;
        out->form = misplaced ? PROMPT_NOTHING : source->form;
        out->token_count = out->form == PROMPT_TOKENS ? source->token_count : 0;
        out->text_size = out->form == PROMPT_TEXT ? source->list.size : 0;
        if (source->literal.bytes != NULL && !misplaced) {
            out->literal_at = (size_t)(source->literal.bytes - reader->body.bytes) - 1;
            out->literal_size = source->literal.size + 2;
        }
        reader->whole = source->list;
    } else if (reader->turns.given) {
        conversation_form(reader, out);
    }
    if (out->form == PROMPT_NOTHING) {
        reader->whole = (struct prompt_list){0};
        return;
    }
    out->inside_at = (size_t)(reader->inside - reader->body.bytes);
}

static void usage_resolve(const struct prompt_reader *reader, struct prompt *out)
{
    const struct json_value *usage = &reader->values[FIELD_INCLUDE_USAGE];
    enum json_kind options = reader->values[FIELD_STREAM_OPTIONS].kind;

    out->wants_usage = json_is_true(usage);
    if (!out->stream || (out->api != PROMPT_CHAT && out->api != PROMPT_COMPLETION)) {
        return;
    }
    if (options == JSON_ABSENT) {
        out->usage_at = (size_t)(reader->inside - reader->body.bytes);
        out->usage_text = "\"stream_options\":{\"include_usage\":true},";
    } else if (options == JSON_NULL) {
        struct slice null = reader->values[FIELD_STREAM_OPTIONS].raw;
        out->usage_at = (size_t)(null.bytes - reader->body.bytes);
        out->usage_over = null.size;
        out->usage_text = "{\"include_usage\":true}";
    } else if (options == JSON_OBJECT && usage->kind == JSON_ABSENT) {
        out->usage_at = (size_t)(reader->options_inside - reader->body.bytes);
        out->usage_text =
            reader->options_empty ? "\"include_usage\":true" : "\"include_usage\":true,";
    }
}

static void resolve(struct prompt_reader *reader, struct prompt *out)
{
    static const enum field sessions[] = {FIELD_SESSION_ID, FIELD_SESSION_PARAMS_ID,
                                          FIELD_PROMPT_CACHE_KEY, FIELD_USER};
    static const enum field adapters[] = {FIELD_LORA_REQUEST_NAME, FIELD_LORA_NAME, FIELD_LORA_PATH,
                                          FIELD_ADAPTER};
    static const enum field limits[] = {FIELD_MAX_COMPLETION_TOKENS, FIELD_MAX_TOKENS,
                                        FIELD_MAX_OUTPUT_TOKENS, FIELD_N_PREDICT,
                                        FIELD_SAMPLING_PARAMS_MAX_NEW_TOKENS};

    out->model = string_of(reader, FIELD_MODEL, reader->model);
    out->adapter = first_string(reader, adapters, ARRAY_COUNT(adapters), reader->adapter);
    out->session = first_string(reader, sessions, ARRAY_COUNT(sessions), reader->session);
    out->salt = salt_of(reader);
    out->output_max = first_number(reader, limits, ARRAY_COUNT(limits));
    out->stream = json_is_true(&reader->values[FIELD_STREAM]);
    form_resolve(reader, out);
    usage_resolve(reader, out);
}

static void reader_reset(struct prompt_reader *reader, enum prompt_api api, struct slice body)
{
    reader->api = api;
    reader->body = body;
    memset(reader->values, 0, sizeof(reader->values));
    reader->turns = (struct prompt_turns){0};
    reader->system = (struct prompt_list){0};
    reader->text = (struct source){0};
    reader->ids = (struct source){0};
    reader->whole = (struct prompt_list){0};
    reader->pieces.count = 0;
    reader->pieces.limit = prompt_piece_max;
}

void prompt_read(struct prompt_reader *reader, enum prompt_api api, struct slice body,
                 struct prompt *out)
{
    *out = (struct prompt){.api = api, .sequences = 1};
    reader_reset(reader, api, body);
    if (body.size > 0 && body_read(reader, body)) {
        resolve(reader, out);
    }
}

void prompt_hash(struct prompt_reader *reader, const struct prompt *prompt,
                 struct prefix_chain *chain)
{
    ASSERT(prompt->api == reader->api);

    if (prompt->form != PROMPT_NOTHING) {
        prompt_hash_list(&reader->pieces, &reader->whole, chain);
    }
}
