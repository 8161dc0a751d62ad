// SPDX-License-Identifier: Apache-2.0

#include "admin/explain.h"

#include "admin/admin_call.h"
#include "admin/document/truth_json.h"
#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "config/option/knobs.h"
#include "dialect/token_reader.h"
#include "fleet/fleet.h"
#include "knowledge/knowledge.h"
#include "metrics/reason.h"
#include "policy/policy.h"
#include "proxy/proxy.h"
#include "route/route.h"
#include "sys/clock.h"

#include <math.h>

// Urls of two backends and what is said of them.
enum { summary_size_max = 4096 };

static struct route *make_route(const struct config *config, const struct proxy *proxy,
                                struct token_thread *token_thread)
{
    const struct policy *policies[fleet_pool_count_max];

    for (uint32_t i = 0; i < config->pool_count; i++) {
        policies[i] = policy_find(config->pools[i].policy);
    }
    return route_create(&(struct route_options){
        .policies = policies,
        .pool_count = config->pool_count,
        // As the proxy began: a limit that was lowered since takes effect at the next start.
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
}

static void add_target(const struct route_explanation *why, uint32_t i, uint64_t now_ms,
                       struct text *json)
{
    const struct policy_target *target = &why->targets[i];
    const struct route_holding *holding = &why->holdings[i];

    text_add_str(json, "{\"url\":");
    text_add_json(json, slice_str(why->backends[i]->url));
    text_add_format(json,
                    ",\"chosen\":%s,\"events\":\"%s\",\"exact\":%s,\"matched_blocks\":%u,"
                    "\"matched_tokens\":%u,\"host_tokens\":%u,\"disk_tokens\":%u,"
                    "\"expected_tokens\":%u,"
                    "\"queued_tokens\":%lu,\"running_requests\":%u,\"decoding\":%u,"
                    "\"context_tokens\":%lu,\"foreign_requests\":%.1f,\"has_session\":%s,"
                    "\"cache_tokens\":%lu,\"prefill_ms_per_token\":%.5g,\"step_ms\":%.4g,"
                    "\"predicted_ms\":",
                    i == why->chosen ? "true" : "false", backend_events_text(why->backends[i]),
                    holding->is_exact ? "true" : "false", holding->blocks, holding->tokens,
                    holding->host_tokens, holding->disk_tokens, holding->expected_tokens,
                    (unsigned long)target->queued_tokens, target->running_requests,
                    target->decoding, (unsigned long)target->context_tokens,
                    (double)target->foreign_requests, target->has_session ? "true" : "false",
                    (unsigned long)target->cache_tokens, (double)target->prefill_ms,
                    (double)target->step_ms);
    admin_add_number(json, (double)why->predicted_ms[i]);
    text_add_str(json, ",\"cost\":");
    admin_add_number(json, why->costs[i]);
    text_add_str(json, ",\"truth\":");
    truth_json_add_brief(&why->backends[i]->truth, now_ms, json);
    text_add_str(json, "}");
}

static struct reason_party party_of(const struct route_explanation *why, uint32_t i)
{
    return (struct reason_party){.url = slice_str(why->backends[i]->url),
                                 .expected_tokens = why->holdings[i].expected_tokens,
                                 .running_requests = why->targets[i].running_requests,
                                 .queued_tokens = why->targets[i].queued_tokens,
                                 .predicted_ms = (double)why->predicted_ms[i],
                                 .cost = why->costs[i]};
}

// One sentence for people.
static void add_summary(const struct route_explanation *why, struct text *json)
{
    const struct route_decision *decision = &why->decision;
    struct reason reason = {.policy = decision->policy->name,
                            .reads_prompt = decision->policy->reads_prompt,
                            .is_exact = decision->is_exact,
                            .prompt_tokens = decision->prompt_tokens,
                            .candidate_count = decision->target_count,
                            .attempts = 1,
                            .chosen = party_of(why, why->chosen)};
    char line[summary_size_max];
    struct text text = text_over(line, sizeof(line));

    for (uint32_t i = 0; i < decision->target_count; i++) {
        if (i != why->chosen) {
            struct reason_party rival = party_of(why, i);
            reason_add_rival(&reason, &rival);
        }
    }
    reason_write(&reason, &text);
    text_add_str(json, "\"summary\":");
    text_add_json(json, text_slice(&text));
}

static void add_document(const struct route_request *request, const struct route_explanation *why,
                         uint64_t now_ms, struct text *json)
{
    const struct route_decision *decision = &why->decision;

    text_add_format(json, "{\"policy\":\"%s\",\"model\":", decision->policy->name);
    text_add_json(json, request->model);
    text_add_str(json, ",\"chosen\":");
    text_add_json(json, slice_str(why->backends[why->chosen]->url));
    text_add_format(json,
                    ",\"prompt_tokens\":%u,\"prompt_blocks\":%u,\"block_tokens\":%u,"
                    "\"exact\":%s,",
                    decision->prompt_tokens, decision->prompt_blocks, request->block_tokens,
                    request->prompt->form == PROMPT_TOKENS ? "true" : "false");
    text_add_str(json, "\"wait_ms\":");
    admin_add_number(json,
                     decision->policy->reads_prompt ? (double)decision->wait_ms : (double)NAN);
    text_add_str(json, ",\"prefill_ms\":");
    admin_add_number(json,
                     decision->policy->reads_prompt ? (double)decision->prefill_ms : (double)NAN);
    text_add_str(json, ",");
    add_summary(why, json);
    text_add_str(json, ",\"backends\":[");
    for (uint32_t i = 0; i < decision->target_count; i++) {
        text_add_str(json, i > 0 ? "," : "");
        add_target(why, i, now_ms, json);
    }
    text_add_str(json, "]}");
}

bool explain_write(const struct admin_options *options, const struct explain_request *request,
                   struct text *json, enum http_problem *problem)
{
    const struct proxy *proxy = *options->proxy;
    const struct dialect_set *set = proxy == NULL ? NULL : proxy_dialects(proxy);
    // We and the certifier are one thread, and never at the same time.
    struct token_thread *token_thread =
        set == NULL ? NULL : token_thread_create(set, proxy_worker_count(proxy));
    struct route *route = proxy == NULL ? NULL : make_route(*options->config, proxy, token_thread);
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
        add_document(&read, &why, request->now_us / 1000, json);
    } else {
        *problem =
            verdict == ROUTE_NO_SUCH_MODEL ? HTTP_PROBLEM_NO_SUCH_MODEL : HTTP_PROBLEM_NO_BACKEND;
    }
    route_destroy(&route);
    token_thread_destroy(&token_thread);
    return verdict == ROUTE_CHOSEN;
}
