// SPDX-License-Identifier: Apache-2.0
//
// A document is checked as JSON before anything else, so the cursors that walk its parts afterwards cannot
// fail; what is left to distrust is what its members are.

#include "kvevent/kv_json.h"

#include "base/base.h"
#include "json/json.h"

#include <stdlib.h>

// Every member that is looked at, of documents, events, what is in them, and blocks.
#define FIELDS(X)                                                                                  \
    X(attention_dp_rank)                                                                           \
    X(backend)                                                                                     \
    X(backend_id)                                                                                  \
    X(block_hash)                                                                                  \
    X(block_hashes)                                                                                \
    X(block_size)                                                                                  \
    X(blocks)                                                                                      \
    X(cache_level)                                                                                 \
    X(cache_salt)                                                                                  \
    X(data)                                                                                        \
    X(event)                                                                                       \
    X(event_id)                                                                                    \
    X(events)                                                                                      \
    X(extra_keys)                                                                                  \
    X(group_idx)                                                                                   \
    X(kv_cache_spec_kind)                                                                          \
    X(locality)                                                                                    \
    X(lora_id)                                                                                     \
    X(lora_name)                                                                                   \
    X(medium)                                                                                      \
    X(mm_keys)                                                                                     \
    X(parent_block_hash)                                                                           \
    X(parent_hash)                                                                                 \
    X(prefix_hash)                                                                                 \
    X(rank)                                                                                        \
    X(token_ids)                                                                                   \
    X(tokens)                                                                                      \
    X(type)                                                                                        \
    X(version)                                                                                     \
    X(window_size)

enum field {
#define X(name) FIELD_##name,
    FIELDS(X)
#undef X
        field_count,
};
_Static_assert(field_count <= (int)json_find_max, "more names than json_find takes");

static const char *const field_names[] = {
#define X(name) #name,
    FIELDS(X)
#undef X
};

// The members of one object.
struct members {
    struct json_value of[field_count];
};

// One block of TensorRT-LLM's, whose tokens are behind those of the run before.
struct block {
    uint64_t hash;
    uint32_t token_count;
    enum prefix_tier tier;
    bool is_plain;
    struct slice adapter;
    struct slice salt;
};

struct kv_json {
    struct kv_json_owner owner;
    bool takes_all;
    struct kv_json_target target;
    struct kv_json_ids ids;
    uint64_t window_max; // the widest attention of the document; 0: none is told
    struct json events;  // among them
    int64_t event;       // the number of the last one
    struct kv_json_fault fault;
    uint64_t event_backend;
    bool has_event_backend;

    // What is left of the last event: notices that are ready, the last one first.
    struct kv_notice ready[prefix_tier_count];
    uint32_t ready_count;

    // And blocks that are not: those from `blocks` on, and before them one that was read already.
    struct json blocks;
    bool in_blocks;
    bool has_block;
    struct block block;
    struct kv_notice
        run; // what the notices of this event have in common, and what the next is behind

    uint8_t url[kv_json_name_max];
    struct names {
        uint8_t adapter[kv_json_name_max];
        uint8_t salt[kv_json_name_max];
    } names; // of the last event, or of the blocks of a run, where they had escapes
    struct names names_ahead; // of the block behind them
    uint64_t hashes[kv_hash_max];
    uint32_t tokens[kv_token_max];
};

struct kv_json *kv_json_create(void)
{
    // Not cleared: pages that no document needs are never there.
    struct kv_json *reader = malloc(sizeof(*reader));
    if (reader != NULL) {
        memset(reader, 0, offsetof(struct kv_json, url)); // a cursor over nothing
    }
    return reader;
}

void kv_json_destroy(struct kv_json **reader)
{
    free(*reader);
    *reader = NULL;
}

// Of a part of the document, which was checked with it.
static void find(struct slice object, const char *const *names, uint32_t count,
                 struct json_value *out)
{
    enum status status = json_find(object, names, count, out);
    ASSERT(status == STATUS_OK);
}

static void find_members(struct slice object, struct members *out)
{
    find(object, field_names, field_count, out->of);
}

static bool is_none(const struct json_value *value)
{
    return value->kind == JSON_ABSENT || value->kind == JSON_NULL;
}

static bool is_word(const struct json_value *value, const char *word)
{
    return value->kind == JSON_STRING && json_string_is(value->raw, word);
}

static bool read_u32(const struct json_value *value, uint32_t *out)
{
    uint64_t number;
    if (!json_uint(value, &number) || number > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

// Two's complement, so that a hash is the same name whether it was written as signed or not.
static bool read_integer(const struct json_value *value, uint64_t *out)
{
    const uint64_t lowest = (uint64_t)1 << 63;
    struct json_value digits = *value;
    uint64_t number;

    if (json_uint(value, out)) {
        return true;
    }
    if (value->kind != JSON_NUMBER || value->raw.bytes[0] != '-') {
        return false;
    }
    digits.raw = slice_of(value->raw.bytes + 1, value->raw.size - 1);
    if (!json_uint(&digits, &number) || number > lowest) {
        return false;
    }
    *out = 0 - number;
    return true;
}

static bool read_hex(struct slice digits, uint64_t *out)
{
    uint64_t number = 0;
    size_t at = slice_starts_with(digits, "0x") ? 2 : 0;

    if (at == digits.size) {
        return false;
    }
    for (; at < digits.size; at++) {
        int value = ascii_hex_value(digits.bytes[at]);
        if (value < 0) {
            return false;
        }
        number = number << 4 | (uint64_t)value;
    }
    *out = number;
    return true;
}

static bool read_hash(const struct json_value *value, uint64_t *out)
{
    return value->kind == JSON_STRING ? read_hex(value->raw, out) : read_integer(value, out);
}

// What is null is empty.  `space` is of kv_json_name_max bytes.
static bool read_name(const struct json_value *value, uint8_t *space, struct slice *out)
{
    *out = (struct slice){0};
    return is_none(value) ||
           (value->kind == JSON_STRING && value->raw.size <= kv_json_name_max &&
            json_string_decode(value->raw, space, kv_json_name_max, out) == STATUS_OK);
}

// A cursor among the elements of an array that was checked before.
static struct json elements_of(struct slice array)
{
    struct json json = json_open(array);
    struct json_item item;
    bool is_array = json_next(&json, &item) && item.value.kind == JSON_ARRAY;
    ASSERT(is_array);
    json_enter(&json);
    return json;
}

// The next element with all its text.
static bool next_element(struct json *json, struct json_value *out)
{
    struct json_item item;
    if (!json_next(json, &item)) {
        return false;
    }
    *out = item.value;
    return json_skip(json, out);
}

static void fail(struct kv_json *reader, const char *what)
{
    reader->fault = (struct kv_json_fault){.what = what, .event = reader->event};
}

static bool malformed(struct kv_json *reader, const char *what, struct kv_notice *out)
{
    fail(reader, what);
    *out = (struct kv_notice){.kind = KV_NOTICE_MALFORMED};
    return true;
}

static bool unknown(struct kv_json *reader, const char *what, struct kv_notice *out)
{
    fail(reader, what);
    *out = (struct kv_notice){.kind = KV_NOTICE_UNKNOWN};
    return true;
}

static bool cleared(struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_CLEARED, .tier = PREFIX_GPU, .decides = true};
    return true;
}

static enum prefix_tier tier_of_medium(struct slice medium)
{
    static const char *const host[] = {"CPU", "CPU_PINNED", "HOST"};
    if (medium.size == 0 || slice_is_nocase(medium, "GPU")) {
        return PREFIX_GPU;
    }
    for (size_t i = 0; i < ARRAY_COUNT(host); i++) {
        if (slice_is_nocase(medium, host[i])) {
            return PREFIX_HOST;
        }
    }
    return PREFIX_DISK; // or whatever it may be: slow
}

static enum prefix_tier tier_of_level(uint64_t level)
{
    return level < PREFIX_DISK ? (enum prefix_tier)level : PREFIX_DISK;
}

// NULL when it could; otherwise what is wrong.
static const char *read_hashes(struct kv_json *reader, const struct json_value *list,
                               struct kv_notice *out)
{
    struct json_value value;
    uint32_t count = 0;

    if (list->kind != JSON_ARRAY) {
        return "block_hashes is not a list";
    }
    struct json json = elements_of(list->raw);
    while (next_element(&json, &value)) {
        if (count == kv_hash_max) {
            return "block_hashes has more than 65536 hashes";
        }
        if (!read_hash(&value, &reader->hashes[count++])) {
            return "block_hashes has something that is neither an integer of 64 bits nor "
                   "hexadecimal";
        }
    }
    out->hashes = reader->hashes;
    out->hash_count = count;
    return NULL;
}

// Elements that are no numbers (pairs of ids, digests of images) are no ids, but no mistake either.
static const char *read_tokens(struct kv_json *reader, const struct json_value *list,
                               struct kv_notice *out)
{
    struct json_value value;
    uint32_t count = 0;

    out->is_plain = true;
    if (is_none(list)) {
        return NULL;
    }
    if (list->kind != JSON_ARRAY) {
        return "token_ids is not a list";
    }
    struct json json = elements_of(list->raw);
    while (next_element(&json, &value)) {
        if (count == kv_token_max) {
            return "token_ids has more than 1048576 ids";
        }
        if (value.kind != JSON_NUMBER) {
            out->is_plain = false;
            return NULL;
        }
        if (!read_u32(&value, &reader->tokens[count++])) {
            return "token_ids has a number that is no id";
        }
    }
    out->tokens = reader->tokens;
    out->token_count = count;
    return NULL;
}

// Whether there is more to tell blocks apart by than the adapter and the salt that were told beside.
static bool has_extra_keys(const struct json_value *list, const struct kv_notice *notice)
{
    struct json_value value;
    struct json_value key;

    if (is_none(list)) {
        return false;
    }
    if (list->kind != JSON_ARRAY) {
        return true;
    }
    struct json blocks = elements_of(list->raw);
    while (next_element(&blocks, &value)) {
        if (value.kind != JSON_ARRAY) {
            if (value.kind != JSON_NULL) {
                return true;
            }
            continue;
        }
        struct json keys = elements_of(value.raw);
        while (next_element(&keys, &key)) {
            if (key.kind != JSON_STRING ||
                (!slice_equal(key.raw, notice->adapter) && !slice_equal(key.raw, notice->salt))) {
                return true;
            }
        }
    }
    return false;
}

static bool decides(const struct json_value *kind)
{
    return is_none(kind) || is_word(kind, "full_attention") || is_word(kind, "mla_attention") ||
           is_word(kind, "sink_full_attention");
}

// What stores and removals have in common.
static const char *read_place(struct kv_json *reader, const struct members *event,
                              struct kv_notice *out)
{
    const struct json_value *group = &event->of[FIELD_group_idx];
    struct slice medium;

    if (!read_name(&event->of[FIELD_medium], reader->names_ahead.salt, &medium)) {
        return "medium is not a name";
    }
    out->tier = tier_of_medium(medium);
    out->is_remote = is_word(&event->of[FIELD_locality], "REMOTE");
    out->decides = decides(&event->of[FIELD_kv_cache_spec_kind]);
    out->has_group = !is_none(group);
    if (out->has_group && !read_u32(group, &out->group)) {
        return "group_idx is not a number";
    }
    return read_hashes(reader, &event->of[FIELD_block_hashes], out);
}

static const char *read_parent(const struct json_value *parent, struct kv_notice *out)
{
    out->has_parent = !is_none(parent);
    return out->has_parent && !read_hash(parent, &out->parent)
               ? "the parent's hash is neither an integer of 64 bits nor hexadecimal"
               : NULL;
}

static const char *read_names(struct kv_json *reader, const struct members *event,
                              struct kv_notice *out)
{
    if (!read_name(&event->of[FIELD_lora_name], reader->names.adapter, &out->adapter)) {
        return "lora_name is not a name";
    }
    if (!read_name(&event->of[FIELD_cache_salt], reader->names.salt, &out->salt)) {
        return "cache_salt is not a name";
    }
    return NULL;
}

static void hide_tokens(struct kv_notice *notice)
{
    notice->is_plain = false;
    notice->tokens = NULL;
    notice->token_count = 0;
}

static const char *read_content(struct kv_json *reader, const struct members *event,
                                struct kv_notice *out)
{
    const struct json_value *size = &event->of[FIELD_block_size];
    const char *why = read_tokens(reader, &event->of[FIELD_token_ids], out);

    if (why != NULL) {
        return why;
    }
    if (!(is_none(size) && out->token_count == 0) && !read_u32(size, &out->block_tokens)) {
        return "block_size is not a number";
    }
    // Which adapter a bare number means is nobody's knowledge but the engine's.
    bool is_anonymous = out->adapter.size == 0 && !is_none(&event->of[FIELD_lora_id]);
    if (!out->is_plain || is_anonymous || has_extra_keys(&event->of[FIELD_extra_keys], out)) {
        hide_tokens(out);
    } else if (out->decides && out->token_count != (uint64_t)out->hash_count * out->block_tokens) {
        return "token_ids are not block_size for each of block_hashes";
    }
    return NULL;
}

static bool read_stored(struct kv_json *reader, const struct members *event, struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_STORED};
    const char *why = read_place(reader, event, out);
    why = why != NULL ? why : read_parent(&event->of[FIELD_parent_block_hash], out);
    why = why != NULL ? why : read_names(reader, event, out);
    why = why != NULL ? why : read_content(reader, event, out);
    return why == NULL || malformed(reader, why, out);
}

static bool read_removed(struct kv_json *reader, const struct members *event, struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_REMOVED, .is_plain = true};
    const char *why = read_place(reader, event, out);
    return why == NULL || malformed(reader, why, out);
}

// Of several kinds of attention the widest decides.
static struct kv_notice of_window(const struct kv_json *reader, const struct json_value *window,
                                  enum kv_notice_kind kind)
{
    struct kv_notice notice = {.kind = kind, .is_plain = true, .decides = true};
    notice.has_group = read_u32(window, &notice.group);
    notice.decides = !notice.has_group || notice.group >= reader->window_max;
    return notice;
}

// It does not say where they were, so they are gone from everywhere.
static bool read_gone(struct kv_json *reader, const struct members *data,
                      const struct kv_notice *common, struct kv_notice *out)
{
    *out = *common;
    const char *why = read_hashes(reader, &data->of[FIELD_block_hashes], out);
    if (why != NULL) {
        return malformed(reader, why, out);
    }
    for (uint32_t tier = prefix_tier_count - 1; tier > PREFIX_GPU; tier--) {
        out->tier = (enum prefix_tier)tier;
        reader->ready[reader->ready_count++] = *out;
    }
    out->tier = PREFIX_GPU;
    return true;
}

static bool read_level(const struct json_value *value, enum prefix_tier *out)
{
    uint64_t level;
    if (!json_uint(value, &level)) {
        return false;
    }
    *out = tier_of_level(level);
    return true;
}

// A block that was moved: it is in its new tier before it leaves the old one, so that it is known all the
// while.  False: what was updated is nothing to us.
static bool read_moved(struct kv_json *reader, const struct members *data,
                       const struct kv_notice *common, struct kv_notice *out)
{
    static const char *const names[] = {"old_value", "new_value"};
    const struct json_value *level = &data->of[FIELD_cache_level];
    struct json_value values[2];
    enum prefix_tier from;
    enum prefix_tier to;

    if (is_none(level)) {
        return false;
    }
    if (level->kind != JSON_OBJECT) {
        return malformed(reader, "cache_level is not an object", out);
    }
    find(level->raw, names, 2, values);
    if (!read_hash(&data->of[FIELD_block_hash], &reader->hashes[0]) ||
        !read_level(&values[0], &from) || !read_level(&values[1], &to)) {
        return malformed(reader, "an update lacks block_hash, old_value or new_value", out);
    }
    if (from == to) {
        return false;
    }
    *out = *common;
    out->hashes = reader->hashes;
    out->hash_count = 1;
    out->kind = KV_NOTICE_REMOVED;
    out->tier = from;
    reader->ready[reader->ready_count++] = *out;
    out->kind = KV_NOTICE_STORED;
    out->tier = to;
    return true;
}

// The tokens of a block, each an object, behind `used` others.
static const char *read_block_tokens(struct kv_json *reader, struct slice list, uint32_t used,
                                     struct block *out)
{
    static const char *const names[] = {"token_id", "token_extra_id"};
    struct json json = elements_of(list);
    struct json_value token;
    struct json_value values[2];
    uint64_t extra;

    while (next_element(&json, &token)) {
        if (token.kind != JSON_OBJECT) {
            return "a token is not an object";
        }
        if (used + out->token_count == kv_token_max) {
            return "its blocks have more than 1048576 tokens";
        }
        find(token.raw, names, 2, values);
        bool has_extra = !is_none(&values[1]) && !(json_uint(&values[1], &extra) && extra == 0);
        uint32_t *id = &reader->tokens[used + out->token_count++];
        *id = 0;
        out->is_plain = out->is_plain && values[0].kind == JSON_NUMBER && !has_extra;
        if (values[0].kind == JSON_NUMBER && !read_u32(&values[0], id)) {
            return "token_id is a number that is no id";
        }
    }
    return NULL;
}

static const char *read_block(struct kv_json *reader, const struct json_value *value, uint32_t used,
                              struct block *out)
{
    struct members block;

    *out = (struct block){.is_plain = true};
    if (value->kind != JSON_OBJECT) {
        return "a block is not an object";
    }
    find_members(value->raw, &block);
    const struct json_value *images = &block.of[FIELD_mm_keys];
    const struct json_value *level = &block.of[FIELD_cache_level];
    const struct json_value *tokens = &block.of[FIELD_tokens];
    if (!read_hash(&block.of[FIELD_block_hash], &out->hash)) {
        return "block_hash is neither an integer of 64 bits nor hexadecimal";
    }
    if (!is_none(level) && !read_level(level, &out->tier)) {
        return "cache_level is not a number";
    }
    struct names *names = &reader->names_ahead;
    if (!read_name(&block.of[FIELD_lora_name], names->adapter, &out->adapter) ||
        !read_name(&block.of[FIELD_cache_salt], names->salt, &out->salt)) {
        return "lora_name or cache_salt is not a name";
    }
    if (tokens->kind != JSON_ARRAY) {
        return "tokens is not a list";
    }
    bool is_anonymous = out->adapter.size == 0 && !is_none(&block.of[FIELD_lora_id]);
    bool has_images = !is_none(images);
    if (images->kind == JSON_ARRAY) {
        struct json_value image;
        struct json list = elements_of(images->raw);
        has_images = next_element(&list, &image);
    }
    out->is_plain = !is_anonymous && !has_images;
    return read_block_tokens(reader, tokens->raw, used, out);
}

static bool is_alike(const struct block *block, const struct kv_notice *run)
{
    return block->token_count == run->block_tokens && block->tier == run->tier &&
           block->is_plain == run->is_plain && run->hash_count < kv_hash_max;
}

// The next block needs the place where this one's name was put.
static struct slice keep_name(struct slice name, const uint8_t *ahead, uint8_t *space)
{
    if (name.size == 0 || name.bytes != ahead) {
        return name;
    }
    memcpy(space, name.bytes, name.size);
    return slice_of(space, name.size);
}

// The block is the first of a run; its tokens come from where they were read.
static void begin_run(struct kv_json *reader, struct kv_notice *run, uint32_t tokens_at)
{
    const struct block *block = &reader->block;
    struct names *ahead = &reader->names_ahead;

    memmove(reader->tokens, reader->tokens + tokens_at,
            block->token_count * sizeof(reader->tokens[0]));
    run->tokens = reader->tokens;
    run->hashes = reader->hashes;
    run->hash_count = 0;
    run->token_count = 0;
    run->block_tokens = block->token_count;
    run->tier = block->tier;
    run->is_plain = block->is_plain;
    run->adapter = keep_name(block->adapter, ahead->adapter, reader->names.adapter);
    run->salt = keep_name(block->salt, ahead->salt, reader->names.salt);
}

// Blocks of the event as far as they are alike.  False: there are none left.
static bool next_run(struct kv_json *reader, struct kv_notice *out)
{
    struct kv_notice run = reader->run;
    struct json_value value;
    // Where the tokens of a block that was read ahead are.
    uint32_t tokens_at = reader->run.token_count;

    run.hash_count = 0;
    while (reader->has_block || next_element(&reader->blocks, &value)) {
        if (!reader->has_block) {
            tokens_at = run.hash_count > 0 ? run.token_count : 0;
            const char *why = read_block(reader, &value, tokens_at, &reader->block);
            if (why != NULL) {
                reader->in_blocks = false;
                return malformed(reader, why, out);
            }
            reader->has_block = true;
        }
        if (run.hash_count == 0) {
            begin_run(reader, &run, tokens_at);
        } else if (!is_alike(&reader->block, &run)) {
            break;
        }
        reader->hashes[run.hash_count++] = reader->block.hash;
        run.token_count += reader->block.token_count;
        reader->has_block = false;
    }
    reader->in_blocks = reader->has_block;
    if (run.hash_count == 0) {
        return false;
    }
    *out = run;
    if (!run.is_plain) {
        hide_tokens(out);
    }
    reader->run = run;
    reader->run.has_parent = true;
    reader->run.parent = reader->hashes[run.hash_count - 1];
    return true;
}

static bool begin_blocks(struct kv_json *reader, const struct members *data,
                         const struct kv_notice *common, struct kv_notice *out)
{
    const struct json_value *blocks = &data->of[FIELD_blocks];

    reader->run = *common;
    const char *why = read_parent(&data->of[FIELD_parent_hash], &reader->run);
    if (why == NULL && blocks->kind != JSON_ARRAY) {
        why = "blocks is not a list";
    }
    if (why != NULL) {
        return malformed(reader, why, out);
    }
    reader->blocks = elements_of(blocks->raw);
    reader->in_blocks = true;
    reader->has_block = false;
    return next_run(reader, out);
}

enum event_kind {
    EVENT_UNKNOWN,
    EVENT_STORED,
    EVENT_REMOVED,
    EVENT_CLEARED,
    EVENT_UPDATED,
    EVENT_CREATED
};

static enum event_kind kind_of(const struct json_value *type)
{
    static const struct {
        const char *name;
        enum event_kind kind;
    } kinds[] = {
        {"stored", EVENT_STORED},   {"BlockStored", EVENT_STORED},
        {"removed", EVENT_REMOVED}, {"BlockRemoved", EVENT_REMOVED},
        {"cleared", EVENT_CLEARED}, {"AllBlocksCleared", EVENT_CLEARED},
        {"updated", EVENT_UPDATED}, {"created", EVENT_CREATED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (is_word(type, kinds[i].name)) {
            return kinds[i].kind;
        }
    }
    return EVENT_UNKNOWN;
}

static const char unknown_type[] = "its type is not known";

// TensorRT-LLM.  False: it says nothing that matters here.
static bool read_data(struct kv_json *reader, const struct members *event, struct kv_notice *out)
{
    const struct json_value *window = &event->of[FIELD_window_size];
    struct members data;

    find_members(event->of[FIELD_data].raw, &data);
    struct kv_notice stored = of_window(reader, window, KV_NOTICE_STORED);
    struct kv_notice removed = of_window(reader, window, KV_NOTICE_REMOVED);
    switch (kind_of(&data.of[FIELD_type])) {
    case EVENT_STORED:
        return begin_blocks(reader, &data, &stored, out);
    case EVENT_REMOVED:
        return read_gone(reader, &data, &removed, out);
    case EVENT_UPDATED:
        return read_moved(reader, &data, &stored, out);
    case EVENT_CLEARED:
        return cleared(out);
    case EVENT_CREATED: // its numbers begin again as well, which is what tells
        return false;
    case EVENT_UNKNOWN:
        break;
    }
    return unknown(reader, unknown_type, out);
}

// Ranvier.  The hash is one that a router gave to the engine with a request, and we give none.
static bool read_prefix(struct kv_json *reader, const struct members *event, struct kv_notice *out)
{
    const struct json_value *hash = &event->of[FIELD_prefix_hash];
    uint64_t number;

    if (hash->kind != JSON_STRING || !read_hex(hash->raw, &number)) {
        return malformed(reader, "prefix_hash is not hexadecimal", out);
    }
    if (is_word(&event->of[FIELD_event], "evicted")) {
        return cleared(out);
    }
    // What was loaded is not said either, so nothing can be known of it.
    bool is_load = is_word(&event->of[FIELD_event], "loaded");
    return unknown(reader, is_load ? NULL : unknown_type, out);
}

static bool read_event(struct kv_json *reader, const struct members *event, struct kv_notice *out)
{
    if (event->of[FIELD_data].kind == JSON_OBJECT) {
        return read_data(reader, event, out);
    }
    if (event->of[FIELD_event].kind == JSON_STRING) {
        return read_prefix(reader, event, out);
    }
    if (event->of[FIELD_type].kind != JSON_STRING) {
        return malformed(reader, "it has no type", out);
    }
    switch (kind_of(&event->of[FIELD_type])) {
    case EVENT_STORED:
        return read_stored(reader, event, out);
    case EVENT_REMOVED:
        return read_removed(reader, event, out);
    case EVENT_CLEARED:
        return cleared(out);
    default:
        return unknown(reader, unknown_type, out);
    }
}

// Whether the event is one to look at.  What is no number names nobody.
static bool is_ours(struct kv_json *reader, const struct members *event)
{
    uint64_t rank;

    reader->has_event_backend = json_uint(&event->of[FIELD_backend_id], &reader->event_backend);
    if (reader->takes_all) {
        return true;
    }
    if (json_uint(&event->of[FIELD_attention_dp_rank], &rank) && rank != reader->owner.rank) {
        return false;
    }
    return !reader->has_event_backend || reader->event_backend == reader->owner.backend_id;
}

enum status kv_json_next(struct kv_json *reader, struct kv_notice *out)
{
    struct json_value value;
    struct members event;

    for (;;) {
        if (reader->ready_count > 0) {
            *out = reader->ready[--reader->ready_count];
            return STATUS_OK;
        }
        if (reader->in_blocks && next_run(reader, out)) {
            return STATUS_OK;
        }
        reader->fault = (struct kv_json_fault){0};
        reader->has_event_backend = false;
        if (!next_element(&reader->events, &value)) {
            return STATUS_CLOSED;
        }
        reader->event++;
        if (value.kind != JSON_OBJECT) {
            (void)malformed(reader, "it is not an object", out);
            return STATUS_OK;
        }
        find_members(value.raw, &event);
        if (is_ours(reader, &event) && read_event(reader, &event, out)) {
            return STATUS_OK;
        }
    }
}

// Numbers and windows of all events, which must be known before the first is read.
static void survey(struct kv_json *reader, struct json events)
{
    struct json_value value;
    struct members event;
    uint64_t number;

    while (next_element(&events, &value)) {
        if (value.kind != JSON_OBJECT) {
            continue;
        }
        find_members(value.raw, &event);
        if (!is_ours(reader, &event)) {
            continue;
        }
        if (json_uint(&event.of[FIELD_window_size], &number) && number > reader->window_max) {
            reader->window_max = number;
        }
        if (!json_uint(&event.of[FIELD_event_id], &number)) {
            continue;
        }
        struct kv_json_ids *ids = &reader->ids;
        ids->is_broken = ids->is_broken || (ids->is_told && number != ids->last + 1);
        ids->first = ids->is_told ? ids->first : number;
        ids->last = number;
        ids->is_told = true;
    }
}

static const char *read_target(struct kv_json *reader, const struct members *document)
{
    const struct json_value *backend = &document->of[FIELD_backend];
    const struct json_value *rank = &document->of[FIELD_rank];
    struct kv_json_target *target = &reader->target;

    if (backend->kind == JSON_STRING) {
        if (!read_name(backend, reader->url, &target->url) || target->url.size == 0) {
            return "backend is not a URL";
        }
    } else if (!is_none(backend)) {
        target->has_id = json_uint(backend, &target->id);
        if (!target->has_id) {
            return "backend is neither a URL nor an id";
        }
    }
    target->has_rank = !is_none(rank);
    return target->has_rank && !read_u32(rank, &target->rank) ? "rank is not a number" : NULL;
}

// NULL when it is one.
static const char *read_envelope(struct kv_json *reader, struct slice object, struct slice *events)
{
    struct members document;
    uint64_t version;

    find_members(object, &document);
    const struct json_value *type = &document.of[FIELD_type];
    const struct json_value *number = &document.of[FIELD_version];
    if (!is_none(type) && !is_word(type, "cache_event")) {
        return "type is not cache_event";
    }
    if (!is_none(number) && !(json_uint(number, &version) && version == 1)) {
        return "version is not 1";
    }
    if (document.of[FIELD_events].kind != JSON_ARRAY) {
        return "events is missing or not a list";
    }
    *events = document.of[FIELD_events].raw;
    return read_target(reader, &document);
}

// NULL when it is JSON of one of the two forms, and *events is the list in it.
static const char *read_document(struct kv_json *reader, struct slice document,
                                 struct slice *events)
{
    struct json json = json_open(document);
    struct json_value value = {0};

    if (document.size > kv_payload_max) {
        return "it is larger than 64 MiB";
    }
    (void)next_element(&json, &value);
    if (json_close(&json) != STATUS_OK) {
        return "it is not JSON";
    }
    if (value.kind == JSON_OBJECT) {
        return read_envelope(reader, value.raw, events);
    }
    *events = value.raw;
    return value.kind == JSON_ARRAY ? NULL : "it is neither an object nor a list";
}

enum status kv_json_begin(struct kv_json *reader, struct slice document,
                          const struct kv_json_owner *owner)
{
    struct slice events = {0};

    memset(reader, 0, offsetof(struct kv_json, url));
    reader->event = -1;
    reader->takes_all = owner == NULL;
    reader->owner = owner == NULL ? (struct kv_json_owner){0} : *owner;
    const char *why = read_document(reader, document, &events);
    if (why != NULL) {
        fail(reader, why);
        return STATUS_MALFORMED;
    }
    // An envelope of another rank has nothing for this one.
    if (owner == NULL || !reader->target.has_rank || reader->target.rank == owner->rank) {
        reader->events = elements_of(events);
        survey(reader, reader->events);
    }
    return STATUS_OK;
}

struct kv_json_ids kv_json_ids(const struct kv_json *reader)
{
    return reader->ids;
}

struct kv_json_target kv_json_target(const struct kv_json *reader)
{
    return reader->target;
}

bool kv_json_event_backend(const struct kv_json *reader, uint64_t *id)
{
    if (reader->has_event_backend) {
        *id = reader->event_backend;
    }
    return reader->has_event_backend;
}

struct kv_json_fault kv_json_fault(const struct kv_json *reader)
{
    return reader->fault;
}
