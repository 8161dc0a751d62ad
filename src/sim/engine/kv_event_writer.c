// SPDX-License-Identifier: Apache-2.0
//
// One table of fields for each kind of event, in the order of the array form.  A release knows the
// first so many of them; engines only ever added at the end.

#include "sim/engine/kv_event_writer.h"

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"

enum shape { ARRAY, MAP };

enum flag {
    RANK = 1,
    REPLAY_TOPIC = 2,
    SIGNED = 4,
    DIGEST = 8,
    MERGE = 16,
    SALT_MAP = 32,
};

static const struct kv_event_format formats[] = {
#define FORMAT(text, shape, stored, removed, flags, host, words)                                   \
    {                                                                                              \
        .name = (text),                                                                            \
        .host_medium = (host),                                                                     \
        .summary = (words),                                                                        \
        .stored_fields = (stored),                                                                 \
        .removed_fields = (removed),                                                               \
        .is_map = (shape) == MAP,                                                                  \
        .has_rank = ((flags)&RANK) != 0,                                                           \
        .replays_topic = ((flags)&REPLAY_TOPIC) != 0,                                              \
        .is_signed = ((flags)&SIGNED) != 0,                                                        \
        .has_digest = ((flags)&DIGEST) != 0,                                                       \
        .merges = ((flags)&MERGE) != 0,                                                            \
        .salts_by_map = ((flags)&SALT_MAP) != 0,                                                   \
    },
#include "sim/engine/kv_event_formats.def"
#undef FORMAT
};

const struct kv_event_format *kv_event_format_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(formats); i++) {
        if (strcmp(formats[i].name, name) == 0) {
            return &formats[i];
        }
    }
    return NULL;
}

const struct kv_event_format *kv_event_format_at(uint32_t index)
{
    return index < ARRAY_COUNT(formats) ? &formats[index] : NULL;
}

// Msgpack: a byte that says what follows, and a big-endian number.

static void add_tagged(struct text *out, uint8_t tag, uint64_t number, uint32_t width)
{
    uint8_t bytes[9] = {tag};
    for (uint32_t i = 0; i < width; i++) {
        bytes[1 + i] = (uint8_t)(number >> (8 * (width - 1 - i)));
    }
    text_add(out, slice_of(bytes, 1 + width));
}

static void add_nil(struct text *out)
{
    add_tagged(out, 0xc0, 0, 0);
}

// Each number in its shortest form, as the encoders of the engines write it.
static void add_unsigned(struct text *out, uint64_t number)
{
    if (number < 0x80) {
        add_tagged(out, (uint8_t)number, 0, 0);
    } else if (number <= UINT8_MAX) {
        add_tagged(out, 0xcc, number, 1);
    } else if (number <= UINT16_MAX) {
        add_tagged(out, 0xcd, number, 2);
    } else if (number <= UINT32_MAX) {
        add_tagged(out, 0xce, number, 4);
    } else {
        add_tagged(out, 0xcf, number, 8);
    }
}

static void add_signed(struct text *out, int64_t number)
{
    if (number >= 0) {
        add_unsigned(out, (uint64_t)number);
    } else if (number >= -32) {
        add_tagged(out, (uint8_t)number, 0, 0);
    } else if (number >= INT8_MIN) {
        add_tagged(out, 0xd0, (uint64_t)number, 1);
    } else if (number >= INT16_MIN) {
        add_tagged(out, 0xd1, (uint64_t)number, 2);
    } else if (number >= INT32_MIN) {
        add_tagged(out, 0xd2, (uint64_t)number, 4);
    } else {
        add_tagged(out, 0xd3, (uint64_t)number, 8);
    }
}

static void event_add_float(struct text *out, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof(bits));
    add_tagged(out, 0xcb, bits, 8);
}

static void add_array(struct text *out, uint32_t count)
{
    if (count < 16) {
        add_tagged(out, (uint8_t)(0x90 | count), 0, 0);
    } else if (count <= UINT16_MAX) {
        add_tagged(out, 0xdc, count, 2);
    } else {
        add_tagged(out, 0xdd, count, 4);
    }
}

static void add_map(struct text *out, uint32_t count)
{
    ASSERT(count < 16);
    add_tagged(out, (uint8_t)(0x80 | count), 0, 0);
}

static void event_add_string(struct text *out, const char *string)
{
    struct slice bytes = slice_str(string);
    if (bytes.size < 32) {
        add_tagged(out, (uint8_t)(0xa0 | bytes.size), 0, 0);
    } else if (bytes.size <= UINT8_MAX) {
        add_tagged(out, 0xd9, bytes.size, 1);
    } else if (bytes.size <= UINT16_MAX) {
        add_tagged(out, 0xda, bytes.size, 2);
    } else {
        add_tagged(out, 0xdb, bytes.size, 4);
    }
    text_add(out, bytes);
}

// The first 24 bytes stand for those of a real digest: any, but always the same for a hash.
void kv_digest(uint64_t hash, uint8_t out[kv_digest_size])
{
    struct rng rng = {.state = hash};
    for (uint32_t word = 0; word < 4; word++) {
        uint64_t bits = word < 3 ? rng_next(&rng) : hash;
        for (uint32_t i = 0; i < 8; i++) {
            out[8 * word + i] = (uint8_t)(bits >> (56 - 8 * i));
        }
    }
}

static void add_hash(struct text *out, struct kv_hash_form form, uint64_t hash)
{
    if (form.is_digest && form.format->has_digest) {
        uint8_t digest[kv_digest_size];
        kv_digest(hash, digest);
        add_tagged(out, 0xc4, sizeof(digest), 1);
        text_add(out, slice_of(digest, sizeof(digest)));
    } else if (form.format->is_signed) {
        add_signed(out, (int64_t)hash);
    } else {
        add_unsigned(out, hash);
    }
}

// A field is a member of struct kv_event at an offset, or one of the kinds below FIELD_SIZE, which
// are written by hand.  In the map form, fields with `may_lack` are left out when they are nil.
enum field_kind {
    FIELD_TEXT,   // const char *; NULL: nil
    FIELD_NUMBER, // uint32_t; 0: nil
    FIELD_SIZE,   // uint32_t, never nil
    FIELD_TYPE,
    FIELD_HASHES,
    FIELD_PARENT,
    FIELD_TOKENS,
    FIELD_EXTRA_KEYS,
    FIELD_GROUP,
};

struct kv_event_field {
    const char *name;
    size_t offset; // of texts, numbers and sizes
    enum field_kind kind;
    bool may_lack;
};

static const char *event_text(const struct kv_event *event, const struct kv_event_field *field)
{
    return *(const char *const *)((const char *)event + field->offset);
}

static uint32_t event_number(const struct kv_event *event, const struct kv_event_field *field)
{
    return *(const uint32_t *)((const char *)event + field->offset);
}

static bool field_is_nil(const struct kv_event *event, const struct kv_event_field *field)
{
    switch (field->kind) {
    case FIELD_TEXT:
        return event_text(event, field) == NULL;
    case FIELD_NUMBER:
        return event_number(event, field) == 0;
    case FIELD_PARENT:
        return !event->has_parent;
    case FIELD_EXTRA_KEYS:
        return event->token_count == 0;
    case FIELD_GROUP:
        return !event->has_group;
    default:
        return false;
    }
}

// Parts of a block's hash beside its tokens: the adapter in all blocks, the salt in the first.
static void add_extra_keys(struct text *out, const struct kv_event *event)
{
    add_array(out, event->hash_count);
    for (uint32_t i = 0; i < event->hash_count; i++) {
        const char *salt = i == 0 && !event->has_parent ? event->salt : NULL;
        uint32_t count = (event->lora_name != NULL) + (salt != NULL);
        if (count == 0) {
            add_nil(out);
            continue;
        }
        add_array(out, count);
        if (event->lora_name != NULL) {
            event_add_string(out, event->lora_name);
        }
        if (salt != NULL) {
            event_add_string(out, salt);
        }
    }
}

static void add_hashes(struct text *out, struct kv_hash_form form, const struct kv_event *event)
{
    add_array(out, event->hash_count);
    for (uint32_t i = 0; i < event->hash_count; i++) {
        add_hash(out, form, event->hashes[i]);
    }
}

static void event_add_tokens(struct text *out, const struct kv_event *event)
{
    add_array(out, event->token_count);
    for (uint32_t i = 0; i < event->token_count; i++) {
        add_unsigned(out, event->tokens[i]);
    }
}

static void add_field(struct text *out, struct kv_hash_form form, const struct kv_event *event,
                      const struct kv_event_field *field)
{
    static const char *const type_names[] = {
        [KV_EVENT_STORED] = "BlockStored",
        [KV_EVENT_REMOVED] = "BlockRemoved",
        [KV_EVENT_CLEARED] = "AllBlocksCleared",
    };

    if (field_is_nil(event, field)) {
        add_nil(out);
        return;
    }
    switch (field->kind) {
    case FIELD_TEXT:
        event_add_string(out, event_text(event, field));
        break;
    case FIELD_NUMBER:
    case FIELD_SIZE:
        add_unsigned(out, event_number(event, field));
        break;
    case FIELD_TYPE:
        event_add_string(out, type_names[event->kind]);
        break;
    case FIELD_HASHES:
        add_hashes(out, form, event);
        break;
    case FIELD_PARENT:
        add_hash(out, form, event->parent);
        break;
    case FIELD_TOKENS:
        event_add_tokens(out, event);
        break;
    case FIELD_EXTRA_KEYS:
        add_extra_keys(out, event);
        break;
    case FIELD_GROUP:
        add_unsigned(out, event->group);
        break;
    }
}

#define OFFSET(member) offsetof(struct kv_event, member)
static const struct kv_event_field stored_fields[] = {
    {"type", 0, FIELD_TYPE, false},
    {"block_hashes", 0, FIELD_HASHES, false},
    {"parent_block_hash", 0, FIELD_PARENT, false},
    {"token_ids", 0, FIELD_TOKENS, false},
    {"block_size", OFFSET(block_tokens), FIELD_SIZE, false},
    {"lora_id", OFFSET(lora_id), FIELD_NUMBER, false},
    {"medium", OFFSET(medium), FIELD_TEXT, false},
    {"lora_name", OFFSET(lora_name), FIELD_TEXT, false},
    {"extra_keys", 0, FIELD_EXTRA_KEYS, true},
    {"group_idx", 0, FIELD_GROUP, true},
    {"kv_cache_spec_kind", OFFSET(spec_kind), FIELD_TEXT, true},
    {"kv_cache_spec_sliding_window", OFFSET(window), FIELD_NUMBER, true},
    {"locality", OFFSET(locality), FIELD_TEXT, true},
};

static const struct kv_event_field removed_fields[] = {
    {"type", 0, FIELD_TYPE, false},
    {"block_hashes", 0, FIELD_HASHES, false},
    {"medium", OFFSET(medium), FIELD_TEXT, false},
    {"group_idx", 0, FIELD_GROUP, true},
    {"locality", OFFSET(locality), FIELD_TEXT, true},
};
#undef OFFSET

struct field_list {
    const struct kv_event_field *fields;
    uint32_t count;
};

static struct field_list event_fields_of(const struct kv_event_format *format,
                                         enum kv_event_kind kind)
{
    switch (kind) {
    case KV_EVENT_STORED:
        ASSERT(format->stored_fields <= ARRAY_COUNT(stored_fields));
        return (struct field_list){stored_fields, format->stored_fields};
    case KV_EVENT_REMOVED:
        ASSERT(format->removed_fields <= ARRAY_COUNT(removed_fields));
        return (struct field_list){removed_fields, format->removed_fields};
    case KV_EVENT_CLEARED:
        break;
    }
    return (struct field_list){removed_fields, 1};
}

static bool map_has_field(const struct kv_event *event, const struct kv_event_field *field)
{
    return !field->may_lack || !field_is_nil(event, field);
}

static void write_map(struct text *out, struct kv_hash_form form, const struct kv_event *event,
                      struct field_list list)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < list.count; i++) {
        count += map_has_field(event, &list.fields[i]);
    }
    add_map(out, count);
    for (uint32_t i = 0; i < list.count; i++) {
        if (map_has_field(event, &list.fields[i])) {
            event_add_string(out, list.fields[i].name);
            add_field(out, form, event, &list.fields[i]);
        }
    }
}

static void write_array(struct text *out, struct kv_hash_form form, const struct kv_event *event,
                        struct field_list list)
{
    bool is_salted =
        form.format->salts_by_map && event->kind == KV_EVENT_STORED && event->salt != NULL;
    add_array(out, list.count + is_salted);
    for (uint32_t i = 0; i < list.count; i++) {
        add_field(out, form, event, &list.fields[i]);
    }
    if (is_salted) {
        add_map(out, 1);
        event_add_string(out, "cache_salt");
        event_add_string(out, event->salt);
    }
}

void kv_event_write(struct kv_hash_form form, const struct kv_event *event, struct text *out)
{
    struct field_list list = event_fields_of(form.format, event->kind);
    if (form.format->is_map) {
        write_map(out, form, event, list);
    } else {
        write_array(out, form, event, list);
    }
}

void kv_batch_write(const struct kv_event_format *format, const struct kv_batch *batch,
                    struct text *out)
{
    add_array(out, format->has_rank ? 3 : 2);
    event_add_float(out, batch->seconds);
    add_array(out, batch->event_count);
    text_add(out, batch->events);
    if (format->has_rank && batch->rank >= 0) {
        add_unsigned(out, (uint32_t)batch->rank);
    } else if (format->has_rank) {
        add_nil(out);
    }
}
