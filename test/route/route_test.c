// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "base/reclaim.h"
#include "policy/policy.h"
#include "test.h"

static struct reclaim reclaim;
static struct fleet *fleet;
static struct route *route;
static struct backend *backends[3];
static struct route_tried tried;
static const struct backend_rules rules = {
    .eject_failures = 1, .eject_time_ms = 1000, .eject_time_max_ms = 1000};

// Three backends in one pool, that serve m, m and n.
static void set_up(const struct policy *policy)
{
    static const char *const urls[] = {"http://a", "http://b", "http://c"};
    static const char *const models[] = {"m", "m", "n"};
    reclaim_init(&reclaim, 0);
    fleet = fleet_create(&(struct fleet_limits){.backend_count_max = 8, .pool_count = 1}, &reclaim);
    for (uint32_t i = 0; i < 3; i++) {
        backends[i] = fleet_add(
            fleet,
            &(struct fleet_spec){
                .url = urls[i], .host = "h", .weight = 1, .models = &models[i], .model_count = 1});
    }
    ASSERT(fleet_publish(fleet));
    route = route_create(&(struct route_options){.policies = &policy,
                                                 .pool_count = 1,
                                                 .target_count_max = 8,
                                                 .load_bound_percent = 125,
                                                 .seed = 1});
    ASSERT(route != NULL);
    tried = (struct route_tried){0};
}

static void tear_down(void)
{
    route_destroy(&route);
    fleet_destroy(&fleet);
}

// Which backend a request for `model` gets at `now_ms`: "a", "b", "c"; "?" unknown, "-" none.
static const char *choose(const char *model, uint64_t now_ms)
{
    struct route_request request = {.model = slice_str(model)};
    struct route_choice choice;
    switch (route_choose(route, fleet_view(fleet), &request, &tried, now_ms, &choice)) {
    case ROUTE_NO_SUCH_MODEL:
        return "?";
    case ROUTE_NO_BACKEND:
        return "-";
    default:
        backend_end(choice.backend, choice.on_trial);
        tried.ids[tried.count++] = choice.backend->id;
        return choice.backend->url + 7;
    }
}

TEST(reads_the_model_and_the_session_and_survives_anything_else)
{
    struct route_scratch scratch;
    struct route_request out;
    struct slice none = {0};
    route_read(slice_str("{\"model\":\"a\\u0062\",\"user\":\"u\"}"), none, &scratch, &out);
    CHECK(slice_is(out.model, "ab"));
    uint64_t by_user = out.session_key;
    CHECK(by_user != 0);
    route_read(slice_str("{\"model\":\"ab\",\"user\":\"u\"}"), slice_str("s"), &scratch, &out);
    CHECK(out.session_key != 0 && out.session_key != by_user);
    static const char *const odd[] = {"",
                                      "{",
                                      "[1]",
                                      "{\"model\":1}",
                                      "{\"model\":null,\"user\":[]}",
                                      "\xff\xfe",
                                      "{\"messages\":[{\"model\":\"x\"}]}"};
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        route_read(slice_str(odd[i]), none, &scratch, &out);
        CHECK_EQ(out.model.size, 0);
        CHECK_EQ(out.session_key, 0);
    }
}

TEST(only_those_who_serve_the_model_are_chosen_each_once)
{
    set_up(&policy_round_robin);
    CHECK_STR(choose("n", 0), "c");
    CHECK_STR(choose("n", 0), "-");
    tried.count = 0;
    CHECK_STR(choose("m", 0), "b");
    CHECK(route_has_more(fleet_view(fleet), &(struct route_request){.model = slice_str("m")},
                         &tried, BACKEND_DOWN, 0));
    CHECK_STR(choose("m", 0), "a");
    CHECK_STR(choose("m", 0), "-");
    CHECK(!route_has_more(fleet_view(fleet), &(struct route_request){.model = slice_str("m")},
                          &tried, BACKEND_DOWN, 0));
    CHECK_STR(choose("x", 0), "?");
    CHECK(!route_has_more(fleet_view(fleet), &(struct route_request){.model = slice_str("x")},
                          &tried, BACKEND_DOWN, 0));
    tear_down();
}

TEST(a_request_without_a_model_may_go_to_anyone)
{
    set_up(&policy_round_robin);
    CHECK_STR(choose("", 0), "a");
    CHECK_STR(choose("", 0), "c");
    CHECK_STR(choose("", 0), "b");
    CHECK_STR(choose("", 0), "-");
    tear_down();
}

TEST(prefers_ready_to_busy_to_down_and_tries_the_down_rather_than_none)
{
    set_up(&policy_round_robin);
    backend_judge(backends[0], BACKEND_FAULT, false, 0, &rules); // ejected until 1000
    backend_set_busy(backends[1], 500);
    CHECK_STR(choose("", 10), "c");
    CHECK_STR(choose("", 10), "b");
    CHECK_STR(choose("", 10), "a");
    CHECK_STR(choose("", 10), "-");
    tear_down();
}

TEST(a_draining_backend_gets_nothing_new)
{
    set_up(&policy_round_robin);
    fleet_set_draining(fleet, backends[2], true);
    CHECK(fleet_publish(fleet));
    CHECK_STR(choose("n", 0), "-");
    tear_down();
}

TEST(while_one_request_is_on_trial_others_go_elsewhere)
{
    set_up(&policy_round_robin);
    backend_judge(backends[0], BACKEND_FAULT, false, 0, &rules);
    struct route_request request = {.model = slice_str("m")};
    struct route_choice trial;
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 1000, &trial), ROUTE_CHOSEN);
    CHECK(trial.backend == backends[0] && trial.on_trial);
    for (int i = 0; i < 5; i++) {
        tried.count = 0;
        CHECK_STR(choose("m", 1000), "b");
    }
    backend_end(trial.backend, trial.on_trial);
    tear_down();
}

TEST(a_session_stays_where_it_is)
{
    set_up(&policy_consistent_hash);
    struct route_request request = {.session_key = 77};
    struct route_choice first;
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &first), ROUTE_CHOSEN);
    backend_end(first.backend, false);
    for (int i = 0; i < 20; i++) {
        struct route_choice again;
        CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &again), ROUTE_CHOSEN);
        CHECK(again.backend == first.backend);
        backend_end(again.backend, false);
    }
    tear_down();
}
