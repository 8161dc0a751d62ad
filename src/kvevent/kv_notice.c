// SPDX-License-Identifier: Apache-2.0
//
// One table of fields serves both forms of event: maps have them by name, arrays by place.  A
// field is read as soon as it comes, whatever the kind of the event, which in a map may come
// last.  Values that depend on several fields are set at the end.

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
    no_field = UINT32_MAX, // of copy_count
    hash_size = 9,         // of a hash as an integer of 64 bits
    echo_max = 120,        // bytes
    stretch_ids = 96,
    stretch_hashes = stretch_ids / 16, // most blocks have 16 tokens
};

// A removal of one block, as it was written.  vLLM sends an event for each block that it evicts,
// and these differ only in the hash.
struct echo {
    uint32_t size; // 0: empty
    uint32_t hash_at;
    uint8_t bytes[echo_max];
    struct kv_notice notice;
};

// The event that is being read.
struct event_draft {
    struct kv_notice notice; // MALFORMED until its type is read
    bool is_faulty;          // a field has the wrong type, or exceeds a limit
    bool has_hashes;
    bool is_array;
    bool has_zero_parent;
    uint32_t field_next; // in a map: where to look for its next name
    uint32_t copy_count; // of `copies`
    struct slice adapter_id;
    struct slice medium;
    struct slice attention;
    struct slice locality;
    struct kv_key_list extra_keys;
    struct kv_key_list media_keys;
    const uint8_t *wide_hash; // where the only hash is, if it is an integer of 64 bits; or NULL
};

struct kv_reader {
    // The batch.
    double seconds;
    kv_prefetch_fn prefetch; // or NULL
    void *prefetch_owner;
    struct msgpack cursor;
    enum status status; // OK: its events are being read
    uint64_t events_left;
    uint64_t members_left; // behind the events
    int64_t rank;
    bool is_map;

    struct event_draft event;
    struct echo echo;
    char adapter_digits[24]; // `adapter_id` of the event

    // The memory that a notice points at.  Not cleared: pages that no event needs are never
    // touched.
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

// Readers of fields.  Each is given the value, of a container the head, and where it goes.
// False: the value is malformed, and the cursor may be anywhere in it.
typedef bool (*field_fn)(struct kv_reader *reader, const struct msgpack_value *value, void *out);

static bool read_u32([[maybe_unused]] struct kv_reader *reader, const struct msgpack_value *value,
                     void *out)
{
    *(uint32_t *)out = (uint32_t)value->number;
    return value->kind == MSGPACK_UNSIGNED && value->number <= UINT32_MAX;
}

// Nil is empty.
static bool read_notice_text([[maybe_unused]] struct kv_reader *reader,
                             const struct msgpack_value *value, void *out)
{
    *(struct slice *)out = value->bytes;
    return value->kind == MSGPACK_STRING || value->kind == MSGPACK_NIL;
}

static bool read_key_list(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    return kv_key_list_read(&reader->cursor, value, out);
}

static bool read_type([[maybe_unused]] struct kv_reader *reader, const struct msgpack_value *value,
                      void *out)
{
    static const struct {
        const char *name;
        enum kv_notice_kind kind;
    } kinds[] = {
        {"BlockStored", KV_NOTICE_STORED},
        {"BlockRemoved", KV_NOTICE_REMOVED},
        {"AllBlocksCleared", KV_NOTICE_CLEARED},
    };
    enum kv_notice_kind *kind = out;

    if (value->kind != MSGPACK_STRING) {
        return false;
    }
    *kind = KV_NOTICE_UNKNOWN;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (slice_is(value->bytes, kinds[i].name)) {
            *kind = kinds[i].kind;
        }
    }
    return true;
}

static bool read_hashes(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    struct msgpack *cursor = &reader->cursor;
    struct kv_notice *notice = out;
    struct msgpack_value item;

    if (value->kind != MSGPACK_ARRAY || value->number > kv_hash_max) {
        return false;
    }
    uint32_t count = (uint32_t)value->number;
    const uint8_t *first = cursor->at;
    uint32_t done = msgpack_integers(cursor, reader->hashes, count);
    reader->event.wide_hash = count == 1 && cursor->at == first + hash_size ? first : NULL;
    for (; done < count; done++) {
        if (!msgpack_next(cursor, &item) || !read_hash(&item, &reader->hashes[done])) {
            return false;
        }
    }
    notice->hashes = reader->hashes;
    notice->hash_count = count;
    reader->event.has_hashes = true;
    return true;
}

static bool read_parent(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    struct kv_notice *notice = out;
    notice->has_parent = value->kind != MSGPACK_NIL;
    reader->event.has_zero_parent = value->kind == MSGPACK_UNSIGNED && value->number == 0;
    return !notice->has_parent || read_hash(value, &notice->parent);
}

// Prefetches for the next hashes, behind the first `done`.  Returns how many are done then.
static uint32_t prefetch_hashes(const struct kv_reader *reader, uint32_t done)
{
    const struct kv_notice *notice = &reader->event.notice;
    ASSERT(done <= notice->hash_count);
    uint32_t left = notice->hash_count - done;
    uint32_t count = left < stretch_hashes ? left : stretch_hashes;
    if (reader->prefetch == NULL || count == 0) {
        return done;
    }
    reader->prefetch(reader->prefetch_owner, notice->hashes + done, count);
    return done + count;
}

// Ids up to the first element that is not one.  Prefetches go by stretches: all at once would
// stall.
static uint32_t read_token_ids(struct kv_reader *reader, uint32_t count)
{
    ASSERT(count <= kv_token_max);
    uint32_t prefetched = 0;
    uint32_t done = 0;
    uint32_t read;
    do {
        uint32_t left = count - done;
        prefetched = prefetch_hashes(reader, prefetched);
        read = msgpack_ids(&reader->cursor, reader->tokens + done,
                           left < stretch_ids ? left : stretch_ids);
        done += read;
    } while (read == stretch_ids);
    return done;
}

// The list may have pairs of ids, and digests of images, in place of ids.
static bool read_notice_tokens(struct kv_reader *reader, const struct msgpack_value *value,
                               void *out)
{
    struct kv_notice *notice = out;
    bool is_list = value->kind == MSGPACK_ARRAY;
    if ((!is_list && value->kind != MSGPACK_NIL) || value->number > kv_token_max) {
        return false;
    }
    uint32_t count = is_list ? (uint32_t)value->number : 0;
    uint32_t done = read_token_ids(reader, count);
    notice->is_plain = done == count;
    notice->tokens = reader->tokens;
    notice->token_count = notice->is_plain ? count : 0;
    return msgpack_skip(&reader->cursor, count - done);
}

// Releases that do not send the name of an adapter send its number, from 1 on.
static bool read_lora_id(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    struct text digits = text_over(reader->adapter_digits, sizeof(reader->adapter_digits));
    if (value->kind == MSGPACK_UNSIGNED && value->number > 0) {
        text_add_u64(&digits, value->number);
    }
    *(struct slice *)out = text_slice(&digits);
    return value->kind == MSGPACK_UNSIGNED || value->kind == MSGPACK_NIL;
}

static bool read_group(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    struct kv_notice *notice = out;
    notice->has_group = value->kind != MSGPACK_NIL;
    return !notice->has_group || read_u32(reader, value, &notice->group);
}

// Announced for a later release of vLLM.  Counts of another form are ignored; the removal stands.
static bool read_copies(struct kv_reader *reader, const struct msgpack_value *value, void *out)
{
    struct msgpack *cursor = &reader->cursor;
    uint32_t *copy_count = out;
    struct msgpack_value item;

    *copy_count = no_field;
    if (value->kind != MSGPACK_ARRAY || value->number > kv_hash_max) {
        return msgpack_leave(cursor, value);
    }
    uint32_t count = (uint32_t)value->number;
    for (uint32_t i = 0; i < count; i++) {
        if (!msgpack_next(cursor, &item) || !msgpack_leave(cursor, &item)) {
            return false;
        }
        if (!read_u32(reader, &item, &reader->copies[i])) {
            reader->copies[i] = UINT32_MAX;
        }
    }
    *copy_count = count;
    return true;
}

enum notice_field_name {
    FIELD_TYPE,
    FIELD_HASHES,
    FIELD_PARENT,
    FIELD_TOKENS,
    FIELD_BLOCK_SIZE,
    FIELD_LORA_ID,
    FIELD_MEDIUM,
    FIELD_LORA_NAME,
    FIELD_EXTRA_KEYS,
    FIELD_MEDIA_KEYS,
    FIELD_GROUP,
    FIELD_ATTENTION,
    FIELD_LOCALITY,
    FIELD_SALT,
    FIELD_COPIES,
    FIELD_COUNT,
    FIELD_SKIPPED,
};

// In the order of maps, which is that of arrays, so that the next name is mostly the next row.
static const struct notice_field {
    const char *name;
    field_fn read;
    size_t offset; // in struct event_draft
} fields[FIELD_COUNT] = {
#define AT(member) offsetof(struct event_draft, member)
    [FIELD_TYPE] = {"type", read_type, AT(notice.kind)},
    [FIELD_HASHES] = {"block_hashes", read_hashes, AT(notice)},
    [FIELD_PARENT] = {"parent_block_hash", read_parent, AT(notice)},
    [FIELD_TOKENS] = {"token_ids", read_notice_tokens, AT(notice)},
    [FIELD_BLOCK_SIZE] = {"block_size", read_u32, AT(notice.block_tokens)},
    [FIELD_LORA_ID] = {"lora_id", read_lora_id, AT(adapter_id)},
    [FIELD_MEDIUM] = {"medium", read_notice_text, AT(medium)},
    [FIELD_LORA_NAME] = {"lora_name", read_notice_text, AT(notice.adapter)},
    [FIELD_EXTRA_KEYS] = {"extra_keys", read_key_list, AT(extra_keys)},
    [FIELD_MEDIA_KEYS] = {"mm_keys", read_key_list, AT(media_keys)},
    [FIELD_GROUP] = {"group_idx", read_group, AT(notice)},
    [FIELD_ATTENTION] = {"kv_cache_spec_kind", read_notice_text, AT(attention)},
    [FIELD_LOCALITY] = {"locality", read_notice_text, AT(locality)},
    [FIELD_SALT] = {"cache_salt", read_notice_text, AT(notice.salt)},
    [FIELD_COPIES] = {"remaining_copy_counts", read_copies, AT(copy_count)},
#undef AT
};

// The fields of arrays behind their type.  Releases only ever added at the end.
static const enum notice_field_name stored_places[] = {
    FIELD_HASHES,  FIELD_PARENT,    FIELD_TOKENS,    FIELD_BLOCK_SIZE,
    FIELD_LORA_ID, FIELD_MEDIUM,    FIELD_LORA_NAME, FIELD_EXTRA_KEYS,
    FIELD_GROUP,   FIELD_ATTENTION, FIELD_SKIPPED,   FIELD_LOCALITY,
};
static const enum notice_field_name removed_places[] = {FIELD_HASHES, FIELD_MEDIUM, FIELD_GROUP,
                                                        FIELD_LOCALITY};

static enum notice_field_name field_by_name(struct kv_reader *reader,
                                            const struct msgpack_value *name)
{
    ASSERT_SLOW(reader->event.field_next <= FIELD_COUNT);
    for (uint32_t i = 0; i < FIELD_COUNT && name->kind == MSGPACK_STRING; i++) {
        uint32_t row = reader->event.field_next + i;
        row -= row >= FIELD_COUNT ? FIELD_COUNT : 0;
        if (slice_is(name->bytes, fields[row].name)) {
            reader->event.field_next = row + 1;
            return (enum notice_field_name)row;
        }
    }
    return FIELD_SKIPPED;
}

static enum notice_field_name field_by_place(enum kv_notice_kind kind, uint64_t place)
{
    if (kind == KV_NOTICE_STORED && place < ARRAY_COUNT(stored_places)) {
        return stored_places[place];
    }
    if (kind == KV_NOTICE_REMOVED && place < ARRAY_COUNT(removed_places)) {
        return removed_places[place];
    }
    return FIELD_SKIPPED;
}

// A malformed field spoils its event, but not the next one: the cursor goes back and passes over
// the field as a whole.
static void read_event_field(struct kv_reader *reader, enum notice_field_name name)
{
    struct msgpack before = reader->cursor;
    struct msgpack_value value;

    if (name == FIELD_SKIPPED) {
        (void)msgpack_skip(&reader->cursor, 1);
        return;
    }
    const struct notice_field *field = &fields[name];
    if (!msgpack_next(&reader->cursor, &value) ||
        !field->read(reader, &value, (char *)&reader->event + field->offset)) {
        reader->event.is_faulty = true;
        reader->cursor = before;
        (void)msgpack_skip(&reader->cursor, 1);
    }
}

static void read_map(struct kv_reader *reader, uint64_t count)
{
    struct msgpack_value name;

    for (uint64_t i = 0; i < count; i++) {
        if (!msgpack_next(&reader->cursor, &name) || !msgpack_leave(&reader->cursor, &name)) {
            return;
        }
        read_event_field(reader, field_by_name(reader, &name));
    }
}

// A map in an array has fields by name that some events lack: SGLang's salt.
static void read_array(struct kv_reader *reader, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct msgpack before = reader->cursor;
        struct msgpack_value value;
        if (i > 0 && msgpack_next(&reader->cursor, &value) && value.kind == MSGPACK_MAP) {
            read_map(reader, value.number);
            continue;
        }
        reader->cursor = before;
        read_event_field(reader,
                         i == 0 ? FIELD_TYPE : field_by_place(reader->event.notice.kind, i - 1));
    }
}

// Sets what depends on several fields.  False when the event is malformed.
static bool complete_notice(struct kv_reader *reader, struct event_draft *event)
{
    ASSERT(event->copy_count == no_field || event->copy_count <= kv_hash_max);
    struct kv_notice *notice = &event->notice;
    notice->tier = kv_tier_of(event->medium);
    notice->decides = kv_attention_decides(event->attention);
    notice->is_remote = slice_is_nocase(event->locality, "REMOTE");
    notice->may_begin = event->is_array && event->has_zero_parent;
    if (event->is_faulty || notice->kind == KV_NOTICE_MALFORMED) {
        return false;
    }
    if (notice->kind == KV_NOTICE_CLEARED) {
        return true;
    }
    if (notice->kind == KV_NOTICE_REMOVED && event->copy_count == notice->hash_count) {
        notice->copies_left = reader->copies;
    }
    if (notice->adapter.size == 0) {
        notice->adapter = event->adapter_id;
    }
    return event->has_hashes &&
           kv_extras_read(&reader->extras, &event->extra_keys, &event->media_keys, notice);
}

static void read_batch_event(struct kv_reader *reader)
{
    struct event_draft *event = &reader->event;
    struct msgpack_value value;

    *event = (struct event_draft){
        .notice = {.kind = KV_NOTICE_MALFORMED, .is_plain = true},
        .copy_count = no_field,
    };
    if (!msgpack_next(&reader->cursor, &value)) {
        return;
    }
    if (value.kind == MSGPACK_MAP) {
        read_map(reader, value.number);
    } else if (value.kind == MSGPACK_ARRAY) {
        event->is_array = true;
        read_array(reader, value.number);
    }
    if (event->notice.kind == KV_NOTICE_UNKNOWN) {
        event->notice = (struct kv_notice){.kind = KV_NOTICE_UNKNOWN};
    } else if (!complete_notice(reader, event)) {
        event->notice = (struct kv_notice){.kind = KV_NOTICE_MALFORMED};
    }
}

// Remembers the event that has just been read, from `begin` on, if the next may be like it.
static void remember_echo(struct kv_reader *reader, const uint8_t *begin)
{
    const struct kv_notice *notice = &reader->event.notice;
    const uint8_t *hash = reader->event.wide_hash;
    struct echo *echo = &reader->echo;
    size_t size = (size_t)(reader->cursor.at - begin);
    if (notice->kind != KV_NOTICE_REMOVED || hash == NULL || size > echo_max ||
        notice->copies_left != NULL || notice->extra_count > 0 || notice->token_count > 0 ||
        notice->adapter.size > 0 || notice->salt.size > 0) {
        return;
    }
    memcpy(echo->bytes, begin, size);
    echo->size = (uint32_t)size;
    echo->hash_at = (uint32_t)(hash - begin);
    echo->notice = *notice;
}

// Reads the next event if it is the remembered one with another hash.
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

// The members of a batch that is a map, up to its events or to its end.  False: it ended before
// events.
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
    reader->prefetch = NULL;
    if (payload.size > kv_payload_max) {
        return reader->status = STATUS_TOO_LARGE;
    }
    reader->cursor = msgpack_open(payload);
    return reader->status = open_batch(reader) ? STATUS_OK : STATUS_MALFORMED;
}

enum status kv_reader_next(struct kv_reader *reader, struct kv_notice *out)
{
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
    read_batch_event(reader);
    if (reader->cursor.is_broken) {
        return reader->status = STATUS_MALFORMED;
    }
    remember_echo(reader, begin);
    *out = reader->event.notice;
    return STATUS_OK;
}

void kv_reader_prefetch(struct kv_reader *reader, kv_prefetch_fn prefetch, void *owner)
{
    reader->prefetch = prefetch;
    reader->prefetch_owner = owner;
}

double kv_reader_seconds(const struct kv_reader *reader)
{
    return reader->seconds;
}

int64_t kv_reader_rank(const struct kv_reader *reader)
{
    return reader->rank;
}
