// SPDX-License-Identifier: Apache-2.0
//
// The contract that every policy of the list keeps.

#include "policy/policy.h"

#include "policy/fleet_fixture.h"
#include "policy/prompt_fixture.h"
#include "test.h"

#include <math.h>
#include <time.h>

TEST(finds_policies_by_name)
{
    CHECK(policy_find("round_robin") == &policy_round_robin);
    CHECK(policy_find("consistent_hash") == &policy_consistent_hash);
    CHECK(policy_find("no_such_policy") == NULL);
    CHECK(policy_find("") == NULL);
}

TEST(the_list_holds_each_name_once_with_a_summary)
{
    uint32_t count = 0;
    while (policy_at(count) != NULL) {
        const struct policy *policy = policy_at(count);
        CHECK(policy_find(policy->name) == policy);
        CHECK(policy->summary[0] != '\0');
        count++;
    }
    CHECK(count > 1);
    CHECK(policy_at(count + 1) == NULL);
}

TEST(the_default_knobs_are_those_of_the_original_routers)
{
    CHECK_EQ(policy_knobs_default.load_bound_percent, 125);
    CHECK(policy_knobs_default.match_threshold == 0.3F);
    CHECK_EQ(policy_knobs_default.balance_absolute, 64);
    CHECK(policy_knobs_default.balance_relative == 1.5F);
    CHECK(policy_knobs_default.prefill_scale == 1);
    CHECK(policy_knobs_default.temperature == 0);
}

// The whole input of a policy.
struct scene {
    struct policy_target targets[fleet_count_max];
    double costs[fleet_count_max];
    struct prompt prompt;
    struct policy_knobs knobs;
    struct policy_traffic traffic;
    struct policy_input in;
};

// An idle fleet of equals and no prompt.
static void scene_init(struct scene *scene, uint32_t count)
{
    fleet_fill(scene->targets, count);
    for (uint32_t i = 0; i < count; i++) {
        scene->targets[i].prefill_ms = 0.06F;
        scene->targets[i].step_ms = 20;
    }
    scene->prompt.count = 0;
    scene->knobs = policy_knobs_default;
    scene->traffic = (struct policy_traffic){0};
    scene->in = (struct policy_input){
        .targets = scene->targets,
        .target_count = count,
        .pool_size = count,
        .block_tokens = 16,
        .knobs = &scene->knobs,
        .traffic = &scene->traffic,
        .costs = scene->costs,
    };
}

// A prompt that no target has seen.
static void scene_add_cold_prompt(struct scene *scene, uint32_t blocks, struct rng *rng)
{
    scene->prompt.count = 0;
    prompt_add(&scene->prompt, rng_next(rng), blocks);
    prompt_put(&scene->prompt, 16, &scene->in);
}

static uint32_t one_of(const uint32_t *values, uint32_t count, struct rng *rng)
{
    return values[rng_below(rng, count)];
}

#define ONE_OF(rng, ...)                                                                           \
    one_of((const uint32_t[]){__VA_ARGS__}, ARRAY_COUNT(((const uint32_t[]){__VA_ARGS__})), rng)

// A prompt of two texts that others share, so that prefixes repeat; or no prompt.
static void randomise_prompt(struct scene *scene, struct rng *rng)
{
    struct policy_input *in = &scene->in;
    scene->prompt.count = 0;
    if (rng_below(rng, 4) > 0) {
        prompt_add(&scene->prompt, rng_below(rng, 5), ONE_OF(rng, 0, 1, 7, 40));
        prompt_add(&scene->prompt, rng_below(rng, 50), ONE_OF(rng, 0, 3, 12, 300));
    }
    prompt_put(&scene->prompt, ONE_OF(rng, 1, 16, 64, 5000), in);
    in->prompt_tokens += rng_below(rng, in->block_tokens);
    in->history_tokens = rng_below(rng, in->prompt_tokens + 1);
    in->turns = rng_below(rng, 4);
    in->output_max = ONE_OF(rng, 0, 1, 500);
}

static void randomise_target(struct scene *scene, uint32_t index, struct rng *rng)
{
    static const float reports[] = {-1, 0, 0.5F, 1};
    struct policy_target *target = &scene->targets[index];
    const struct policy_input *in = &scene->in;

    target->weight = ONE_OF(rng, 1, 2, 7, 100, 65536, UINT32_MAX);
    target->running_requests = ONE_OF(rng, 0, 1, 2, 40, 5000, UINT32_MAX);
    target->matched_blocks = rng_below(rng, 3) == 0 ? rng_below(rng, in->key_count + 1) : 0;
    uint64_t matched = (uint64_t)target->matched_blocks * in->block_tokens;
    target->matched_tokens = (uint32_t)(matched < in->prompt_tokens ? matched : in->prompt_tokens);
    target->has_session = in->session_key != 0 && rng_below(rng, 8) == 0;
    target->decoding = ONE_OF(rng, 0, 1, 30, UINT32_MAX);
    target->queued_tokens = ONE_OF(rng, 0, 500, 1000000, UINT32_MAX);
    target->context_tokens = ONE_OF(rng, 0, 9000, UINT32_MAX);
    target->foreign_requests = (float)ONE_OF(rng, 0, 3, 100000);
    target->waiting = reports[rng_below(rng, 4)] * (float)ONE_OF(rng, 1, 4, 100000);
    target->kv_usage = reports[rng_below(rng, 4)];
    target->prefill_ms = (float)ONE_OF(rng, 1, 60, 5000) / 1000;
    target->step_ms = (float)ONE_OF(rng, 1, 20, 400);
    target->cache_tokens = ONE_OF(rng, 0, 1000, 2000000);
}

// Up to `count_max` targets with any values that the interface allows.  Slots are close together,
// have holes, or lie anywhere.
static void scene_randomise(struct scene *scene, uint32_t count_max, struct rng *rng)
{
    uint32_t stride = ONE_OF(rng, 1, 5, 0x9e3779b1);
    uint32_t count = 1 + rng_below(rng, count_max);

    scene_init(scene, count);
    scene->in.pool_size = count + ONE_OF(rng, 0, 1, 5000);
    scene->in.session_key = rng_below(rng, 3) * rng_next(rng);
    scene->in.now_ms = rng_next(rng) >> ONE_OF(rng, 24, 30, 63);
    randomise_prompt(scene, rng);
    for (uint32_t i = 0; i < count; i++) {
        scene->targets[i] = fleet_target(i * stride, 1);
        randomise_target(scene, i, rng);
    }
    fleet_shuffle(scene->targets, count, rng);
    if (rng_below(rng, 2) == 0) {
        scene->knobs.load_bound_percent = 100 + rng_below(rng, 200);
        scene->knobs.match_threshold = (float)rng_below(rng, 11) / 10;
        scene->knobs.balance_absolute = ONE_OF(rng, 0, 1, UINT32_MAX);
        scene->knobs.balance_relative = (float)ONE_OF(rng, 1, 3);
        scene->knobs.prefill_scale = (float)ONE_OF(rng, 1, 32);
        scene->knobs.temperature = (float)rng_below(rng, 3) / 2;
    }
    if (rng_below(rng, 2) == 0) {
        scene->traffic = (struct policy_traffic){
            .arrivals_per_ms = (float)ONE_OF(rng, 0, 1, 100) / 10,
            .decode_ms = (float)ONE_OF(rng, 0, 1, 20000),
            .output_tokens = (float)ONE_OF(rng, 0, 1, 300),
            .prefill_ms = (float)ONE_OF(rng, 0, 1, 900),
        };
    }
}

static struct scene *scene_create(void)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    ASSERT(scene != NULL);
    return scene;
}

// Either no cost is written, or one for each target.
static bool are_costs_whole(const struct policy_input *in)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < in->target_count; i++) {
        left += !isnan(in->costs[i]);
    }
    return left == 0 || left == in->target_count;
}

static void check_any_fleet(const struct policy *policy)
{
    struct scene *scene = scene_create();
    struct rng rng = {.state = 11};
    void *state = prompt_state(policy);

    for (int round = 0; round < 4000; round++) {
        scene_randomise(scene, round % 100 == 0 ? fleet_count_max : 12, &rng);
        for (uint32_t i = 0; i < scene->in.target_count; i++) {
            scene->costs[i] = NAN;
        }
        CHECK(policy->pick(state, &scene->in, &rng) < scene->in.target_count);
        CHECK(are_costs_whole(&scene->in));
    }
    free(state);
    free(scene);
}

TEST(every_policy_picks_a_target_of_any_fleet)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_any_fleet(policy_at(p));
    }
}

static void check_replay(const struct policy *policy)
{
    struct scene *scene = scene_create();
    struct rng rng = {.state = 12};
    struct rng rngs[2] = {{.state = 9}, {.state = 9}};
    void *states[2] = {prompt_state(policy), prompt_state(policy)};

    for (int round = 0; round < 500; round++) {
        scene_randomise(scene, 12, &rng);
        uint32_t first = policy_pick(policy, states[0], &scene->in, &rngs[0]);
        CHECK_EQ(policy_pick(policy, states[1], &scene->in, &rngs[1]), first);
    }
    free(states[0]);
    free(states[1]);
    free(scene);
}

TEST(the_same_seed_repeats_the_picks_of_every_policy)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_replay(policy_at(p));
    }
}

// Prompts repeat while the targets that got them leave and return.
static void check_shrink_and_grow(const struct policy *policy)
{
    struct scene *scene = scene_create();
    struct rng rng = {.state = 5};
    void *state = prompt_state(policy);

    scene_init(scene, 64);
    for (uint32_t turn = 0; turn < 512; turn++) {
        randomise_prompt(scene, &rng);
        scene->in.target_count = 1 + (turn < 64 ? 63 - turn : turn % 64);
        scene->in.session_key = rng_below(&rng, 30);
        for (uint32_t i = 0; i < scene->in.target_count; i++) {
            randomise_target(scene, i, &rng);
        }
        CHECK(policy->pick(state, &scene->in, &rng) < scene->in.target_count);
    }
    free(state);
    free(scene);
}

TEST(every_policy_survives_a_list_that_shrinks_to_one_and_grows_again)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_shrink_and_grow(policy_at(p));
    }
}

// A prompt of which only the size is known, or not even that.
static void forget_prompt(struct scene *scene, struct rng *rng)
{
    scene->in.keys = NULL;
    scene->in.key_count = 0;
    scene->in.prompt_tokens = ONE_OF(rng, 0, 1, 70000);
    scene->in.history_tokens = 0;
    for (uint32_t i = 0; i < scene->in.target_count; i++) {
        scene->targets[i].matched_blocks = 0;
        scene->targets[i].matched_tokens = 0;
    }
}

static void check_no_prompt(const struct policy *policy)
{
    struct scene *scene = scene_create();
    struct rng rng = {.state = 5};
    void *state = prompt_state(policy);

    for (uint32_t turn = 0; turn < 200; turn++) {
        scene_randomise(scene, 12, &rng);
        forget_prompt(scene, &rng);
        CHECK(policy->pick(state, &scene->in, &rng) < scene->in.target_count);
    }
    free(state);
    free(scene);
}

TEST(every_policy_survives_an_unreadable_prompt)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_no_prompt(policy_at(p));
    }
}

// Exceptions among the rebuilt policies of other routers.
static bool is_any_of(const struct policy *policy, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strcmp(policy->name, *names) == 0) {
            return true;
        }
    }
    return false;
}

// These send all unreadable prompts to one target.
static bool herds_without_a_prompt(const struct policy *policy)
{
    static const char *const names[] = {"ranvier", "ranvier_median", NULL};
    return is_any_of(policy, names);
}

// Every worker starts at the head of the list, or where the prompt's hash sends it.
static bool starts_at_a_fixed_place(const struct policy *policy)
{
    static const char *const names[] = {"round_robin", "cache_aware", "ranvier", "ranvier_median",
                                        NULL};
    return is_any_of(policy, names);
}

enum spread { SPREAD_PLAIN, SPREAD_SESSIONS, SPREAD_PROMPTS };

// On an idle fleet of equals, no policy may favour a place in the list: with sessions, with prompts
// or without, each of eight targets gets about its eighth.
static void check_spread(const struct policy *policy, enum spread spread)
{
    enum { target_count = 8, turns = 8000 };
    struct scene *scene = scene_create();
    struct rng rng = {.state = 1};
    void *state = prompt_state(policy);
    uint32_t hits[target_count] = {0};

    scene_init(scene, target_count);
    for (int turn = 0; turn < turns; turn++) {
        scene->in.session_key = spread == SPREAD_SESSIONS ? rng_next(&rng) : 0;
        if (spread == SPREAD_PROMPTS) {
            scene_add_cold_prompt(scene, 12, &rng);
        }
        hits[policy_pick(policy, state, &scene->in, &rng)]++;
    }
    free(state);
    free(scene);
    for (uint32_t i = 0; i < target_count; i++) {
        CHECK(fleet_is_near(hits[i], (double)turns / target_count, 12));
    }
}

TEST(no_policy_herds_when_all_targets_are_equal)
{
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        check_spread(policy_at(p), SPREAD_PROMPTS);
        if (!herds_without_a_prompt(policy_at(p))) {
            check_spread(policy_at(p), SPREAD_PLAIN);
            check_spread(policy_at(p), SPREAD_SESSIONS);
        }
    }
}

// Workers start from zeroed state with generators of their own.  If their first picks agreed, a
// burst spread over the workers would land on one target.
static void check_starts(const struct policy *policy, const struct policy_input *in)
{
    enum { workers = 64 };
    bool seen[8] = {false};
    uint32_t seen_count = 0;
    for (uint32_t worker = 0; worker < workers; worker++) {
        struct rng rng = {.state = worker};
        void *state = prompt_state(policy);
        uint32_t chosen = policy_pick(policy, state, in, &rng);
        free(state);
        seen_count += !seen[chosen];
        seen[chosen] = true;
    }
    CHECK(seen_count >= 6);
}

TEST(workers_do_not_start_on_the_same_target)
{
    struct scene *scene = scene_create();
    struct rng rng = {.state = 1};
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        if (starts_at_a_fixed_place(policy_at(p))) {
            continue;
        }
        scene_init(scene, 8);
        check_starts(policy_at(p), &scene->in);
        scene_add_cold_prompt(scene, 12, &rng);
        check_starts(policy_at(p), &scene->in);
    }
    free(scene);
}

static double cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

// The least time of several trials, since other programs only add time.
static double pick_ns(const struct policy *policy, struct scene *scene, uint32_t count)
{
    enum { trials = 15, picks = 6 };
    struct rng rng = {.state = 21};
    void *state = prompt_state(policy);
    double least = INFINITY;

    scene_init(scene, count);
    for (uint32_t i = 0; i < count; i++) {
        scene->targets[i].running_requests = rng_below(&rng, 9);
        scene->targets[i].queued_tokens = rng_below(&rng, 9000);
    }
    for (int trial = 0; trial < trials; trial++) {
        scene_add_cold_prompt(scene, 12, &rng);
        double start = cpu_ns();
        for (int i = 0; i < picks; i++) {
            policy_pick(policy, state, &scene->in, &rng);
        }
        double taken = cpu_ns() - start;
        least = taken < least ? taken : least;
    }
    free(state);
    return least;
}

// For 8 times the targets, linear time is 8 times and quadratic 64.  24 leaves room for cache
// misses.
TEST(no_policy_takes_more_than_linear_time)
{
    struct scene *scene = scene_create();
    for (uint32_t p = 0; policy_at(p) != NULL; p++) {
        double few = pick_ns(policy_at(p), scene, 512);
        double many = pick_ns(policy_at(p), scene, fleet_count_max);
        if (many > 24 * few + 2000) {
            test_fail(__FILE__, __LINE__, "%s: 512 targets %.0f ns, 4096 %.0f ns",
                      policy_at(p)->name, few, many);
        }
    }
    free(scene);
}
