// SPDX-License-Identifier: Apache-2.0

#include "admin/explain.h"

#include "admin/admin.h"
#include "admin/document/decision_json.h"
#include "admin/document/truth_json.h"
#include "base/base.h"
#include "config/config.h"
#include "config/option/knobs.h"
#include "dialect/token_reader.h"
#include "fleet/fleet.h"
#include "json/json_writer.h"
#include "knowledge/knowledge.h"
#include "metrics/reason.h"
#include "policy/policy.h"
#include "policy/policy_memory.h"
#include "proxy/proxy.h"
#include "route/route.h"
#include "sys/clock.h"

#include <math.h>

enum { explain_digits = 6 };

// The policy is asked with a copy of what it remembers, so that a question changes nothing.  NULL:
// the policy has no state, or memory is short.
static struct policy_memory *explain_memory(const struct proxy *proxy, uint32_t pool,
                                            const struct policy *policy)
{
    struct policy_memory *memory = proxy_policy_memory(proxy, pool);

    if (policy->state_size == 0) {
        return NULL;
    }
    return memory != NULL && policy_memory_policy(memory) == policy ? policy_memory_copy(memory)
                                                                    : policy_memory_create(policy);
}

static struct route *explain_route(const struct config *config, const struct proxy *proxy,
                                   struct token_thread *token_thread)
{
    const struct policy *policies[fleet_pool_count_max];
    struct policy_memory *memories[fleet_pool_count_max];

    for (uint32_t i = 0; i < config->pool_count; i++) {
        policies[i] = policy_find(config->pools[i].policy);
        memories[i] = explain_memory(proxy, i, policies[i]);
    }
    struct route *route = route_create(&(struct route_options){
        .policies = policies,
        .pool_count = config->pool_count,
        .memories = memories,
        // As at start: a changed limits.backends needs a restart.
        .target_count_max = knowledge_backend_count_max(proxy_knowledge(proxy)),
        .knobs = config_knobs(config),
        .block_size = config->prefix.block_size,
        .block_tokens = config->prefix.block_tokens,
        .host_worth = (float)config->events.host_weight / 100,
        .disk_worth = (float)config->events.disk_weight / 100,
        .knowledge = proxy_knowledge(proxy),
        .sender = proxy_worker_count(proxy),
        .token_thread = token_thread,
        .token_text_max = config->tokens.prompt_size,
        .seed = 1,
    });
    for (uint32_t i = 0; i < config->pool_count; i++) {
        policy_memory_release(&memories[i]);
    }
    return route;
}

static void put_candidate(const struct route_explanation *why, uint32_t i, uint64_t now_ms,
                          struct json_writer *json)
{
    const struct policy_target *target = &why->targets[i];
    const struct decision_party *party = &why->parties[i];

    json_begin_object(json, NULL);
    json_put_str(json, "url", why->backends[i]->url);
    json_put_bool(json, "chosen", i == why->chosen);
    json_put_str(json, "events", backend_events_text(why->backends[i]));
    json_put_bool(json, "by_events", party->by_events);
    json_put_u64(json, "matched_blocks", party->matched_blocks);
    json_put_u64(json, "matched_tokens", party->matched_tokens);
    json_put_u64(json, "host_tokens", party->host_tokens);
    json_put_u64(json, "disk_tokens", party->disk_tokens);
    decision_json_put_party(&why->decision, party, json);
    json_put_u64(json, "decoding", target->decoding);
    json_put_u64(json, "context_tokens", target->context_tokens);
    json_put_fixed(json, "foreign_requests", (double)target->foreign_requests, 1);
    json_put_bool(json, "has_session", target->has_session);
    json_put_u64(json, "cache_tokens", target->cache_tokens);
    json_put_number(json, "prefill_ms_per_token", (double)target->prefill_ms, 5);
    json_put_number(json, "step_ms", (double)target->step_ms, 4);
    truth_json_put(&why->backends[i]->truth, now_ms, false, json);
    json_end(json);
}

// One sentence for people.
static void put_summary(const struct route_explanation *why, struct json_writer *json)
{
    struct reason reason = {.decision = &why->decision,
                            .prompt_tokens = why->decision.prompt_tokens,
                            .attempts = 1,
                            .url = slice_str(why->backends[why->chosen]->url)};

    for (uint32_t i = 0; i < why->decision.candidate_count; i++) {
        if (i != why->chosen) {
            reason_add_rival(&reason, &why->parties[i], slice_str(why->backends[i]->url));
        }
    }
    decision_json_put_reason(&reason, "summary", json);
}

static void put_explanation(const struct route_request *request,
                            const struct route_explanation *why, uint64_t now_ms,
                            struct json_writer *json)
{
    const struct decision *decision = &why->decision;
    bool is_predicted = decision->policy->reads_prompt;

    json_begin_object(json, NULL);
    json_put_str(json, "policy", decision->policy->name);
    json_put_string(json, "model", request->model);
    json_put_str(json, "chosen", why->backends[why->chosen]->url);
    json_put_u64(json, "prompt_tokens", decision->prompt_tokens);
    json_put_u64(json, "prompt_blocks", decision->prompt_blocks);
    json_put_u64(json, "block_tokens", request->block_tokens);
    json_put_bool(json, "by_token_ids", request->prompt->form == PROMPT_TOKENS);
    json_put_number(json, "wait_ms", is_predicted ? (double)decision->chosen.wait_ms : (double)NAN,
                    explain_digits);
    json_put_number(json, "prefill_ms",
                    is_predicted ? (double)decision->chosen.prefill_ms : (double)NAN,
                    explain_digits);
    put_summary(why, json);
    json_begin_array(json, "backends");
    for (uint32_t i = 0; i < decision->candidate_count; i++) {
        put_candidate(why, i, now_ms, json);
    }
    json_end(json);
    json_end(json);
}

bool explain_write(const struct admin_options *options, const struct explain_request *request,
                   struct json_writer *json, enum http_problem *problem)
{
    const struct proxy *proxy = *options->proxy;
    const struct dialect_set *set = proxy == NULL ? NULL : proxy_dialects(proxy);
    // The certifier uses the same slot; both run on the keeper, one after the other.
    struct token_thread *token_thread =
        set == NULL ? NULL : token_thread_create(set, proxy_worker_count(proxy));
    struct route *route =
        proxy == NULL ? NULL : explain_route(*options->config, proxy, token_thread);
    struct route_explanation why;
    struct route_request read;

    if (route == NULL) {
        token_thread_destroy(&token_thread);
        *problem = HTTP_PROBLEM_OVERLOADED;
        return false;
    }
    const struct fleet_view *view = fleet_view(options->fleet);
    route_read(route, view,
               &(struct route_input){.api = prompt_api_of(request->path),
                                     .body = request->body,
                                     .wall_s = clock_wall_ms() / 1000},
               &read);
    enum route_verdict verdict = route_explain(route, view, &read, request->now_us, &why);
    if (verdict == ROUTE_CHOSEN) {
        put_explanation(&read, &why, request->now_us / 1000, json);
    } else {
        *problem =
            verdict == ROUTE_NO_SUCH_MODEL ? HTTP_PROBLEM_NO_SUCH_MODEL : HTTP_PROBLEM_NO_BACKEND;
    }
    route_destroy(&route);
    token_thread_destroy(&token_thread);
    return verdict == ROUTE_CHOSEN;
}
