// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "route/route_fixture.h"

#include <math.h>

static struct decision decision;

// Which backend a request for `model` gets at `now_ms`: "a", "b", "c"; "?" unknown, "-" none.
static const char *choose(const char *model, uint64_t now_ms)
{
    struct route_request request = {.model = slice_str(model)};
    struct route_choice choice = {.decision = &decision};
    switch (route_choose(route, fleet_view(fleet), &request, &tried, now_ms * 1000, &choice)) {
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

TEST(a_policy_without_costs_shows_none)
{
    struct route_choice choice = {.decision = &decision};
    set_up(&policy_aibrix_prefix);
    struct route_request request = read_chat(long_chat, "");
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK(isnan(decision.chosen.cost));
    backend_end(choice.backend, false);
    tear_down();
}

TEST(a_pool_that_is_newer_than_the_policies_uses_the_first)
{
    struct route_choice choice = {.decision = &decision};
    static const char *const model = "p";
    set_up(&policy_prefix_cost);
    struct backend *other = fleet_add(fleet, &(struct fleet_spec){.url = "http://d",
                                                                  .host = "h",
                                                                  .weight = 1,
                                                                  .pool = 1,
                                                                  .models = &model,
                                                                  .model_count = 1});
    fleet_set_pool_models(fleet, 1, &model, 1);
    CHECK(other != NULL && fleet_publish(fleet));
    struct route_request request = read_chat("{\"model\":\"p\",\"prompt\":\"x\"}", "");
    CHECK(request.chain != NULL);
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK(choice.backend == other);
    CHECK_EQ(decision.pool, 1);
    CHECK(decision.policy == &policy_prefix_cost);
    backend_end(choice.backend, false);
    tear_down();
}

// The index then says that the backend holds the prompt.
static void send_to(const struct backend *backend, const struct route_request *request)
{
    knowledge_owns(knowledge, 0, backend);
    knowledge_store(knowledge, 0, backend,
                    &(struct prefix_update){.residency = PREFIX_CONFIRMED,
                                            .keys = request->keys,
                                            .key_count = request->key_count,
                                            .block_tokens = request->block_tokens});
}

static void expect_home(const struct backend *home, const struct route_request *request)
{
    struct route_choice choice = {.decision = &decision};
    CHECK_EQ(route_choose(route, fleet_view(fleet), request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK(choice.backend == home);
    CHECK_EQ(decision.chosen.matched_blocks, request->key_count);
    CHECK(decision.chosen.confirmed_tokens > 0);
    backend_end(choice.backend, false);
}

TEST(a_prompt_goes_to_the_backend_that_holds_its_prefix)
{
    for (uint32_t i = 0; i < 2; i++) {
        set_up(&policy_prefix_cost);
        struct route_request request = read_chat(long_chat, "");
        send_to(backends[i], &request);
        for (int again = 0; again < 8; again++) {
            expect_home(backends[i], &request);
        }
        tear_down();
    }
}

TEST(a_backend_in_a_used_slot_inherits_no_blocks)
{
    set_up(&policy_prefix_cost);
    struct route_request request = read_chat(long_chat, "");
    send_to(backends[1], &request);
    static const char *const model = "m";
    uint32_t slot = backends[1]->slot;
    fleet_remove(fleet, backends[1]);
    CHECK(fleet_publish(fleet));
    fleet_reclaim(fleet);
    backends[1] = fleet_add(
        fleet,
        &(struct fleet_spec){
            .url = "http://d", .host = "h", .weight = 1, .models = &model, .model_count = 1});
    CHECK_EQ(backends[1]->slot, slot);
    CHECK(fleet_publish(fleet));
    request = read_chat(long_chat, "");
    struct route_choice choice = {.decision = &decision};
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice),
                 ROUTE_CHOSEN);
        CHECK_EQ(decision.chosen.matched_blocks, 0);
        backend_end(choice.backend, false);
    }
    tear_down();
}

TEST(an_explanation_shows_every_candidate_and_counts_no_request_in)
{
    set_up(&policy_prefix_cost);
    struct route_request request = read_chat(long_chat, "");
    send_to(backends[1], &request);
    struct route_explanation why;
    CHECK_EQ(route_explain(route, fleet_view(fleet), &request, 0, &why), ROUTE_CHOSEN);
    CHECK_EQ(why.decision.candidate_count, 2);
    CHECK(why.backends[why.chosen] == backends[1]);
    for (uint32_t i = 0; i < 2; i++) {
        bool is_holder = why.backends[i] == backends[1];
        CHECK_EQ(why.targets[i].matched_blocks, is_holder ? request.key_count : 0);
        CHECK(why.parties[i].prefill_ms > 0);
        CHECK_EQ(atomic_load(&why.backends[i]->shared.in_flight), 0);
    }
    struct route_request unknown = {.model = slice_str("x")};
    CHECK_EQ(route_explain(route, fleet_view(fleet), &unknown, 0, &why), ROUTE_NO_SUCH_MODEL);
    tear_down();
}

TEST(rivals_are_the_candidates_not_chosen_with_the_best_first)
{
    struct decision_party rivals[decision_rival_max];
    struct fleet_model model = {.name = "m", .document = "{}"};
    struct route_choice choice = {.decision = &decision};
    set_up(&policy_prefix_cost);
    for (int i = 0; i < 5; i++) { // more than there is room for
        char url[] = "http://dN";
        url[8] = (char)('0' + i);
        struct backend *more = fleet_add(
            fleet, &(struct fleet_spec){.url = url, .host = "d", .port = 80, .weight = 1});
        fleet_set_models(fleet, more, &model, 1);
    }
    CHECK(fleet_publish(fleet));
    struct route_request request = read_chat(long_chat, "");
    send_to(backends[0], &request);
    const struct fleet_view *view = fleet_view(fleet);
    CHECK_EQ(route_choose(route, view, &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK(choice.backend == backends[0]);
    CHECK_EQ(decision.candidate_count, 7);
    uint32_t count = route_rivals(route, view, &request, choice.backend, 0, rivals);
    CHECK_EQ(count, decision_rival_max);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(rivals[i].backend != backends[0]->id);
        CHECK_EQ(rivals[i].expected_tokens, 0);
        CHECK(rivals[i].cost >= decision.chosen.cost && rivals[i].prefill_ms > 0);
        CHECK(i == 0 || rivals[i].cost >= rivals[i - 1].cost);
    }
    backend_end(choice.backend, false);
    tear_down();
}

static uint64_t fake_ns;

static uint64_t read_fake(void)
{
    return fake_ns += 1000;
}

TEST(routing_measures_its_stages_by_the_clock_that_it_was_given)
{
    struct route_choice choice = {.decision = &decision};
    route_clock = read_fake;
    set_up(&policy_prefix_cost);
    route_clock = NULL;
    struct route_request request;
    struct route_input input = {.api = PROMPT_CHAT, .body = slice_str(long_chat), .is_timed = true};
    route_read(route, fleet_view(fleet), &input, &request);
    CHECK_EQ(request.parse_ns, 1000);
    CHECK_EQ(request.hash_ns, 1000);
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK_EQ(choice.match_ns, 1000);
    CHECK_EQ(choice.decide_ns, 1000);
    backend_end(choice.backend, false);
    tear_down();
}

TEST(a_prompt_that_is_not_hashed_skips_that_stage)
{
    route_clock = read_fake;
    set_up(&policy_round_robin);
    route_clock = NULL;
    struct route_request request;
    struct route_input input = {.api = PROMPT_CHAT, .body = slice_str(long_chat), .is_timed = true};
    route_read(route, fleet_view(fleet), &input, &request);
    CHECK_EQ(request.parse_ns, 1000);
    CHECK_EQ(request.hash_ns, 0);
    tear_down();
}

TEST(only_backends_that_serve_the_model_are_chosen_each_once)
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

TEST(no_rank_of_a_server_that_is_gone_is_tried)
{
    set_up(&policy_round_robin);
    struct backend *first = NULL;
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const model = "r";
        struct backend *rank =
            fleet_add(fleet, &(struct fleet_spec){.url = "http://r",
                                                  .host = "h",
                                                  .weight = 1,
                                                  .server = first != NULL && i < 2 ? first->id : 0,
                                                  .rank = i < 2 ? i : 0,
                                                  .rank_count = i < 2 ? 2 : 1,
                                                  .models = &model,
                                                  .model_count = 1});
        first = i == 0 ? rank : first;
    }
    CHECK(fleet_publish(fleet));
    struct backend *ranks[] = {fleet_at(fleet, 3), fleet_at(fleet, 4), fleet_at(fleet, 5)};
    tried = (struct route_tried){.ids = {ranks[1]->id}, .count = 1};
    CHECK(route_was_tried(&tried, ranks[1]));
    CHECK(!route_was_tried(&tried, ranks[0])); // one that was busy says nothing of the other
    route_try_gone(&tried, ranks[1]);
    CHECK(route_was_tried(&tried, ranks[0]));
    CHECK(route_was_tried(&tried, ranks[1]));
    CHECK(!route_was_tried(&tried, ranks[2]));
    CHECK_STR(choose("r", 0), "r");
    CHECK_STR(choose("r", 0), "-");
    tear_down();
}

TEST(a_request_without_a_model_may_go_to_any_backend)
{
    set_up(&policy_round_robin);
    CHECK_STR(choose("", 0), "a");
    CHECK_STR(choose("", 0), "c");
    CHECK_STR(choose("", 0), "b");
    CHECK_STR(choose("", 0), "-");
    tear_down();
}

TEST(a_ready_backend_comes_before_a_paused_one_and_that_before_one_that_is_down)
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

TEST(a_draining_backend_gets_no_new_request)
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
    struct route_choice trial = {.decision = &decision};
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 1000000, &trial),
             ROUTE_CHOSEN);
    CHECK(trial.backend == backends[0] && trial.on_trial);
    for (int i = 0; i < 5; i++) {
        tried.count = 0;
        CHECK_STR(choose("m", 1000), "b");
    }
    backend_end(trial.backend, trial.on_trial);
    tear_down();
}

TEST(a_session_stays_at_its_backend)
{
    set_up(&policy_consistent_hash);
    struct route_request request = {.session_key = 77};
    struct route_choice first = {.decision = &decision};
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &first), ROUTE_CHOSEN);
    backend_end(first.backend, false);
    for (int i = 0; i < 20; i++) {
        struct route_choice again = {.decision = &decision};
        CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &again), ROUTE_CHOSEN);
        CHECK(again.backend == first.backend);
        backend_end(again.backend, false);
    }
    tear_down();
}

// Takes the first, and notes what it was told.
static float seen_reuse;

static uint32_t note_reuse(void *state, const struct policy_input *in, struct rng *random)
{
    (void)state;
    (void)random;
    seen_reuse = in->reuse;
    return 0;
}

static const struct policy noter = {.name = "noter", .reads_prompt = true, .pick = note_reuse};

static float reuse_of(const struct route_request *request)
{
    struct route_choice choice = {.decision = &decision};
    seen_reuse = -1;
    ASSERT(route_choose(route, fleet_view(fleet), request, &tried, 0, &choice) == ROUTE_CHOSEN);
    backend_end(choice.backend, false);
    return seen_reuse;
}

static float scarcity(void)
{
    struct traffic_view view;
    traffic_read(knowledge_traffic(knowledge, 0), 0, &view);
    return view.scarcity;
}

TEST(a_prompt_that_one_backend_holds_has_reuse_for_others)
{
    set_up(&noter);
    struct route_request request = read_chat(long_chat, "");
    for (int i = 0; i < 40; i++) {
        CHECK(reuse_of(&request) == 0);
    }
    CHECK(scarcity() < 0); // nothing was found that could last
    send_to(backends[1], &request);
    for (int i = 0; i < 600; i++) {
        CHECK(reuse_of(&request) > 2);
    }
    CHECK(scarcity() == 0);
    tear_down();
}

TEST(a_copy_that_would_be_used_less_than_twice_does_not_last)
{
    set_up(&noter);
    struct route_request request = read_chat(long_chat, "");
    send_to(backends[1], &request);
    // The smallest cache that is believed has 4,096 tokens, and 1,600 came since: twice that if
    // both shared the uses.
    for (int i = 0; i < 2; i++) {
        struct load_report small = {-1, -1, -1, 40, -1};
        load_report(&backends[i]->load, &small, 0);
    }
    uint64_t others[100];
    for (uint64_t i = 0; i < 100; i++) {
        others[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    knowledge_store(knowledge, 0, backends[1],
                    &(struct prefix_update){.residency = PREFIX_CONFIRMED,
                                            .keys = others,
                                            .key_count = 100,
                                            .block_tokens = 16,
                                            .now_s = 0});
    for (int i = 0; i < 600; i++) {
        float reuse = reuse_of(&request);
        CHECK(reuse > 1 && reuse < 2);
    }
    CHECK(scarcity() == 1);
    tear_down();
}

// No other conversation has its history as a prefix, so a second copy of it would not be used.
TEST(a_conversation_has_no_reuse_and_does_not_change_scarcity)
{
    static const char conversation[] =
        "{\"model\":\"m\",\"messages\":["
        "{\"role\":\"user\",\"content\":\"Will there be fog in Bergen tomorrow morning, or rain "
        "before noon, or snow on the hills behind the town?\"},"
        "{\"role\":\"assistant\",\"content\":\"The forecast is seven hours old. It says fog until "
        "nine, no rain, and no snow below six hundred metres.\"},"
        "{\"role\":\"user\",\"content\":\"And the day after?\"}]}";
    set_up(&noter);
    struct route_request request = read_chat(conversation, "");
    CHECK(request.key_count > 2);
    send_to(backends[1], &request);
    for (int i = 0; i < 40; i++) {
        CHECK(reuse_of(&request) == 0);
    }
    CHECK(scarcity() < 0);
    tear_down();
}

TEST(a_prompt_goes_to_the_backend_whose_events_report_its_prefix)
{
    route_fixture_open_with_events();
    struct route_request request = read_ids("m");
    struct route_choice choice = {.decision = &decision};
    uint32_t places[3];
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store(&backends[i]->shared.events, BACKEND_EVENTS_LIVE);
        knowledge_owns(knowledge, 0, backends[i]);
    }
    CHECK_EQ(prefix_ledger_enter(knowledge_ledger(knowledge),
                                 &(struct prefix_entry){.keys = request.keys,
                                                        .key_count = request.key_count,
                                                        .backend = backends[1]->slot},
                                 places),
             3);
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 1000000, &choice),
             ROUTE_CHOSEN);
    CHECK(choice.backend == backends[1]);
    CHECK(decision.chosen.by_events);
    CHECK_EQ(decision.chosen.matched_tokens, 12);
    CHECK_EQ(decision.chosen.expected_tokens, 12);
    backend_end(choice.backend, choice.on_trial);
    tear_down();
}
