// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "base/base.h"
#include "base/hash.h"
#include "json/json.h"
#include "policy/policy.h"

#include <stdlib.h>

struct route {
    uint32_t pool_count;
    uint32_t target_count_max;
    struct policy_knobs knobs;
    struct rng rng;
    const struct policy **policies;
    void **states;
    struct policy_target *targets;
    struct backend **backends; // of each target
};

struct route *route_create(const struct route_options *options)
{
    ASSERT(options->pool_count > 0 && options->target_count_max > 0);

    struct route *route = calloc(1, sizeof(*route));
    if (route == NULL) {
        return NULL;
    }
    route->pool_count = options->pool_count;
    route->target_count_max = options->target_count_max;
    route->knobs = (struct policy_knobs){.load_bound_percent = options->load_bound_percent};
    route->rng.state = options->seed;
    route->policies = calloc(options->pool_count, sizeof(struct policy *));
    route->states = calloc(options->pool_count, sizeof(*route->states));
    route->targets = calloc(options->target_count_max, sizeof(*route->targets));
    route->backends = calloc(options->target_count_max, sizeof(struct backend *));
    bool complete = route->policies != NULL && route->states != NULL && route->targets != NULL &&
                    route->backends != NULL;
    for (uint32_t i = 0; complete && i < options->pool_count; i++) {
        route->policies[i] = options->policies[i];
        route->states[i] = calloc(1, options->policies[i]->state_size + 1);
        complete = route->states[i] != NULL;
    }
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
    for (uint32_t i = 0; route->states != NULL && i < route->pool_count; i++) {
        free(route->states[i]);
    }
    free(route->policies);
    free(route->states);
    free(route->targets);
    free(route->backends);
    free(route);
}

// Zero means no session, so a session's key is never zero.
static uint64_t session_key(struct slice session)
{
    return session.size == 0 ? 0 : hash_bytes(session, 0) | 1;
}

static struct slice string_of(const struct json_value *value, uint8_t *buffer)
{
    struct slice text = {0};
    if (value->kind != JSON_STRING ||
        json_string_decode(value->raw, buffer, route_model_size_max, &text) != STATUS_OK) {
        return (struct slice){0};
    }
    return text;
}

void route_read(struct slice body, struct slice session, struct route_scratch *scratch,
                struct route_request *out)
{
    static const char *const names[] = {"model", "user"};
    struct json_value values[ARRAY_COUNT(names)] = {0};

    *out = (struct route_request){.session_key = session_key(session)};
    // What cannot be understood is forwarded unchanged: the engine will say what it thinks of it.
    if (body.size == 0 || json_find(body, names, ARRAY_COUNT(names), values) != STATUS_OK) {
        return;
    }
    out->model = string_of(&values[0], scratch->model);
    if (session.size == 0) {
        out->session_key = session_key(string_of(&values[1], scratch->user));
    }
}

bool route_was_tried(const struct route_tried *tried, const struct backend *backend)
{
    for (uint32_t i = 0; i < tried->count; i++) {
        if (tried->ids[i] == backend->id) {
            return true;
        }
    }
    return false;
}

static const struct fleet_group *group_of(const struct fleet_view *view,
                                          const struct route_request *request)
{
    return request->model.size > 0 ? fleet_view_find(view, request->model) : &view->pools[0];
}

static bool is_candidate(const struct fleet_member *member, const struct route_tried *tried)
{
    return !member->draining && !route_was_tried(tried, member->backend);
}

bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms)
{
    const struct fleet_group *group = group_of(view, request);
    for (uint32_t i = 0; group != NULL && i < group->count; i++) {
        const struct fleet_member *member = &view->members[view->lists[group->first + i]];
        if (is_candidate(member, tried) && backend_tier(member->backend, now_ms) <= worst) {
            return true;
        }
    }
    return false;
}

struct choice_input {
    uint32_t pool;
    enum backend_tier tier; // of all targets
    uint64_t session_key;
    uint64_t now_ms;
};

// Fills route->targets with the candidates of the best tier that has any.
static uint32_t collect(struct route *route, const struct fleet_view *view,
                        const struct fleet_group *group, const struct route_tried *tried,
                        uint64_t now_ms, enum backend_tier *best)
{
    uint32_t count = 0;

    *best = BACKEND_DOWN;
    for (uint32_t i = 0; i < group->count; i++) {
        const struct fleet_member *member = &view->members[view->lists[group->first + i]];
        struct backend *backend = member->backend;
        if (!is_candidate(member, tried)) {
            continue;
        }
        enum backend_tier tier = backend_tier(backend, now_ms);
        if (tier > *best) {
            continue;
        }
        count = tier < *best ? 0 : count;
        *best = tier;
        ASSERT(count < route->target_count_max);
        route->backends[count] = backend;
        route->targets[count++] = (struct policy_target){
            .backend = backend->slot,
            .weight = member->weight,
            .running_requests =
                atomic_load_explicit(&backend->shared.in_flight, memory_order_relaxed),
            .identity = backend->identity,
        };
    }
    return count;
}

// Lets the policy choose among the first `count` targets.  Each round drops one: another worker was
// quicker to put it on trial.
static bool choose_among(struct route *route, const struct choice_input *input, uint32_t count,
                         struct route_choice *out)
{
    while (count > 0) {
        struct policy_input in = {
            .targets = route->targets,
            .target_count = count,
            .knobs = &route->knobs,
            .session_key = input->session_key,
        };
        uint32_t chosen =
            policy_pick(route->policies[input->pool], route->states[input->pool], &in, &route->rng);
        struct backend *backend = route->backends[chosen];
        if (backend_begin(backend, input->now_ms, input->tier == BACKEND_DOWN, &out->on_trial)) {
            out->backend = backend;
            return true;
        }
        count--;
        route->targets[chosen] = route->targets[count];
        route->backends[chosen] = route->backends[count];
    }
    return false;
}

enum route_verdict route_choose(struct route *route, const struct fleet_view *view,
                                const struct route_request *request,
                                const struct route_tried *tried, uint64_t now_ms,
                                struct route_choice *out)
{
    const struct fleet_group *group = group_of(view, request);
    if (group == NULL) {
        return ROUTE_NO_SUCH_MODEL;
    }
    ASSERT(group->pool < route->pool_count);

    // A second look: all that were ready may have been put on trial by other workers meanwhile, and
    // then the next tier counts.
    for (int look = 0; look < 2; look++) {
        struct choice_input input = {
            .pool = group->pool, .session_key = request->session_key, .now_ms = now_ms};
        uint32_t count = collect(route, view, group, tried, now_ms, &input.tier);
        if (choose_among(route, &input, count, out)) {
            return ROUTE_CHOSEN;
        }
    }
    return ROUTE_NO_BACKEND;
}
