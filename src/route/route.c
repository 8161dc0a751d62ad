// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "base/base.h"
#include "base/prefill_curve.h"
#include "dialect/dialect.h"
#include "knowledge/knowledge.h"
#include "policy/policy_memory.h"
#include "route/prompt_keys_internal.h"
#include "route/survey_internal.h"

#include <math.h>
#include <stdlib.h>

// An engine computes at most this many tokens in one step, and its running requests wait for it.
enum { step_tokens = 8192 };

struct route {
    uint32_t pool_count;
    bool hashes_all;
    uint32_t sender;
    float host_worth;
    float disk_worth;
    struct knowledge *knowledge;
    struct policy_knobs knobs;
    struct rng rng;
    uint64_t (*clock_ns)(void);
    uint64_t lap_ns; // the clock at the end of the last stage
    bool is_timed;   // the present request
    const struct policy **policies;
    struct policy_memory **memories; // NULL for a policy without state
    struct prompt_keys keys;
    struct survey survey;
    struct decision_party *parties; // of route_explain
};

// Shares the memory that is given, if any.  NULL: out of memory.
static struct policy_memory *take_memory(const struct policy *policy, struct policy_memory *given)
{
    ASSERT(given == NULL || policy_memory_policy(given) == policy);
    return given != NULL ? policy_memory_share(given) : policy_memory_create(policy);
}

static bool take_policies(struct route *route, const struct route_options *options)
{
    route->policies = calloc(options->pool_count, sizeof(struct policy *));
    route->memories = calloc(options->pool_count, sizeof(struct policy_memory *));
    bool complete = route->policies != NULL && route->memories != NULL;
    for (uint32_t i = 0; complete && i < options->pool_count; i++) {
        const struct policy *policy = options->policies[i];
        route->policies[i] = policy;
        if (policy->state_size > 0) {
            struct policy_memory *given = options->memories != NULL ? options->memories[i] : NULL;
            route->memories[i] = take_memory(policy, given);
            complete = route->memories[i] != NULL;
        }
    }
    return complete;
}

struct route *route_create(const struct route_options *options)
{
    ASSERT(options->pool_count > 0 && options->target_count_max > 0);
    ASSERT(options->host_worth >= 0 && options->host_worth <= 1);
    ASSERT(options->disk_worth >= 0 && options->disk_worth <= 1);

    struct route *route = calloc(1, sizeof(*route));
    if (route == NULL) {
        return NULL;
    }
    route->pool_count = options->pool_count;
    route->hashes_all = options->hashes_all;
    route->sender = options->sender;
    route->host_worth = options->host_worth;
    route->disk_worth = options->disk_worth;
    route->knowledge = options->knowledge;
    route->knobs = options->knobs;
    route->rng.state = options->seed;
    route->clock_ns = options->clock_ns;
    route->parties = calloc(options->target_count_max, sizeof(*route->parties));
    bool complete = route->parties != NULL;
    complete &= prompt_keys_init(&route->keys, options);
    complete &= survey_init(&route->survey, options->target_count_max);
    complete &= take_policies(route, options);
    if (!complete) {
        route_destroy(&route);
    }
    return route;
}

void route_destroy(struct route **route_ptr)
{
    struct route *route = *route_ptr;
    *route_ptr = NULL;

    if (route == NULL) {
        return;
    }
    for (uint32_t i = 0; route->memories != NULL && i < route->pool_count; i++) {
        policy_memory_release(&route->memories[i]);
    }
    free(route->policies);
    free(route->memories);
    prompt_keys_fini(&route->keys);
    survey_fini(&route->survey);
    free(route->parties);
    free(route);
}

// Nanoseconds since the last lap.  The clock is read once for the end of a stage and the beginning
// of the next, so the first stage of route_choose begins where route_read has ended.
static uint32_t route_lap(struct route *route)
{
    if (!route->is_timed) {
        return 0;
    }
    uint64_t before = route->lap_ns;
    route->lap_ns = route->clock_ns();
    ASSERT(route->lap_ns >= before);
    return saturate_u32(route->lap_ns - before);
}

static const struct fleet_group *group_of(const struct fleet_view *view,
                                          const struct route_request *request)
{
    return request->model.size > 0 ? fleet_view_find(view, request->model) : &view->pools[0];
}

// The view may be newer than the policies: a pool without a policy of its own uses that of the
// first.
static uint32_t pool_of(const struct route *route, const struct fleet_group *group)
{
    return group->pool < route->pool_count ? group->pool : 0;
}

static bool is_hashed(const struct route *route, const struct fleet_group *group)
{
    return route->hashes_all || route->policies[pool_of(route, group)]->reads_prompt;
}

void route_read_model(struct route *route, const struct route_input *input,
                      struct route_request *out)
{
    prompt_keys_read(&route->keys, input, out);
}

bool route_wants_ids(const struct route *route, const struct fleet_view *view,
                     const struct route_request *request)
{
    const struct fleet_group *group = group_of(view, request);
    return group != NULL && request->prompt->form == PROMPT_TEXT &&
           (is_hashed(route, group) ||
            dialect_set_forwards_ids(route->keys.dialects,
                                     fleet_view_served(view, request->model)));
}

void route_read(struct route *route, const struct fleet_view *view, const struct route_input *input,
                struct route_request *out)
{
    route->is_timed = input->is_timed && route->clock_ns != NULL;
    route_lap(route);
    prompt_keys_read(&route->keys, input, out);
    out->served = fleet_view_served(view, out->model);
    out->parse_ns = route_lap(route);
    if (route->keys.dialects != NULL && route_wants_ids(route, view, out)) {
        prompt_keys_encode(&route->keys, input, out);
    }
    const struct fleet_group *group = group_of(view, out);
    if (group != NULL && is_hashed(route, group)) {
        prompt_keys_hash(&route->keys, view, group,
                         knowledge_traffic(route->knowledge, group->pool), input, out);
        out->hash_ns = route_lap(route);
    }
}

void route_try_gone(struct route_tried *tried, const struct backend *backend)
{
    ASSERT(tried->count > 0 && tried->count <= route_tried_max);
    ASSERT(tried->ids[tried->count - 1] == backend->id);
    tried->ids[tried->count - 1] = backend->server;
    tried->gone |= (uint32_t)1 << (tried->count - 1);
}

bool route_was_tried(const struct route_tried *tried, const struct backend *backend)
{
    ASSERT(tried->count <= route_tried_max);
    for (uint32_t i = 0; i < tried->count; i++) {
        bool is_gone = (tried->gone >> i & 1) != 0;
        if (tried->ids[i] == (is_gone ? backend->server : backend->id)) {
            return true;
        }
    }
    return false;
}

// It has requests, and no output of the kind to show: not the one to ask for a second opinion.
static bool route_may_hang(const struct route_request *request, const struct backend *backend,
                           uint64_t now_ms)
{
    return progress_requests(&backend->progress) > 0 &&
           !refusals_has_output(&backend->refusals, request->kind, now_ms);
}

enum backend_tier route_tier(const struct route_request *request, const struct backend *backend,
                             uint64_t now_ms)
{
    enum backend_tier tier = backend_tier(backend, now_ms);

    if (request->is_second && tier == BACKEND_READY && route_may_hang(request, backend, now_ms)) {
        tier = BACKEND_BUSY;
    }
    // One word of a line that is read anyway spares the table of nearly all backends.
    if (request->kind == 0 ||
        !atomic_load_explicit(&backend->shared.refuses, memory_order_relaxed)) {
        return tier;
    }
    enum refusal_state state = refusals_look(&backend->refusals, request->kind, now_ms);
    if (state == REFUSAL_OUT) {
        return BACKEND_DOWN;
    }
    bool gives_way = state == REFUSAL_ASKED || (state == REFUSAL_NOTED && request->is_second);
    return gives_way && tier == BACKEND_READY ? BACKEND_BUSY : tier;
}

bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms)
{
    const struct fleet_group *group = group_of(view, request);
    for (uint32_t i = 0; group != NULL && i < group->count; i++) {
        const struct fleet_member *member = &view->members[view->lists[group->first + i]];
        if (!member->draining && !route_was_tried(tried, member->backend) &&
            route_tier(request, member->backend, now_ms) <= worst) {
            return true;
        }
    }
    return false;
}

// The input of one decision.
struct route_question {
    const struct fleet_group *group;
    const struct policy *policy;
    struct policy_memory *memory; // NULL: the policy has no state
    struct survey_task task;
    struct policy_traffic traffic;
    float reuse; // policy.h
};

// A prefix that is used twice while it is cached is younger than half of the cache.
static const float reuse_that_lasts = 2;

static uint32_t pick(struct route *route, const struct route_question *question)
{
    const struct route_request *request = question->task.request;
    const struct prompt *prompt = request->prompt;
    uint64_t history = prompt == NULL || prompt->text_size == 0
                           ? 0
                           : request->prompt_tokens * prompt->history_size / prompt->text_size;
    struct policy_input in = {
        .targets = route->survey.targets,
        .target_count = route->survey.count,
        .pool_size = question->group->count,
        .session_key = request->session_key,
        .now_ms = question->task.now_us / 1000,
        .keys = request->keys,
        .key_count = request->key_count,
        .prompt_tokens = request->prompt_tokens,
        .block_tokens = request->block_tokens > 0 ? request->block_tokens : 1,
        .history_tokens = saturate_u32(history),
        .turns = prompt == NULL ? 0 : prompt->turns,
        .output_max = prompt == NULL ? 0 : saturate_u32(prompt->output_max),
        .reuse = question->reuse,
        .knobs = &route->knobs,
        .traffic = &question->traffic,
        .costs = route->survey.costs,
    };
    // A policy without costs writes none, and must not be credited with those of the last request.
    for (uint32_t i = 0; question->task.reads_prompt && i < route->survey.count; i++) {
        route->survey.costs[i] = NAN;
    }
    ASSERT(in.target_count > 0);
    uint32_t chosen = question->memory == NULL
                          ? policy_pick(question->policy, NULL, &in, &route->rng)
                          : policy_memory_pick(question->memory, &in, &route->rng);
    ASSERT(chosen < in.target_count);
    return chosen;
}

// The time until the engine begins with the request, and the time that its prompt takes.
static void predict(const struct policy_target *target, uint32_t prompt_tokens, float *wait_ms,
                    float *prefill_ms)
{
    ASSERT(target->matched_tokens <= prompt_tokens);
    uint32_t uncached = prompt_tokens - target->matched_tokens;
    uint64_t steps = (target->queued_tokens + uncached + step_tokens - 1) / step_tokens;

    *wait_ms =
        prefill_curve_ms(target->prefill_ms, target->step_ms, 0, (float)target->queued_tokens);
    *wait_ms += target->decoding > 0 ? (float)steps * target->step_ms : 0;
    *prefill_ms =
        prefill_curve_ms(target->prefill_ms, target->step_ms, (float)target->matched_tokens,
                         uncached > 0 ? (float)uncached : 1);
}

static void describe_party(const struct route *route, const struct survey_task *task,
                           uint32_t target_index, struct decision_party *out)
{
    const struct survey *survey = &route->survey;
    const struct policy_target *target = &survey->targets[target_index];
    const struct backend *backend = survey->backends[target_index];

    ASSERT(target_index < survey->count && target->backend == backend->slot);
    *out = (struct decision_party){
        .backend = backend->id,
        .slot = backend->slot,
        .running_requests = target->running_requests,
        .queued_tokens = target->queued_tokens,
        .cost = NAN,
    };
    if (!task->reads_prompt) {
        return;
    }
    struct route_holding holding = survey_holding(survey, task, backend);
    out->matched_blocks = holding.blocks;
    out->matched_tokens = holding.tokens;
    out->confirmed_tokens = survey_tokens(task->request, holding.confirmed);
    out->reported_tokens = holding.reported_tokens;
    out->host_tokens = holding.host_tokens;
    out->disk_tokens = holding.disk_tokens;
    out->expected_tokens = holding.expected_tokens;
    out->by_events = holding.by_events;
    out->age = survey->beliefs[backend->slot].age;
    out->cost = (float)survey->costs[target_index];
    predict(target, task->request->prompt_tokens, &out->wait_ms, &out->prefill_ms);
    out->token_ms = target->prefill_ms;
    out->step_ms = target->step_ms;
}

static void describe(const struct route *route, const struct route_question *question,
                     uint32_t chosen, struct decision *out)
{
    const struct survey *survey = &route->survey;
    const struct route_request *request = question->task.request;

    *out = (struct decision){
        .policy = question->policy,
        .pool = question->group->pool,
        .candidate_count = survey->count,
        .prompt_tokens = request->prompt_tokens,
        .prompt_blocks = request->key_count,
        .session_slot = survey->session_slot,
    };
    describe_party(route, &question->task, chosen, &out->chosen);
}

static bool question_begin(struct route *route, const struct fleet_view *view,
                           const struct route_request *request, const struct route_tried *tried,
                           uint64_t now_us, struct route_question *out)
{
    const struct fleet_group *group = group_of(view, request);
    if (group == NULL) {
        return false;
    }
    uint32_t pool = pool_of(route, group);
    const struct policy *policy = route->policies[pool];
    *out = (struct route_question){
        .group = group,
        .policy = policy,
        .memory = route->memories[pool],
        .task = {.knowledge = route->knowledge,
                 .sender = route->sender,
                 .view = view,
                 .group = group,
                 .request = request,
                 .tried = tried,
                 .now_us = now_us,
                 .host_worth = route->host_worth,
                 .disk_worth = route->disk_worth,
                 .reads_prompt = policy->reads_prompt && request->chain != NULL,
                 .may_sample = policy->may_sample},
    };
    if (out->task.reads_prompt) {
        struct traffic_view traffic;
        traffic_read(knowledge_traffic(route->knowledge, group->pool), now_us, &traffic);
        out->task.speed_life_ms = load_speed_life_ms(traffic.arrivals_per_ms / (float)group->count);
        out->traffic = (struct policy_traffic){
            .arrivals_per_ms = traffic.arrivals_per_ms,
            .decode_ms = traffic.decode_ms,
            .output_tokens = traffic.output_tokens,
            .prefill_ms = traffic.prefill_ms,
            .scarcity = traffic.scarcity,
        };
    }
    survey_match(&route->survey, &out->task);
    return true;
}

static void question_collect(struct route *route, struct route_question *question)
{
    const struct prompt *prompt = question->task.request->prompt;

    survey_collect(&route->survey, &question->task, &route->rng);
    // Later turns are the prefix of one conversation only: a second holder would not be asked for
    // it.
    bool is_shared = prompt == NULL || prompt->turns == 0;
    question->reuse = question->task.reads_prompt && is_shared
                          ? survey_reuse(&route->survey, question->group->count)
                          : 0;
}

// Counts the request in, unless another one is on trial there.
static bool is_admitted(const struct route_question *question, struct backend *backend, bool anyway,
                        struct route_choice *out)
{
    uint64_t kind = question->task.request->kind;
    uint64_t now_ms = question->task.now_us / 1000;

    if (!refusals_begin(&backend->refusals, kind, now_ms, anyway, &out->on_kind_trial)) {
        return false;
    }
    if (backend_begin(backend, now_ms, anyway, &out->on_trial)) {
        return true;
    }
    if (out->on_kind_trial) {
        refusals_end_trial(&backend->refusals, kind);
    }
    return false;
}

// Asks the policy until it names a backend that accepts one request more: another worker may have
// put it on trial in the meantime.
static bool choose_among(struct route *route, const struct route_question *question,
                         struct decision *decision, struct route_choice *out)
{
    struct survey *survey = &route->survey;

    while (survey->count > 0) {
        uint32_t chosen = pick(route, question);
        struct backend *backend = survey->backends[chosen];
        if (is_admitted(question, backend, survey->tier == BACKEND_DOWN, out)) {
            out->backend = backend;
            describe(route, question, chosen, decision);
            return true;
        }
        survey_drop(survey, chosen);
    }
    return false;
}

static void note_traffic(struct route *route, const struct route_question *question,
                         const struct decision *decision)
{
    struct traffic *traffic = knowledge_traffic(route->knowledge, question->group->pool);

    if (question->reuse > 0) {
        traffic_reused(traffic, question->reuse >= reuse_that_lasts);
    }
    if (question->task.tried->count == 0) {
        traffic_arrive(traffic, question->task.now_us);
    }
    traffic_routed(traffic, decision->chosen.prefill_ms);
}

enum route_verdict route_choose(struct route *route, const struct fleet_view *view,
                                const struct route_request *request,
                                const struct route_tried *tried, uint64_t now_us,
                                struct route_choice *out)
{
    struct route_question question;

    ASSERT(out->decision != NULL);
    if (!question_begin(route, view, request, tried, now_us, &question)) {
        return ROUTE_NO_SUCH_MODEL;
    }
    // Other workers may have put all ready backends on trial since the survey: the second survey
    // then finds those of the next tier.
    for (int look = 0; look < 2; look++) {
        question_collect(route, &question);
        out->match_ns = route_lap(route);
        if (choose_among(route, &question, out->decision, out)) {
            if (question.task.reads_prompt) {
                note_traffic(route, &question, out->decision);
            }
            out->decide_ns = route_lap(route);
            return ROUTE_CHOSEN;
        }
    }
    return ROUTE_NO_BACKEND;
}

// How good a rival is; less is better.
static double rank_of(const struct route *route, uint32_t target, bool reads_prompt)
{
    double cost = reads_prompt ? route->survey.costs[target] : NAN;
    return isnan(cost) ? route->survey.targets[target].running_requests : cost;
}

uint32_t route_rivals(const struct route *route, const struct fleet_view *view,
                      const struct route_request *request, const struct backend *chosen,
                      uint64_t now_us, struct decision_party out[decision_rival_max])
{
    const struct fleet_group *group = group_of(view, request);
    const struct policy *policy = route->policies[pool_of(route, group)];
    struct survey_task task = {.knowledge = route->knowledge,
                               .view = view,
                               .group = group,
                               .request = request,
                               .now_us = now_us,
                               .host_worth = route->host_worth,
                               .disk_worth = route->disk_worth,
                               .reads_prompt = policy->reads_prompt && request->chain != NULL};
    uint32_t best[decision_rival_max];
    double ranks[decision_rival_max];
    uint32_t count = 0;

    ASSERT(group != NULL); // `chosen` is one of it
    for (uint32_t i = 0; i < route->survey.count; i++) {
        double rank = rank_of(route, i, task.reads_prompt);
        bool is_full = count == decision_rival_max;
        if (route->survey.backends[i] == chosen || (is_full && rank >= ranks[count - 1])) {
            continue;
        }
        uint32_t at = is_full ? count - 1 : count++;
        for (; at > 0 && ranks[at - 1] > rank; at--) {
            ranks[at] = ranks[at - 1];
            best[at] = best[at - 1];
        }
        ranks[at] = rank;
        best[at] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        describe_party(route, &task, best[i], &out[i]);
    }
    return count;
}

enum route_verdict route_explain(struct route *route, const struct fleet_view *view,
                                 const struct route_request *request, uint64_t now_us,
                                 struct route_explanation *out)
{
    struct survey *survey = &route->survey;
    struct route_tried tried = {0};
    struct route_question question;

    if (!question_begin(route, view, request, &tried, now_us, &question)) {
        return ROUTE_NO_SUCH_MODEL;
    }
    question.task.may_sample = false; // the reader wants to see every candidate
    question_collect(route, &question);
    if (survey->count == 0) {
        return ROUTE_NO_BACKEND;
    }
    for (uint32_t i = 0; i < survey->count; i++) {
        survey->costs[i] = NAN;
    }
    out->chosen = pick(route, &question);
    describe(route, &question, out->chosen, &out->decision);
    for (uint32_t i = 0; i < survey->count; i++) {
        describe_party(route, &question.task, i, &route->parties[i]);
    }
    out->targets = survey->targets;
    out->backends = survey->backends;
    out->parties = route->parties;
    return ROUTE_CHOSEN;
}
