// SPDX-License-Identifier: Apache-2.0

#include "admin/pushed_events.h"

#include "admin/admin.h"
#include "base/base.h"
#include "fleet/fleet.h"
#include "kvevent/kv_json.h"

#include <stdio.h>

// A document while it is read.
struct pushed_reading {
    const struct admin_options *options;
    struct kv_json *reader;
    struct pushed_events_refusal *why;
    uint64_t backends[pushed_events_backends_max];
    uint32_t backend_count;
};

static bool pushed_events_refuse(const struct pushed_reading *reading, enum http_problem problem,
                                 const char *detail)
{
    reading->why->problem = problem;
    snprintf(reading->why->detail, sizeof(reading->why->detail), "%s", detail);
    return false;
}

static bool refuse_event(const struct pushed_reading *reading, const char *detail)
{
    reading->why->problem = HTTP_PROBLEM_BAD_EVENTS;
    snprintf(reading->why->detail, sizeof(reading->why->detail), "events[%ld]: %s",
             (long)kv_json_fault(reading->reader).event, detail);
    return false;
}

static struct slice pushed_events_without_slash(struct slice url)
{
    bool ends_so = url.size > 0 && url.bytes[url.size - 1] == '/';
    return slice_of(url.bytes, url.size - (ends_so ? 1 : 0));
}

// A backend that shares its URL with others has a `#` and more behind it.
static bool has_url(const struct backend *backend, struct slice url)
{
    struct slice whole = slice_str(backend->url);
    const uint8_t *hash = memchr(whole.bytes, '#', whole.size);
    size_t size = hash == NULL ? whole.size : (size_t)(hash - whole.bytes);

    return slice_equal(whole, url) ||
           slice_equal(pushed_events_without_slash(slice_of(whole.bytes, size)),
                       pushed_events_without_slash(url));
}

// NULL after a refusal.
static const struct backend *find_by_url(const struct pushed_reading *reading,
                                         const struct kv_json_target *target)
{
    const struct backend *found = NULL;
    const struct backend *backend;

    for (uint32_t i = 0; (backend = fleet_at(reading->options->fleet, i)) != NULL; i++) {
        if (!has_url(backend, target->url) || (target->has_rank && backend->rank != target->rank)) {
            continue;
        }
        if (found != NULL) {
            pushed_events_refuse(
                reading, HTTP_PROBLEM_BAD_EVENTS,
                "several backends have that URL: give the rank as well, or the id instead");
            return NULL;
        }
        found = backend;
    }
    if (found == NULL) {
        pushed_events_refuse(reading, HTTP_PROBLEM_NOT_FOUND, "no backend has that URL and rank");
    }
    return found;
}

static const struct backend *find_by_id(const struct pushed_reading *reading, uint64_t id)
{
    const struct backend *backend = fleet_find(reading->options->fleet, id);
    if (backend == NULL) {
        pushed_events_refuse(reading, HTTP_PROBLEM_NOT_FOUND, "no backend has that id");
    }
    return backend;
}

// The backend that the document names for all of its events, if it does.
static bool find_target(struct pushed_reading *reading)
{
    struct kv_json_target target = kv_json_target(reading->reader);
    const struct backend *backend;

    if (target.url.size == 0 && !target.has_id) {
        return true;
    }
    backend = target.has_id ? find_by_id(reading, target.id) : find_by_url(reading, &target);
    if (backend == NULL) {
        return false;
    }
    if (target.has_rank && target.rank != backend->rank) {
        return pushed_events_refuse(reading, HTTP_PROBLEM_NOT_FOUND,
                                    "the backend of that id has another rank");
    }
    reading->backends[reading->backend_count++] = backend->id;
    return true;
}

static bool pushed_events_lists(const struct pushed_reading *reading, uint64_t id)
{
    for (uint32_t i = 0; i < reading->backend_count; i++) {
        if (reading->backends[i] == id) {
            return true;
        }
    }
    return false;
}

// The backend of one event.  `has_target`: the document names it for all events.
static bool check_backend(struct pushed_reading *reading, bool has_target)
{
    uint64_t id = 0;
    bool has_own = kv_json_event_backend(reading->reader, &id);

    if (!has_own) {
        return has_target || refuse_event(reading, "neither it nor the document names a backend");
    }
    if (pushed_events_lists(reading, id)) {
        return true;
    }
    if (has_target) {
        return refuse_event(reading, "it names another backend than the document");
    }
    if (reading->backend_count == pushed_events_backends_max) {
        return refuse_event(reading, "this is the 17th backend; the limit is 16");
    }
    if (find_by_id(reading, id) == NULL) {
        return false;
    }
    reading->backends[reading->backend_count++] = id;
    return true;
}

static bool pushed_events_check(struct pushed_reading *reading, struct slice document)
{
    struct kv_notice notice;

    if (kv_json_begin(reading->reader, document, NULL) != STATUS_OK) {
        return pushed_events_refuse(reading, HTTP_PROBLEM_BAD_EVENTS,
                                    kv_json_fault(reading->reader).what);
    }
    if (!find_target(reading)) {
        return false;
    }
    bool has_target = reading->backend_count > 0;
    while (kv_json_next(reading->reader, &notice) == STATUS_OK) {
        const char *what = kv_json_fault(reading->reader).what;
        if (what != NULL) {
            return refuse_event(reading, what);
        }
        if (!check_backend(reading, has_target)) {
            return false;
        }
    }
    return reading->backend_count > 0 ||
           pushed_events_refuse(reading, HTTP_PROBLEM_BAD_EVENTS, "it names no backend");
}

// After a failure in the middle the sender repeats the whole document.  That is harmless: backends
// that took their part see only evictions twice.
static bool pushed_events_hand_on(const struct pushed_reading *reading, struct slice document)
{
    const struct admin_options *options = reading->options;

    for (uint32_t i = 0; i < reading->backend_count; i++) {
        switch (options->push_events(options->owner, reading->backends[i], document)) {
        case STATUS_OK:
            break;
        case STATUS_EXHAUSTED:
            return pushed_events_refuse(reading, HTTP_PROBLEM_OVERLOADED,
                                        "too many events are queued");
        default:
            return pushed_events_refuse(reading, HTTP_PROBLEM_CONFLICT,
                                        "the router does not receive events of that backend");
        }
    }
    return true;
}

bool pushed_events_take(const struct admin_options *options, struct slice document,
                        struct pushed_events_refusal *why)
{
    struct pushed_reading reading = {.options = options, .why = why};

    if (options->push_events == NULL) {
        return pushed_events_refuse(&reading, HTTP_PROBLEM_CONFLICT, "KV events are off");
    }
    reading.reader = kv_json_create();
    if (reading.reader == NULL) {
        return pushed_events_refuse(&reading, HTTP_PROBLEM_OVERLOADED, "out of memory");
    }
    bool is_taken =
        pushed_events_check(&reading, document) && pushed_events_hand_on(&reading, document);
    kv_json_destroy(&reading.reader);
    return is_taken;
}
