// SPDX-License-Identifier: Apache-2.0

#include "admin/document/backend_json.h"

#include "admin/admin.h"
#include "admin/document/events_json.h"
#include "admin/document/truth_json.h"
#include "base/base.h"
#include "config/config.h"
#include "feed/kv/kv_feeder.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "net/tcp.h"

#include <math.h>

static void put_backend_load(const struct load *load, uint64_t now_ms, struct json_writer *json)
{
    struct load_view view;

    load_read(load, now_ms, &view);
    json_begin_object(json, "load");
    json_put_u64(json, "queued_tokens", view.queued_tokens);
    json_put_u64(json, "decoding", view.sequences);
    json_put_u64(json, "context_tokens", view.context_tokens);
    json_put_fixed(json, "foreign_requests", (double)view.foreign_requests, 1);
    json_put_u64(json, "predicted_cached_tokens",
                 atomic_load_explicit(&load->predicted_tokens, memory_order_relaxed));
    json_put_u64(json, "reported_cached_tokens",
                 atomic_load_explicit(&load->cached_tokens, memory_order_relaxed));
    json_put_number(json, "prefill_ms_per_token",
                    view.speed_is_learned ? (double)view.prefill_ms : (double)NAN, 5);
    json_put_number(json, "step_ms", view.speed_is_learned ? (double)view.step_ms : (double)NAN, 4);
    json_put_known(json, "cache_tokens", view.cache_tokens > 0, view.cache_tokens);
    json_end(json);
}

static void put_backend_events(const struct admin_options *options, const struct backend *backend,
                               struct json_writer *json)
{
    struct kv_feeder *feeder = admin_feeder(options);
    struct kv_feed_status status;
    bool has_feed = feeder != NULL && kv_feeder_status(feeder, backend->id, &status);

    events_json_put(backend, has_feed ? &status : NULL, json);
}

void backend_json_put_summary(const struct admin_options *options, const struct backend *backend,
                              uint64_t now_ms, struct json_writer *json)
{
    const struct fleet *fleet = options->fleet;
    const struct fleet_member *member = fleet_member(fleet, backend);
    const char *name;

    json_put_u64(json, "id", backend->id);
    json_put_str(json, "url", backend->url);
    json_put_str(json, "pool", config_pool_name(*options->config, backend->pool));
    json_put_u64(json, "weight", member->weight);
    json_put_str(json, "state", member->draining ? "draining" : backend_state(backend, now_ms));
    json_put_u64(json, "in_flight",
                 atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed));
    json_put_u64(json, "requests",
                 atomic_load_explicit(&backend->shared.request_count, memory_order_relaxed));
    json_put_u64(json, "failures",
                 atomic_load_explicit(&backend->shared.failure_count, memory_order_relaxed));
    json_put_u64(json, "refused_kinds", refusals_out_count(&backend->refusals, now_ms));
    json_begin_array(json, "models");
    for (uint32_t i = 0; (name = fleet_model_name(fleet, backend, i)) != NULL; i++) {
        json_put_str(json, NULL, name);
    }
    json_end(json);
}

void backend_json_put(const struct admin_options *options, const struct backend *backend,
                      const struct backend_json_request *request, struct json_writer *json)
{
    uint8_t space[64];
    struct text address = text_over(space, sizeof(space));

    address_format(&backend->address, &address);
    json_begin_object(json, NULL);
    backend_json_put_summary(options, backend, request->now_ms, json);
    json_put_string(json, "address", text_slice(&address));
    if (backend->rank_count > 1) {
        json_put_u64(json, "rank", backend->rank);
        json_put_u64(json, "ranks", backend->rank_count);
    }
    put_backend_load(&backend->load, request->now_ms, json);
    put_backend_events(options, backend, json);
    truth_json_put(&backend->truth, request->now_ms, request->has_histogram, json);
    json_end(json);
}
