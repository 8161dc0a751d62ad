// SPDX-License-Identifier: Apache-2.0
//
// One table of fields serves both forms of event: maps have them by name, arrays by place.  A field is
// read as soon as it comes, whatever the kind of the event, which in a map may come last; what takes more
// than one field to understand waits for the end.

#include "kvevent/kv_notice.h"

#include "base/base.h"
#include "base/text.h"
#include "kvevent/kv_extra_internal.h"
#include "kvevent/kv_words.h"
#include "kvevent/msgpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    no_field = UINT32_MAX,
    hash_size = 9,  // of a hash as an integer of 64 bits
    echo_max = 120, // bytes
    stretch_ids = 96,
    stretch_hashes = stretch_ids / 16, // which is what most blocks have
};

// A removal of one block, as it was written.  vLLM tells each block that goes by an event of its own, and
// these differ in nothing but the hash.
struct echo {
    uint32_t size; // 0: none
    uint32_t hash_at;
    uint8_t bytes[echo_max];
    struct kv_notice notice;
};

struct kv_reader {
    // The batch.
    double seconds;
    kv_foresee_fn foresee; // or NULL
    void *foresee_owner;
    struct msgpack cursor;
    enum status status; // OK: its events are being read
    uint64_t events_left;
    uint64_t members_left; // behind the events
    int64_t rank;
    bool is_map;

    // The event.
    enum kv_notice_kind kind;
    bool is_faulty;
    bool has_hashes;
    uint32_t field_next; // in a map: where to look for its next name
    uint32_t copy_count; // of `copies`
    struct slice adapter_id;
    struct kv_key_list extra_keys;
    struct kv_key_list media_keys;
    char adapter_digits[24];
    const uint8_t *wide_hash; // where the only one is, if it is an integer of 64 bits; or NULL

    struct echo echo;

    // What a notice points at.  Not cleared: pages that no event needs are never there.
    uint64_t hashes[kv_hash_max];
    uint32_t tokens[kv_token_max];
    uint32_t copies[kv_hash_max];
    struct kv_extras extras;
};

struct kv_reader *kv_reader_create(void)
{
    struct kv_reader *reader = malloc(sizeof(*reader));
    if (reader != NULL) {
        memset(reader, 0, offsetof(struct kv_reader, hashes));
        reader->status = STATUS_CLOSED;
        reader->rank = -1;
    }
    return reader;
}

void kv_reader_destroy(struct kv_reader **reader)
{
    free(*reader);
    *reader = NULL;
}

// Values.  Each returns false when it makes no sense; where it stopped then does not matter.

// Nil is empty.
static bool read_notice_text(const struct msgpack_value *value, struct slice *out)
{
    *out = value->bytes;
    return value->kind == MSGPACK_STRING || value->kind == MSGPACK_NIL;
}

static bool read_u32(const struct msgpack_value *value, uint32_t *out)
{
    *out = (uint32_t)value->number;
    return value->kind == MSGPACK_UNSIGNED && value->number <= UINT32_MAX;
}

static bool read_hash(const struct msgpack_value *value, uint64_t *out)
{
    switch (value->kind) {
    case MSGPACK_UNSIGNED:
    case MSGPACK_NEGATIVE:
        *out = value->number;
        return true;
    case MSGPACK_BINARY:
    case MSGPACK_STRING:
        break;
    default:
        return false;
    }
    size_t size = value->bytes.size;
    *out = 0;
    for (size_t i = size > 8 ? size - 8 : 0; i < size; i++) {
        *out = *out << 8 | value->bytes.bytes[i];
    }
    return true;
}

// Fields.  Each is given its value, of a container the head; returns false when it makes no sense.
typedef bool (*field_fn)(struct kv_reader *reader, const struct msgpack_value *value,
                         struct kv_notice *notice);

static const struct {
    const char *name;
    enum kv_notice_kind kind;
} kinds[] = {
    {"BlockStored", KV_NOTICE_STORED},
    {"BlockRemoved", KV_NOTICE_REMOVED},
    {"AllBlocksCleared", KV_NOTICE_CLEARED},
};

static bool read_type(struct kv_reader *reader, const struct msgpack_value *value,
                      struct kv_notice *notice)
{
    (void)notice;
    if (value->kind != MSGPACK_STRING) {
        return false;
    }
    reader->kind = KV_NOTICE_UNKNOWN;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (slice_is(value->bytes, kinds[i].name)) {
            reader->kind = kinds[i].kind;
        }
    }
    return true;
}

static bool read_hashes(struct kv_reader *reader, const struct msgpack_value *value,
                        struct kv_notice *notice)
{
    struct msgpack *cursor = &reader->cursor;
    struct msgpack_value item;

    if (value->kind != MSGPACK_ARRAY || value->number > kv_hash_max) {
        return false;
    }
    uint32_t count = (uint32_t)value->number;
    const uint8_t *first = cursor->at;
    uint32_t done = msgpack_integers(cursor, reader->hashes, count);
    reader->wide_hash = count == 1 && cursor->at == first + hash_size ? first : NULL;
    for (; done < count; done++) {
        if (!msgpack_next(cursor, &item) || !read_hash(&item, &reader->hashes[done])) {
            return false;
        }
    }
    notice->hashes = reader->hashes;
    notice->hash_count = count;
    reader->has_hashes = true;
    return true;
}

static bool read_parent(struct kv_reader *reader, const struct msgpack_value *value,
                        struct kv_notice *notice)
{
    (void)reader;
    notice->has_parent = value->kind != MSGPACK_NIL;
    return !notice->has_parent || read_hash(value, &notice->parent);
}

// Tells the next hashes, of which so many are told.  Returns how many are then.
static uint32_t foretell(const struct kv_reader *reader, const struct kv_notice *notice,
                         uint32_t told)
{
    ASSERT(told <= notice->hash_count);
    uint32_t left = notice->hash_count - told;
    uint32_t count = left < stretch_hashes ? left : stretch_hashes;
    if (reader->foresee == NULL || count == 0) {
        return told;
    }
    reader->foresee(reader->foresee_owner, notice->hashes + told, count);
    return told + count;
}

// Ids up to the first element that is not one.  The hashes are foretold in stretches: prefetching all at once
// would stall.
static uint32_t read_token_ids(struct kv_reader *reader, const struct kv_notice *notice,
                               uint32_t count)
{
    ASSERT(count <= kv_token_max);
    uint32_t told = 0;
    uint32_t done = 0;
    uint32_t read;
    do {
        uint32_t left = count - done;
        told = foretell(reader, notice, told);
        read = msgpack_ids(&reader->cursor, reader->tokens + done,
                           left < stretch_ids ? left : stretch_ids);
        done += read;
    } while (read == stretch_ids);
    return done;
}

// Pairs of ids and digests of images stand there for tokens too.
static bool read_notice_tokens(struct kv_reader *reader, const struct msgpack_value *value,
                               struct kv_notice *notice)
{
    bool is_list = value->kind == MSGPACK_ARRAY;
    if ((!is_list && value->kind != MSGPACK_NIL) || value->number > kv_token_max) {
        return false;
    }
    uint32_t count = is_list ? (uint32_t)value->number : 0;
    uint32_t done = read_token_ids(reader, notice, count);
    notice->is_plain = done == count;
    notice->tokens = reader->tokens;
    notice->token_count = notice->is_plain ? count : 0;
    return msgpack_skip(&reader->cursor, count - done);
}

static bool read_block_size(struct kv_reader *reader, const struct msgpack_value *value,
                            struct kv_notice *notice)
{
    (void)reader;
    return read_u32(value, &notice->block_tokens);
}

// Releases that do not say the name of an adapter say its number, from 1 on.
static bool read_lora_id(struct kv_reader *reader, const struct msgpack_value *value,
                         struct kv_notice *notice)
{
    (void)notice;
    struct text digits = text_over(reader->adapter_digits, sizeof(reader->adapter_digits));
    if (value->kind == MSGPACK_UNSIGNED && value->number > 0) {
        text_add_u64(&digits, value->number);
    }
    reader->adapter_id = text_slice(&digits);
    return value->kind == MSGPACK_UNSIGNED || value->kind == MSGPACK_NIL;
}

static bool read_medium(struct kv_reader *reader, const struct msgpack_value *value,
                        struct kv_notice *notice)
{
    (void)reader;
    struct slice name;
    bool is_text = read_notice_text(value, &name);
    notice->tier = kv_tier_of(name);
    return is_text;
}

static bool read_lora_name(struct kv_reader *reader, const struct msgpack_value *value,
                           struct kv_notice *notice)
{
    (void)reader;
    return read_notice_text(value, &notice->adapter);
}

static bool read_extra_keys(struct kv_reader *reader, const struct msgpack_value *value,
                            struct kv_notice *notice)
{
    (void)notice;
    return kv_key_list_read(&reader->cursor, value, &reader->extra_keys);
}

static bool read_media_keys(struct kv_reader *reader, const struct msgpack_value *value,
                            struct kv_notice *notice)
{
    (void)notice;
    return kv_key_list_read(&reader->cursor, value, &reader->media_keys);
}

static bool read_group(struct kv_reader *reader, const struct msgpack_value *value,
                       struct kv_notice *notice)
{
    (void)reader;
    notice->has_group = value->kind != MSGPACK_NIL;
    return !notice->has_group || read_u32(value, &notice->group);
}

static bool read_spec_kind(struct kv_reader *reader, const struct msgpack_value *value,
                           struct kv_notice *notice)
{
    (void)reader;
    struct slice name;
    bool is_text = read_notice_text(value, &name);
    notice->decides = kv_attention_decides(name);
    return is_text;
}

static bool read_locality(struct kv_reader *reader, const struct msgpack_value *value,
                          struct kv_notice *notice)
{
    (void)reader;
    struct slice name;
    bool is_text = read_notice_text(value, &name);
    notice->is_remote = slice_is_nocase(name, "REMOTE");
    return is_text;
}

static bool read_salt(struct kv_reader *reader, const struct msgpack_value *value,
                      struct kv_notice *notice)
{
    (void)reader;
    return read_notice_text(value, &notice->salt);
}

// Announced, not released: what is not as expected says nothing, and the removal stands.
static bool read_copies(struct kv_reader *reader, const struct msgpack_value *value,
                        struct kv_notice *notice)
{
    (void)notice;
    struct msgpack *cursor = &reader->cursor;
    struct msgpack_value item;

    reader->copy_count = no_field;
    if (value->kind != MSGPACK_ARRAY || value->number > kv_hash_max) {
        return msgpack_leave(cursor, value);
    }
    uint32_t count = (uint32_t)value->number;
    for (uint32_t i = 0; i < count; i++) {
        if (!msgpack_next(cursor, &item) || !msgpack_leave(cursor, &item)) {
            return false;
        }
        if (!read_u32(&item, &reader->copies[i])) {
            reader->copies[i] = UINT32_MAX;
        }
    }
    reader->copy_count = count;
    return true;
}

// In the order of maps, which is that of arrays, so that the next name is mostly the next row.
static const struct notice_field {
    const char *name;
    field_fn read;
} fields[] = {
    {"type", read_type},
    {"block_hashes", read_hashes},
    {"parent_block_hash", read_parent},
    {"token_ids", read_notice_tokens},
    {"block_size", read_block_size},
    {"lora_id", read_lora_id},
    {"medium", read_medium},
    {"lora_name", read_lora_name},
    {"extra_keys", read_extra_keys},
    {"mm_keys", read_media_keys},
    {"group_idx", read_group},
    {"kv_cache_spec_kind", read_spec_kind},
    {"locality", read_locality},
    {"cache_salt", read_salt},
    {"remaining_copy_counts", read_copies},
};

enum { field_count = ARRAY_COUNT(fields) };

// What arrays have behind their type; NULL: skipped.  Releases only ever added at the end.
static const field_fn stored_places[] = {
    read_hashes, read_parent,    read_notice_tokens, read_block_size, read_lora_id,
    read_medium, read_lora_name, read_extra_keys,    read_group,      read_spec_kind,
    NULL,        read_locality,
};
static const field_fn removed_places[] = {read_hashes, read_medium, read_group, read_locality};

static field_fn field_by_name(struct kv_reader *reader, const struct msgpack_value *name)
{
    ASSERT_SLOW(reader->field_next <= field_count);
    if (name->kind != MSGPACK_STRING) {
        return NULL;
    }
    for (uint32_t i = 0; i < field_count; i++) {
        uint32_t row = reader->field_next + i;
        row -= row >= field_count ? field_count : 0;
        if (slice_is(name->bytes, fields[row].name)) {
            reader->field_next = row + 1;
            return fields[row].read;
        }
    }
    return NULL;
}

static field_fn field_by_place(const struct kv_reader *reader, uint64_t place)
{
    if (reader->kind == KV_NOTICE_STORED && place < ARRAY_COUNT(stored_places)) {
        return stored_places[place];
    }
    if (reader->kind == KV_NOTICE_REMOVED && place < ARRAY_COUNT(removed_places)) {
        return removed_places[place];
    }
    return NULL;
}

// A field that makes no sense spoils its event, but not the next one: it is passed over again as a
// whole.
static void read_event_field(struct kv_reader *reader, field_fn read, struct kv_notice *notice)
{
    struct msgpack before = reader->cursor;
    struct msgpack_value value;

    if (read == NULL) {
        (void)msgpack_skip(&reader->cursor, 1);
        return;
    }
    if (!msgpack_next(&reader->cursor, &value) || !read(reader, &value, notice)) {
        reader->is_faulty = true;
        reader->cursor = before;
        (void)msgpack_skip(&reader->cursor, 1);
    }
}

static void read_map(struct kv_reader *reader, uint64_t count, struct kv_notice *notice)
{
    struct msgpack_value name;

    for (uint64_t i = 0; i < count; i++) {
        if (!msgpack_next(&reader->cursor, &name) || !msgpack_leave(&reader->cursor, &name)) {
            return;
        }
        read_event_field(reader, field_by_name(reader, &name), notice);
    }
}

// A map in an array has fields by name that some events lack: SGLang's salt.
static void read_array(struct kv_reader *reader, uint64_t count, struct kv_notice *notice)
{
    for (uint64_t i = 0; i < count; i++) {
        struct msgpack before = reader->cursor;
        struct msgpack_value value;
        if (i > 0 && msgpack_next(&reader->cursor, &value) && value.kind == MSGPACK_MAP) {
            read_map(reader, value.number, notice);
            continue;
        }
        reader->cursor = before;
        read_event_field(reader, i == 0 ? read_type : field_by_place(reader, i - 1), notice);
    }
}

// What takes more than one field.  False when it makes no sense.
static bool complete_notice(struct kv_reader *reader, struct kv_notice *notice)
{
    ASSERT(reader->copy_count == no_field || reader->copy_count <= kv_hash_max);
    if (reader->is_faulty || notice->kind == KV_NOTICE_MALFORMED) {
        return false;
    }
    if (notice->kind == KV_NOTICE_CLEARED) {
        return true;
    }
    if (notice->kind == KV_NOTICE_REMOVED && reader->copy_count == notice->hash_count) {
        notice->copies_left = reader->copies;
    }
    if (notice->adapter.size == 0) {
        notice->adapter = reader->adapter_id;
    }
    return reader->has_hashes &&
           kv_extras_read(&reader->extras, &reader->extra_keys, &reader->media_keys, notice);
}

static void read_batch_event(struct kv_reader *reader, struct kv_notice *notice)
{
    struct msgpack_value value;

    *notice = (struct kv_notice){.decides = true, .is_plain = true};
    reader->kind = KV_NOTICE_MALFORMED; // until its type is read
    reader->is_faulty = false;
    reader->has_hashes = false;
    reader->wide_hash = NULL;
    reader->field_next = 0;
    reader->copy_count = no_field;
    reader->adapter_id = (struct slice){0};
    reader->extra_keys = (struct kv_key_list){0};
    reader->media_keys = (struct kv_key_list){0};
    if (!msgpack_next(&reader->cursor, &value)) {
        return;
    }
    if (value.kind == MSGPACK_MAP) {
        read_map(reader, value.number, notice);
    } else if (value.kind == MSGPACK_ARRAY) {
        read_array(reader, value.number, notice);
    }
    notice->kind = reader->kind;
    if (notice->kind == KV_NOTICE_UNKNOWN) {
        *notice = (struct kv_notice){.kind = KV_NOTICE_UNKNOWN};
    } else if (!complete_notice(reader, notice)) {
        *notice = (struct kv_notice){.kind = KV_NOTICE_MALFORMED};
    }
}

// Remembers an event that has just been read, from `begin` on, if the next may be like it.
static void remember_echo(struct kv_reader *reader, const uint8_t *begin,
                          const struct kv_notice *notice)
{
    struct echo *echo = &reader->echo;
    size_t size = (size_t)(reader->cursor.at - begin);
    if (notice->kind != KV_NOTICE_REMOVED || reader->wide_hash == NULL || size > echo_max ||
        notice->copies_left != NULL || notice->extra_count > 0 || notice->token_count > 0 ||
        notice->adapter.size > 0 || notice->salt.size > 0) {
        return;
    }
    memcpy(echo->bytes, begin, size);
    echo->size = (uint32_t)size;
    echo->hash_at = (uint32_t)(reader->wide_hash - begin);
    echo->notice = *notice;
}

// Whether the next event is the one that is remembered, with another hash.
static bool read_echo(struct kv_reader *reader, struct kv_notice *out)
{
    ASSERT_SLOW(reader->echo.size == 0 || reader->echo.hash_at + hash_size <= reader->echo.size);
    const struct echo *echo = &reader->echo;
    const uint8_t *at = reader->cursor.at;
    // The first byte of the hash says how it is written.
    uint32_t behind = echo->hash_at + hash_size;
    if (echo->size == 0 || (size_t)(reader->cursor.end - at) < echo->size ||
        memcmp(at, echo->bytes, echo->hash_at + 1) != 0 ||
        memcmp(at + behind, echo->bytes + behind, echo->size - behind) != 0) {
        return false;
    }
    uint64_t hash;
    memcpy(&hash, at + echo->hash_at + 1, sizeof(hash));
    reader->hashes[0] = __builtin_bswap64(hash);
    reader->cursor.at += echo->size;
    *out = echo->notice;
    return true;
}

// The batch.

static void read_rank(struct kv_reader *reader)
{
    struct msgpack_value value;
    if (msgpack_next(&reader->cursor, &value) && msgpack_leave(&reader->cursor, &value) &&
        value.kind == MSGPACK_UNSIGNED && value.number <= INT64_MAX) {
        reader->rank = (int64_t)value.number;
    }
}

// When the engine made the batch, if that is a float of full width, as engines write it.
static bool read_seconds(struct kv_reader *reader)
{
    struct msgpack_value value;
    const uint8_t *at = reader->cursor.at;

    if (!msgpack_next(&reader->cursor, &value) || !msgpack_leave(&reader->cursor, &value)) {
        return false;
    }
    if (value.kind == MSGPACK_FLOAT && reader->cursor.at - at == 1 + sizeof(double)) {
        memcpy(&reader->seconds, &value.number, sizeof(double));
    }
    return true;
}

static bool is_rank(const struct msgpack_value *name)
{
    return name->kind == MSGPACK_STRING &&
           (slice_is(name->bytes, "data_parallel_rank") || slice_is(name->bytes, "attn_dp_rank"));
}

// The members of a batch that is a map, up to its events or to its end.  Whether it came to events.
static bool read_batch_members(struct kv_reader *reader)
{
    struct msgpack_value name;

    while (reader->members_left > 0) {
        reader->members_left--;
        if (!msgpack_next(&reader->cursor, &name) || !msgpack_leave(&reader->cursor, &name)) {
            return false;
        }
        if (name.kind == MSGPACK_STRING && slice_is(name.bytes, "events")) {
            return true;
        }
        if (is_rank(&name)) {
            read_rank(reader);
        } else if (name.kind == MSGPACK_STRING && slice_is(name.bytes, "ts")) {
            read_seconds(reader);
        } else if (!msgpack_skip(&reader->cursor, 1)) {
            return false;
        }
    }
    return false;
}

// Up to the first event.  False: not a batch.
static bool open_batch(struct kv_reader *reader)
{
    struct msgpack *cursor = &reader->cursor;
    struct msgpack_value value;

    if (!msgpack_next(cursor, &value)) {
        return false;
    }
    reader->is_map = value.kind == MSGPACK_MAP;
    reader->members_left = value.number;
    if (reader->is_map) {
        if (!read_batch_members(reader)) {
            return false;
        }
    } else {
        if (value.kind != MSGPACK_ARRAY || value.number < 2 || !read_seconds(reader)) {
            return false;
        }
        reader->members_left -= 2;
    }
    if (!msgpack_next(cursor, &value) || value.kind != MSGPACK_ARRAY) {
        return false;
    }
    reader->events_left = value.number;
    return true;
}

// Behind the last event.
static void close_batch(struct kv_reader *reader)
{
    if (reader->is_map) {
        while (read_batch_members(reader)) {
            (void)msgpack_skip(&reader->cursor, 1); // a second list of events
        }
    } else if (reader->members_left > 0) {
        read_rank(reader);
        (void)msgpack_skip(&reader->cursor, reader->members_left - 1);
    }
}

enum status kv_reader_begin(struct kv_reader *reader, struct slice payload)
{
    reader->rank = -1;
    reader->seconds = NAN;
    reader->foresee = NULL;
    if (payload.size > kv_payload_max) {
        return reader->status = STATUS_TOO_LARGE;
    }
    reader->cursor = msgpack_open(payload);
    return reader->status = open_batch(reader) ? STATUS_OK : STATUS_MALFORMED;
}

enum status kv_reader_next(struct kv_reader *reader, struct kv_notice *out)
{
    struct kv_notice notice;

    if (reader->status != STATUS_OK) {
        return reader->status;
    }
    if (reader->events_left == 0) {
        close_batch(reader);
        return reader->status = reader->cursor.is_broken ? STATUS_MALFORMED : STATUS_CLOSED;
    }
    reader->events_left--;
    if (read_echo(reader, out)) {
        return STATUS_OK;
    }
    const uint8_t *begin = reader->cursor.at;
    read_batch_event(reader, &notice);
    if (reader->cursor.is_broken) {
        return reader->status = STATUS_MALFORMED;
    }
    remember_echo(reader, begin, &notice);
    *out = notice;
    return STATUS_OK;
}

void kv_reader_foresee(struct kv_reader *reader, kv_foresee_fn foresee, void *owner)
{
    reader->foresee = foresee;
    reader->foresee_owner = owner;
}

double kv_reader_seconds(const struct kv_reader *reader)
{
    return reader->seconds;
}

int64_t kv_reader_rank(const struct kv_reader *reader)
{
    return reader->rank;
}
