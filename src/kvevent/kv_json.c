// SPDX-License-Identifier: Apache-2.0
//
// A document is checked as JSON first, so the cursors that walk its parts afterwards cannot fail;
// only the types and values of its members remain to be checked.

#include "kvevent/kv_json.h"

#include "base/base.h"
#include "kvevent/kv_json_internal.h"

#include <stdlib.h>

struct kv_json *kv_json_create(void)
{
    // Not cleared: pages that no document needs are never touched.
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

bool kv_json_malformed(struct kv_json *reader, const char *what, struct kv_notice *out)
{
    reader->fault = what;
    *out = (struct kv_notice){.kind = KV_NOTICE_MALFORMED};
    return true;
}

bool kv_json_unknown(struct kv_json *reader, struct kv_notice *out)
{
    reader->fault = "its type is not known";
    *out = (struct kv_notice){.kind = KV_NOTICE_UNKNOWN};
    return true;
}

bool kv_json_cleared(struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_CLEARED, .tier = PREFIX_GPU, .decides = true};
    return true;
}

enum kv_json_kind kv_json_kind(const struct json_value *type)
{
    static const struct {
        const char *name;
        enum kv_json_kind kind;
    } kinds[] = {
        {"stored", KV_JSON_STORED},   {"BlockStored", KV_JSON_STORED},
        {"removed", KV_JSON_REMOVED}, {"BlockRemoved", KV_JSON_REMOVED},
        {"cleared", KV_JSON_CLEARED}, {"AllBlocksCleared", KV_JSON_CLEARED},
        {"updated", KV_JSON_UPDATED}, {"created", KV_JSON_CREATED},
    };
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        if (json_is_string(type, kinds[i].name)) {
            return kinds[i].kind;
        }
    }
    return KV_JSON_UNKNOWN;
}

// Ranvier.  Its hash comes from a router that adds it to requests; we do not.
static bool read_prefix(struct kv_json *reader, const struct kv_json_members *event,
                        struct kv_notice *out)
{
    const struct json_value *hash = &event->of[KV_JSON_prefix_hash];
    uint64_t number;

    if (hash->kind != JSON_STRING || !kv_json_hex(hash->raw, &number)) {
        return kv_json_malformed(reader, "prefix_hash is not hexadecimal", out);
    }
    if (json_is_string(&event->of[KV_JSON_event], "evicted")) {
        return kv_json_cleared(out);
    }
    (void)kv_json_unknown(reader, out);
    if (json_is_string(&event->of[KV_JSON_event], "loaded")) {
        reader->fault = NULL; // known, but it does not say which blocks were loaded
    }
    return true;
}

static bool read_json_event(struct kv_json *reader, const struct kv_json_members *event,
                            struct kv_notice *out)
{
    if (event->of[KV_JSON_data].kind == JSON_OBJECT) {
        return kv_json_data(reader, event, out);
    }
    if (event->of[KV_JSON_event].kind == JSON_STRING) {
        return read_prefix(reader, event, out);
    }
    if (event->of[KV_JSON_type].kind != JSON_STRING) {
        return kv_json_malformed(reader, "it has no type", out);
    }
    switch (kv_json_kind(&event->of[KV_JSON_type])) {
    case KV_JSON_STORED:
        return kv_json_stored(reader, event, out);
    case KV_JSON_REMOVED:
        return kv_json_removed(reader, event, out);
    case KV_JSON_CLEARED:
        return kv_json_cleared(out);
    default:
        return kv_json_unknown(reader, out);
    }
}

// Whether the event belongs to the owner.  A rank or backend that is not a number is ignored.
static bool is_ours(struct kv_json *reader, const struct kv_json_members *event)
{
    uint64_t rank;

    reader->has_event_backend = event->of[KV_JSON_event].kind == JSON_STRING &&
                                json_uint(&event->of[KV_JSON_backend_id], &reader->event_backend);
    if (reader->takes_all) {
        return true;
    }
    if (json_uint(&event->of[KV_JSON_attention_dp_rank], &rank) && rank != reader->owner.rank) {
        return false;
    }
    return !reader->has_event_backend || reader->event_backend == reader->owner.backend_id;
}

enum status kv_json_next(struct kv_json *reader, struct kv_notice *out)
{
    ASSERT(reader->ready_count <= prefix_tier_count);
    struct json_item item;
    struct kv_json_members event;

    for (;;) {
        if (reader->ready_count > 0) {
            *out = reader->ready[--reader->ready_count];
            return STATUS_OK;
        }
        if (reader->in_blocks && kv_json_run(reader, out)) {
            return STATUS_OK;
        }
        reader->fault = NULL;
        reader->has_event_backend = false;
        if (!json_next_whole(&reader->events, &item)) {
            return STATUS_CLOSED;
        }
        reader->event++;
        if (item.value.kind != JSON_OBJECT) {
            (void)kv_json_malformed(reader, "it is not an object", out);
            return STATUS_OK;
        }
        kv_json_members(item.value.raw, &event);
        if (is_ours(reader, &event) && read_json_event(reader, &event, out)) {
            return STATUS_OK;
        }
    }
}

// Numbers and windows of all events, which must be known before the first is read.
static void survey_events(struct kv_json *reader, struct json events)
{
    struct json_item item;
    struct kv_json_members event;
    uint64_t number;

    while (json_next_whole(&events, &item)) {
        if (item.value.kind != JSON_OBJECT) {
            continue;
        }
        kv_json_members(item.value.raw, &event);
        if (!is_ours(reader, &event)) {
            continue;
        }
        if (json_uint(&event.of[KV_JSON_window_size], &number) && number > reader->window_max) {
            reader->window_max = number;
        }
        if (!json_uint(&event.of[KV_JSON_event_id], &number)) {
            continue;
        }
        struct kv_json_ids *ids = &reader->ids;
        ids->is_broken = ids->is_broken || (ids->is_numbered && number != ids->last + 1);
        ids->first = ids->is_numbered ? ids->first : number;
        ids->last = number;
        ids->is_numbered = true;
    }
}

static const char *read_target(struct kv_json *reader, const struct kv_json_members *document)
{
    const struct json_value *backend = &document->of[KV_JSON_backend];
    const struct json_value *rank = &document->of[KV_JSON_rank];
    struct kv_json_target *target = &reader->target;

    if (backend->kind == JSON_STRING) {
        if (!kv_json_name(backend, reader->url, &target->url) || target->url.size == 0) {
            return "backend is not a URL";
        }
    } else if (!json_is_unset(backend)) {
        target->has_id = json_uint(backend, &target->id);
        if (!target->has_id) {
            return "backend is neither a URL nor an id";
        }
    }
    target->has_rank = !json_is_unset(rank);
    return target->has_rank && !kv_json_u32(rank, &target->rank) ? "rank is not a number" : NULL;
}

// NULL, or why it is not an envelope.
static const char *read_kv_envelope(struct kv_json *reader, struct slice object,
                                    struct slice *events)
{
    struct kv_json_members document;
    uint64_t version;

    kv_json_members(object, &document);
    const struct json_value *type = &document.of[KV_JSON_type];
    const struct json_value *number = &document.of[KV_JSON_version];
    if (!json_is_unset(type) && !json_is_string(type, "cache_event")) {
        return "type is not cache_event";
    }
    if (!json_is_unset(number) && !(json_uint(number, &version) && version == 1)) {
        return "version is not 1";
    }
    if (document.of[KV_JSON_events].kind != JSON_ARRAY) {
        return "events is missing or not a list";
    }
    *events = document.of[KV_JSON_events].raw;
    return read_target(reader, &document);
}

// NULL if it is JSON of one of the two forms, and *events the list in it; else why not.
static const char *read_kv_document(struct kv_json *reader, struct slice document,
                                    struct slice *events)
{
    struct json json = json_open(document);
    struct json_item item = {0};

    if (document.size > kv_payload_max) {
        return "it is larger than 64 MiB";
    }
    (void)json_next_whole(&json, &item);
    if (json_close(&json) != STATUS_OK) {
        return "it is not JSON";
    }
    if (item.value.kind == JSON_OBJECT) {
        return read_kv_envelope(reader, item.value.raw, events);
    }
    *events = item.value.raw;
    return item.value.kind == JSON_ARRAY ? NULL : "it is neither an object nor a list";
}

enum status kv_json_begin(struct kv_json *reader, struct slice document,
                          const struct kv_json_owner *owner)
{
    struct slice events = {0};

    memset(reader, 0, offsetof(struct kv_json, url));
    reader->event = -1;
    reader->takes_all = owner == NULL;
    reader->owner = owner == NULL ? (struct kv_json_owner){0} : *owner;
    const char *why = read_kv_document(reader, document, &events);
    if (why != NULL) {
        reader->fault = why;
        return STATUS_MALFORMED;
    }
    // An envelope of another rank has nothing for this one.
    if (owner == NULL || !reader->target.has_rank || reader->target.rank == owner->rank) {
        reader->events = json_inside(events);
        survey_events(reader, reader->events);
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
    return (struct kv_json_fault){.what = reader->fault, .event = reader->event};
}
