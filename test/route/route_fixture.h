// SPDX-License-Identifier: Apache-2.0
//
// route_fixture.h -- a route over three backends, for the tests of routing.
#pragma once

#include "base/reclaim.h"
#include "dialect/tiny_dialect.h"
#include "knowledge/knowledge.h"
#include "policy/policy.h"
#include "route/route.h"
#include "test.h"

static struct reclaim reclaim;
static struct fleet *fleet;
static struct route *route;
static struct knowledge *knowledge;
static struct backend *backends[3];
static size_t ledger_memory; // 0: engines send no KV events
static struct tiny_set tiny; // thread NULL: no model has a dialect
static struct route_tried tried;
static uint64_t (*route_clock)(void); // NULL: nothing is timed
static const struct backend_rules rules = {
    .eject_failures = 1, .eject_time_ms = 1000, .eject_time_max_ms = 1000};

static const char long_chat[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\""
    "You answer questions about the weather in harbours, briefly and without guessing. When the "
    "forecast is older than six hours you say so first. You never give advice to sailors. "
    "Everything that is not about the weather you refuse with one sentence and no reasons.\"},"
    "{\"role\":\"user\",\"content\":\"Will there be fog in Bergen tomorrow morning?\"}]}";

// Three backends in one pool, which serve m, m and n.
static inline void set_up(const struct policy *policy)
{
    static const char *const urls[] = {"http://a", "http://b", "http://c"};
    static const char *const models[] = {"m", "m", "n"};
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 8, .pool_count = 2}, &reclaim);
    for (uint32_t i = 0; i < 3; i++) {
        backends[i] = fleet_add(
            fleet,
            &(struct fleet_spec){
                .url = urls[i], .host = "h", .weight = 1, .models = &models[i], .model_count = 1});
    }
    ASSERT(fleet_publish(fleet));
    knowledge = knowledge_create(&(struct knowledge_options){.memory = 1 << 20,
                                                             .ledger_memory = ledger_memory,
                                                             .backend_count_max = 8,
                                                             .sender_count = 1});
    ASSERT(knowledge != NULL);
    route = route_create(&(struct route_options){.policies = &policy,
                                                 .pool_count = 1,
                                                 .target_count_max = 8,
                                                 .knobs = {.load_bound_percent = 125},
                                                 .block_size = 64,
                                                 .block_tokens = 4,
                                                 .token_thread = tiny.thread,
                                                 .token_text_max = 4096,
                                                 .knowledge = knowledge,
                                                 .seed = 1,
                                                 .clock_ns = route_clock});
    ASSERT(route != NULL);
    tried = (struct route_tried){0};
}

static inline void tear_down(void)
{
    route_destroy(&route);
    knowledge_destroy(&knowledge);
    fleet_destroy(&fleet);
}

static inline struct route_request read_chat(const char *body, const char *session)
{
    struct route_request out;
    route_read(route, fleet_view(fleet),
               &(struct route_input){
                   .api = PROMPT_CHAT, .body = slice_str(body), .session = slice_str(session)},
               &out);
    return out;
}

static inline void route_fixture_open_with_events(void)
{
    ledger_memory = 1 << 20;
    set_up(&policy_kv_aware);
    ledger_memory = 0;
}

static inline struct route_request read_ids(const char *model)
{
    struct route_request out;
    static char body[256]; // the request points into it
    snprintf(body, sizeof(body), "{\"model\":\"%s\",\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13]}",
             model);
    route_read(route, fleet_view(fleet),
               &(struct route_input){.api = PROMPT_COMPLETION, .body = slice_str(body)}, &out);
    return out;
}
