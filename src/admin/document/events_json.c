// SPDX-License-Identifier: Apache-2.0

#include "admin/document/events_json.h"

#include "base/base.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/backend.h"
#include "json/json_writer.h"

static void put_feed(const struct kv_feed_status *status, struct json_writer *json)
{
    json_put_bool(json, "connected", status->is_connected);
    json_put_u64(json, "block_tokens", status->block_tokens);
    json_put_u64(json, "orphans_waiting", status->orphan_count);
    json_put_known(json, "silent_ms", status->last_ms != UINT64_MAX, status->last_ms);
    json_put_known(json, "lag_ms", status->lag_ms != UINT64_MAX, status->lag_ms);

    json_begin_object(json, "stream");
    json_put_u64(json, "number", status->next_number);
#define X(name, help) json_put_u64(json, #name, status->follower.name);
    KV_FOLLOWER_COUNTS(X)
#undef X
    json_end(json);

    json_begin_object(json, "told");
    json_put_u64(json, "blocks", status->block_count);
#define X(name, help) json_put_u64(json, #name, status->holdings.name);
    KV_HOLDINGS_COUNTS(X)
#undef X
    json_end(json);
}

void events_json_put(const struct backend *backend, const struct kv_feed_status *status,
                     struct json_writer *json)
{
    json_begin_object(json, "events");
    json_put_str(json, "state", backend_events_text(backend));
    json_put_str(json, "endpoint", backend->events);
    json_put_u64(json, "rank", backend->rank);
    json_put_u64(json, "ranks", backend->rank_count);
    if (status != NULL) {
        put_feed(status, json);
    }
    json_end(json);
}
