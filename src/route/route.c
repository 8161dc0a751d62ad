// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "base/base.h"
#include "base/hash.h"
#include "base/prefill_curve.h"
#include "dialect/token_reader.h"
#include "fleet/load.h"
#include "knowledge/knowledge.h"
#include "route/survey_internal.h"

#include <math.h>
#include <stdlib.h>

enum {
    // What one prompt may have; a million tokens of text are 16,384 blocks of 256 bytes, of
    // which the first half decides where it goes.
    key_count_max = prefix_letter_keys_max,
    // An engine computes at most this much in one step, and its running requests wait for it.
    step_tokens = 8192,
    // Groups whose sizes of blocks are remembered.
    group_cache_count = 16,
};

// How the engines of a group cut prompts into blocks.
struct block_sizes {
    uint64_t generation; // of the view
    uint64_t wall_s;
    uint32_t first; // of the group
    uint32_t count; // at least 1
    uint32_t tokens[route_size_max];
};

struct route {
    uint32_t pool_count;
    uint32_t block_size;
    uint32_t block_tokens;
    bool names_all;
    uint32_t sender;
    uint64_t (*clock_ns)(void);
    uint64_t lap_ns; // when the clock was last looked at
    bool is_timed;   // the last request that was read
    struct knowledge *knowledge;
    struct policy_knobs knobs;
    struct rng rng;
    const struct policy **policies;
    void **states;
    struct survey survey;
    struct decision_party *parties; // of route_explain
    const struct dialect_set *dialects;
    struct token_reader *token_reader; // NULL: there is no set
    size_t token_text_max;
    struct prompt_reader *own_reader;
    struct prompt_reader *reader; // of the last route_read: ours, or that of its reading
    struct prompt prompt;         // of the last route_read, with what follows
    struct prefix_chain chain;
    uint64_t *keys; // of the request, and behind them by blocks of other sizes
    float host_worth;
    float disk_worth;
    struct block_sizes sizes[group_cache_count];
};

static bool create_states(struct route *route, const struct route_options *options)
{
    route->policies = calloc(options->pool_count, sizeof(struct policy *));
    route->states = calloc(options->pool_count, sizeof(*route->states));
    bool complete = route->policies != NULL && route->states != NULL;
    for (uint32_t i = 0; complete && i < options->pool_count; i++) {
        route->policies[i] = options->policies[i];
        route->states[i] = calloc(1, options->policies[i]->state_size + 1);
        complete = route->states[i] != NULL;
    }
    return complete;
}

struct route *route_create(const struct route_options *options)
{
    ASSERT(options->pool_count > 0 && options->target_count_max > 0 && options->block_size > 0);

    struct route *route = calloc(1, sizeof(*route));
    if (route == NULL) {
        return NULL;
    }
    route->pool_count = options->pool_count;
    route->block_size = options->block_size;
    route->block_tokens = options->block_tokens;
    route->names_all = options->names_all;
    route->sender = options->sender;
    route->clock_ns = options->clock_ns;
    route->knowledge = options->knowledge;
    route->knobs = options->knobs;
    route->rng.state = options->seed;
    route->dialects = token_thread_set(options->token_thread);
    route->token_text_max = options->token_text_max;
    route->own_reader = prompt_reader_create();
    route->host_worth = options->host_worth;
    route->disk_worth = options->disk_worth;
    route->keys = calloc((size_t)key_count_max * route_size_max, sizeof(uint64_t));
    route->parties = calloc(options->target_count_max, sizeof(*route->parties));
    bool complete = survey_init(&route->survey, options->target_count_max);
    complete &= create_states(route, options);
    if (options->token_thread != NULL) {
        route->token_reader = token_reader_create(options->token_thread, options->token_text_max);
        complete &= route->token_reader != NULL;
    }
    if (!complete || route->own_reader == NULL || route->keys == NULL || route->parties == NULL) {
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
    survey_fini(&route->survey);
    token_reader_destroy(&route->token_reader);
    prompt_reader_destroy(&route->own_reader);
    free(route->keys);
    free(route->parties);
    free(route);
}

static uint32_t at_most_u32(uint64_t value)
{
    return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

// Nanoseconds since the last lap: one look at the clock for the end of a stage and the beginning of the next, so
// the first stage of route_choose begins where route_read has ended.
static uint32_t lap(struct route *route)
{
    if (!route->is_timed) {
        return 0;
    }
    uint64_t before = route->lap_ns;
    route->lap_ns = route->clock_ns();
    return at_most_u32(route->lap_ns - before);
}

// Zero means no session, so a session's key is never zero.
static uint64_t session_key(struct slice session)
{
    return session.size == 0 ? 0 : hash_bytes(session, 0) | 1;
}

static const struct fleet_group *group_of(const struct fleet_view *view,
                                          const struct route_request *request)
{
    return request->model.size > 0 ? fleet_view_find(view, request->model) : &view->pools[0];
}

// A view may be of another age than the policies: pools that are new to us go by the first one's.
static uint32_t pool_of(const struct route *route, const struct fleet_group *group)
{
    return group->pool < route->pool_count ? group->pool : 0;
}

static void add_size(struct block_sizes *sizes, uint32_t tokens)
{
    bool is_usable = tokens > 0 && tokens <= prefix_block_size_max / 4;
    for (uint32_t i = 0; i < sizes->count; i++) {
        is_usable &= sizes->tokens[i] != tokens;
    }
    if (is_usable && sizes->count < route_size_max) {
        sizes->tokens[sizes->count++] = tokens;
    }
}

// What the engines of the group say, or else what the operator says.  It hardly ever changes, and to ask
// everybody takes long in a large group: once a second.
static const struct block_sizes *sizes_of(struct route *route, const struct fleet_view *view,
                                          const struct fleet_group *group, uint64_t wall_s)
{
    struct block_sizes *sizes = &route->sizes[group->first % group_cache_count];

    if (sizes->count > 0 && sizes->generation == view->generation && sizes->wall_s == wall_s &&
        sizes->first == group->first) {
        return sizes;
    }
    *sizes = (struct block_sizes){
        .generation = view->generation, .wall_s = wall_s, .first = group->first};
    for (uint32_t i = 0; i < group->count; i++) {
        add_size(sizes,
                 load_block_tokens(&view->members[view->lists[group->first + i]].backend->load));
    }
    if (sizes->count == 0) {
        sizes->tokens[sizes->count++] = route->block_tokens;
    }
    return sizes;
}

// Our own ids of a prompt that came as text, if its engine's can be known.
static void read_ids(struct route *route, const struct route_input *input,
                     struct route_request *out)
{
    struct prompt *prompt = &route->prompt;
    struct token_result found = {0};

    if (input->token_result != NULL) {
        found = *input->token_result;
    } else if (input->body.size <= route->token_text_max) {
        struct dialect *dialect = dialect_set_find(route->dialects, out->model);
        enum status status =
            dialect == NULL ? STATUS_MALFORMED
                            : token_reader_begin(route->token_reader,
                                                 &(struct token_request){.dialect = dialect,
                                                                         .api = input->api,
                                                                         .body = input->body,
                                                                         .salt = prompt->salt,
                                                                         .wall_s = input->wall_s},
                                                 SIZE_MAX, &found);
        ASSERT(status != STATUS_AGAIN);
    }
    if (found.dialect == NULL) {
        return;
    }
    prompt->form = PROMPT_TOKENS;
    prompt->token_count = found.count;
    out->dialect = found.dialect;
    out->shape = found.shape;
    out->ids = found.ids;
    out->id_count = found.count;
}

static void add_prompt(struct route *route, const struct route_request *request,
                       struct prefix_chain *chain)
{
    if (request->dialect != NULL) {
        prefix_chain_add(chain, slice_of(request->ids, request->id_count * sizeof(uint32_t)));
    } else if (route->prompt.form != PROMPT_NOTHING) {
        prompt_hash(route->reader, &route->prompt, chain);
    }
}

// Names blocks of ids.  An engine that tells what it holds has one model, and does not say its name; of
// adapters it does.
static void hash_ids(struct route *route, const struct fleet_view *view,
                     const struct block_sizes *sizes, struct route_request *out)
{
    const struct prompt *prompt = &route->prompt;
    struct prefix_space space = {
        .model = prompt->model, .adapter = prompt->adapter, .salt = prompt->salt};

    if (knowledge_ledger(route->knowledge) != NULL) {
        const struct fleet_view_model *model = fleet_view_model(view, prompt->model);
        space.model = (struct slice){0};
        space.adapter = model != NULL && model->is_adapter ? prompt->model : prompt->adapter;
        out->other_count = sizes->count - 1;
    }
    uint64_t seed = prefix_seed(&space);
    out->by_token_ids = true;
    out->block_tokens = sizes->tokens[0];
    out->block_share = (float)out->block_tokens;
    out->prompt_tokens = at_most_u32(prompt->token_count);
    prefix_chain_begin(&route->chain, seed, out->block_tokens * 4, route->keys, key_count_max);
    add_prompt(route, out, &route->chain);
    for (uint32_t i = 0; i < out->other_count; i++) {
        struct prefix_chain chain;
        uint64_t *keys = route->keys + (size_t)(i + 1) * key_count_max;
        prefix_chain_begin(&chain, seed, sizes->tokens[i + 1] * 4, keys, key_count_max);
        add_prompt(route, out, &chain);
        out->others[i] = (struct route_chain){
            .keys = keys, .key_count = chain.key_count, .block_tokens = sizes->tokens[i + 1]};
    }
}

static void hash_text(struct route *route, const struct traffic *traffic, struct route_request *out)
{
    const struct prompt *prompt = &route->prompt;
    struct prefix_space space = {
        .model = prompt->model, .adapter = prompt->adapter, .salt = prompt->salt};

    out->prompt_tokens = traffic_tokens_of(traffic, prompt->text_size);
    out->block_share = (float)traffic_tokens_of(traffic, (uint64_t)route->block_size * 1024) / 1024;
    out->block_tokens = out->block_share > 1 ? (uint32_t)out->block_share : 1;
    prefix_chain_begin(&route->chain, prefix_text_seed(&space), route->block_size, route->keys,
                       key_count_max);
    add_prompt(route, out, &route->chain);
}

// Names the blocks of the prompt.
static void hash_prompt(struct route *route, const struct fleet_view *view,
                        const struct fleet_group *group, uint64_t wall_s, struct route_request *out)
{
    if (route->prompt.form == PROMPT_TOKENS) {
        hash_ids(route, view, sizes_of(route, view, group, wall_s), out);
    } else {
        hash_text(route, knowledge_traffic(route->knowledge, group->pool), out);
    }
    out->chain = &route->chain;
    out->keys = route->keys;
    out->key_count = route->chain.key_count;
}

void route_read_model(struct route *route, const struct route_input *input,
                      struct route_request *out)
{
    struct prompt *prompt = &route->prompt;

    if (input->reading != NULL) {
        route->reader = input->reading->reader;
        *prompt = input->reading->prompt;
    } else {
        route->reader = route->own_reader;
        prompt_read(route->reader, input->api, input->body, prompt);
    }
    *out = (struct route_request){
        .model = prompt->model,
        .session_key = session_key(input->session.size > 0 ? input->session : prompt->session),
        .prompt = prompt,
        .block_tokens = 1,
    };
}

static bool is_named(const struct route *route, const struct fleet_group *group)
{
    return route->names_all || route->policies[pool_of(route, group)]->reads_prompt;
}

bool route_wants_ids(const struct route *route, const struct fleet_view *view,
                     const struct route_request *request)
{
    const struct fleet_group *group = group_of(view, request);
    return group != NULL && request->prompt->form == PROMPT_TEXT &&
           (is_named(route, group) || dialect_set_forwards_ids(route->dialects, request->model));
}

void route_read(struct route *route, const struct fleet_view *view, const struct route_input *input,
                struct route_request *out)
{
    struct prompt *prompt = &route->prompt;

    route->is_timed = input->is_timed && route->clock_ns != NULL;
    lap(route);
    route_read_model(route, input, out);
    out->parse_ns = lap(route);
    if (route->dialects != NULL && route_wants_ids(route, view, out)) {
        read_ids(route, input, out);
    }
    const struct fleet_group *group = group_of(view, out);
    if (group == NULL || !is_named(route, group)) {
        return;
    }
    if (prompt->form == PROMPT_NOTHING) {
        // As far as one can tell from outside: about as long as its body.
        prompt->text_size = input->body.size;
    }
    hash_prompt(route, view, group, input->wall_s, out);
    out->name_ns = lap(route);
}

void route_try_gone(struct route_tried *tried, const struct backend *backend)
{
    ASSERT(tried->count > 0 && tried->ids[tried->count - 1] == backend->id);
    tried->ids[tried->count - 1] = backend->server;
    tried->gone |= (uint32_t)1 << (tried->count - 1);
}

bool route_was_tried(const struct route_tried *tried, const struct backend *backend)
{
    for (uint32_t i = 0; i < tried->count; i++) {
        bool is_gone = (tried->gone >> i & 1) != 0;
        if (tried->ids[i] == (is_gone ? backend->server : backend->id)) {
            return true;
        }
    }
    return false;
}

bool route_has_more(const struct fleet_view *view, const struct route_request *request,
                    const struct route_tried *tried, enum backend_tier worst, uint64_t now_ms)
{
    const struct fleet_group *group = group_of(view, request);
    for (uint32_t i = 0; group != NULL && i < group->count; i++) {
        const struct fleet_member *member = &view->members[view->lists[group->first + i]];
        if (!member->draining && !route_was_tried(tried, member->backend) &&
            backend_tier(member->backend, now_ms) <= worst) {
            return true;
        }
    }
    return false;
}

// One decision under way.
struct question {
    const struct fleet_group *group;
    const struct policy *policy;
    void *state;
    struct survey_task task;
    struct policy_traffic traffic;
    float reuse; // policy.h
};

// Twice is enough: it is younger than half of what the cache holds.
static const float reuse_that_lasts = 2;

static uint32_t pick(struct route *route, const struct question *question)
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
        .history_tokens = at_most_u32(history),
        .turns = prompt == NULL ? 0 : prompt->turns,
        .output_max = prompt == NULL ? 0 : at_most_u32(prompt->output_max),
        .reuse = question->reuse,
        .knobs = &route->knobs,
        .traffic = &question->traffic,
        .costs = route->survey.costs,
    };
    // A policy that has no costs leaves them alone, and those of the last request are not its own.
    for (uint32_t i = 0; question->task.reads_prompt && i < route->survey.count; i++) {
        route->survey.costs[i] = NAN;
    }
    return policy_pick(question->policy, question->state, &in, &route->rng);
}

// What the request has to wait for there, and how long its own prompt takes.
static void predict(const struct policy_target *target, uint32_t prompt_tokens, float *wait_ms,
                    float *prefill_ms)
{
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
}

static void describe(const struct route *route, const struct question *question, uint32_t chosen,
                     struct decision *out)
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

static bool begin(struct route *route, const struct fleet_view *view,
                  const struct route_request *request, const struct route_tried *tried,
                  uint64_t now_us, struct question *out)
{
    const struct fleet_group *group = group_of(view, request);
    if (group == NULL) {
        return false;
    }
    uint32_t pool = pool_of(route, group);
    const struct policy *policy = route->policies[pool];
    *out = (struct question){
        .group = group,
        .policy = policy,
        .state = route->states[pool],
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

static void collect(struct route *route, struct question *question)
{
    const struct prompt *prompt = question->task.request->prompt;

    survey_collect(&route->survey, &question->task, &route->rng);
    // What one conversation alone asks for is of no use to a second holder.
    bool is_shared = prompt == NULL || prompt->turns == 0;
    question->reuse = question->task.reads_prompt && is_shared
                          ? survey_reuse(&route->survey, question->group->count)
                          : 0;
}

// Lets the policy choose until one can be counted in.
static bool choose_among(struct route *route, const struct question *question,
                         struct decision *decision, struct route_choice *out)
{
    struct survey *survey = &route->survey;

    while (survey->count > 0) {
        uint32_t chosen = pick(route, question);
        struct backend *backend = survey->backends[chosen];
        if (backend_begin(backend, question->task.now_us / 1000, survey->tier == BACKEND_DOWN,
                          &out->on_trial)) {
            out->backend = backend;
            describe(route, question, chosen, decision);
            return true;
        }
        survey_drop(survey, chosen);
    }
    return false;
}

static void note_traffic(struct route *route, const struct question *question,
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
    struct question question;

    ASSERT(out->decision != NULL);
    if (!begin(route, view, request, tried, now_us, &question)) {
        return ROUTE_NO_SUCH_MODEL;
    }
    // A second look: all that were ready may have been put on trial by other workers meanwhile, and
    // then the next tier counts.
    for (int look = 0; look < 2; look++) {
        collect(route, &question);
        out->match_ns = lap(route);
        if (choose_among(route, &question, out->decision, out)) {
            if (question.task.reads_prompt) {
                note_traffic(route, &question, out->decision);
            }
            out->decide_ns = lap(route);
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
    struct question question;

    if (!begin(route, view, request, &tried, now_us, &question)) {
        return ROUTE_NO_SUCH_MODEL;
    }
    question.task.may_sample = false; // people want to see everybody
    collect(route, &question);
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
