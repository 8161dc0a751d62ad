// SPDX-License-Identifier: Apache-2.0

#include "admin/document/events_json.h"

#include "base/base.h"
#include "base/text.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/backend.h"

static void add_count(const char *name, uint64_t value, struct text *json)
{
    text_add_format(json, ",\"%s\":%lu", name, (unsigned long)value);
}

// The first of a list has no comma before it, so each list begins with what it is about.
static void add_counts(const struct kv_feed_status *status, struct text *json)
{
    text_add_format(json, ",\"stream\":{\"number\":%lu", (unsigned long)status->next_number);
#define X(name, help) add_count(#name, status->follower.name, json);
    KV_FOLLOWER_COUNTS(X)
#undef X
    text_add_format(json, "},\"told\":{\"blocks\":%lu", (unsigned long)status->block_count);
#define X(name, help) add_count(#name, status->holdings.name, json);
    KV_HOLDINGS_COUNTS(X)
#undef X
    text_add_str(json, "}");
}

static void add_status(const struct kv_feed_status *status, struct text *json)
{
    text_add_str(json, status->is_connected ? ",\"connected\":true" : ",\"connected\":false");
    add_count("block_tokens", status->block_tokens, json);
    add_count("orphans_waiting", status->orphan_count, json);
    if (status->last_ms == UINT64_MAX) {
        text_add_str(json, ",\"silent_ms\":null");
    } else {
        add_count("silent_ms", status->last_ms, json);
    }
    if (status->lag_ms == UINT64_MAX) {
        text_add_str(json, ",\"lag_ms\":null");
    } else {
        add_count("lag_ms", status->lag_ms, json);
    }
    add_counts(status, json);
}

void events_json_add(const struct backend *backend, const struct kv_feed_status *heard,
                     struct text *json)
{
    text_add_format(json, "{\"state\":\"%s\",\"endpoint\":", backend_events_text(backend));
    if (backend->events == NULL) {
        text_add_str(json, "null");
    } else {
        text_add_json(json, slice_str(backend->events));
    }
    add_count("rank", backend->rank, json);
    add_count("ranks", backend->rank_count, json);
    if (heard != NULL) {
        add_status(heard, json);
    }
    text_add_str(json, "}");
}
