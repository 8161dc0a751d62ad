// SPDX-License-Identifier: Apache-2.0

#include "route/route.h"

#include "base/reclaim.h"
#include "dialect/tiny_dialect.h"
#include "knowledge/knowledge.h"
#include "policy/policy.h"
#include "test.h"

#include <math.h>

static struct reclaim reclaim;
static struct fleet *fleet;
static struct route *route;
static struct knowledge *knowledge;
static struct backend *backends[3];
static size_t ledger_memory; // 0: engines tell nothing
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

// Three backends in one pool, that serve m, m and n.
static void set_up(const struct policy *policy)
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

static void tear_down(void)
{
    route_destroy(&route);
    knowledge_destroy(&knowledge);
    fleet_destroy(&fleet);
}

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

static struct route_request read_chat(const char *body, const char *session)
{
    struct route_request out;
    route_read(route, fleet_view(fleet),
               &(struct route_input){
                   .api = PROMPT_CHAT, .body = slice_str(body), .session = slice_str(session)},
               &out);
    return out;
}

TEST(reads_the_model_and_the_session_and_survives_anything_else)
{
    set_up(&policy_round_robin);
    struct route_request out = read_chat("{\"model\":\"a\\u0062\",\"user\":\"u\"}", "");
    CHECK(slice_is(out.model, "ab"));
    uint64_t by_user = out.session_key;
    CHECK(by_user != 0);
    out = read_chat("{\"model\":\"ab\",\"user\":\"u\"}", "s");
    CHECK(out.session_key != 0 && out.session_key != by_user);
    static const char *const odd[] = {"",
                                      "{",
                                      "[1]",
                                      "{\"model\":1}",
                                      "{\"model\":null,\"user\":[]}",
                                      "\xff\xfe",
                                      "{\"messages\":[{\"model\":\"x\"}]}"};
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        out = read_chat(odd[i], "");
        CHECK_EQ(out.model.size, 0);
        CHECK_EQ(out.session_key, 0);
    }
    tear_down();
}

TEST(a_policy_that_does_not_look_at_prompts_costs_no_hashing)
{
    set_up(&policy_round_robin);
    CHECK(read_chat(long_chat, "").chain == NULL);
    CHECK_EQ(read_chat(long_chat, "").key_count, 0);
    tear_down();
}

TEST(a_prompt_has_a_key_for_each_whole_block)
{
    set_up(&policy_prefix_cost);
    struct route_request out = read_chat(long_chat, "");
    CHECK(out.chain != NULL);
    CHECK(out.key_count >= 5);
    CHECK(out.prompt_tokens >= 80);
    CHECK_EQ(out.block_tokens, 16);
    tear_down();
}

TEST(a_policy_that_has_no_costs_shows_none)
{
    struct route_choice choice = {.decision = &decision};
    set_up(&policy_aibrix_prefix);
    struct route_request request = read_chat(long_chat, "");
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK(isnan(decision.chosen.cost));
    backend_end(choice.backend, false);
    tear_down();
}

TEST(a_pool_that_is_newer_than_the_policies_goes_by_the_first)
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

// What was sent to a backend is believed to be there, by everybody.
static void send_to(const struct backend *backend, const struct route_request *request)
{
    knowledge_owns(knowledge, 0, backend);
    knowledge_store(knowledge, 0, backend,
                    &(struct prefix_letter){.residency = PREFIX_CONFIRMED,
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

TEST(a_prompt_goes_where_its_beginning_is)
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

TEST(a_backend_in_a_used_slot_inherits_nothing)
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

TEST(an_explanation_shows_everyone_and_counts_nobody_in)
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

TEST(rivals_are_those_that_were_not_chosen_the_best_first)
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

TEST(routing_tells_what_it_took_by_the_clock_that_it_is_handed)
{
    struct route_choice choice = {.decision = &decision};
    route_clock = read_fake;
    set_up(&policy_prefix_cost);
    route_clock = NULL;
    struct route_request request;
    struct route_input input = {.api = PROMPT_CHAT, .body = slice_str(long_chat), .is_timed = true};
    route_read(route, fleet_view(fleet), &input, &request);
    CHECK_EQ(request.parse_ns, 1000);
    CHECK_EQ(request.name_ns, 1000);
    CHECK_EQ(route_choose(route, fleet_view(fleet), &request, &tried, 0, &choice), ROUTE_CHOSEN);
    CHECK_EQ(choice.match_ns, 1000);
    CHECK_EQ(choice.decide_ns, 1000);
    backend_end(choice.backend, false);
    tear_down();
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

TEST(a_session_stays_where_it_is)
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

TEST(a_prompt_that_somebody_holds_would_be_of_use_to_others)
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
    // The smallest cache that is believed has 4,096 tokens, and 1,600 came since: twice that if both
    // shared the uses.
    for (int i = 0; i < 2; i++) {
        struct load_report small = {-1, -1, -1, 40, -1};
        load_report(&backends[i]->load, &small, 0);
    }
    uint64_t others[100];
    for (uint64_t i = 0; i < 100; i++) {
        others[i] = (i + 1) * 0x9e3779b97f4a7c15;
    }
    knowledge_store(knowledge, 0, backends[1],
                    &(struct prefix_letter){.residency = PREFIX_CONFIRMED,
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

// Its history is of no use to anybody else, so a second copy of it is no investment.
TEST(a_conversation_has_no_reuse_and_says_nothing_about_scarcity)
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

static void set_up_exact(const struct policy *policy, struct dialect_options options)
{
    static const char *const model = "m";
    options.is_trusted = true;
    options.models = &model;
    options.model_count = 1;
    tiny_set_open(&tiny, tiny_dialect(options));
    set_up(policy);
}

static void tear_down_exact(void)
{
    tear_down();
    tiny_set_close(&tiny);
    tiny = (struct tiny_set){0};
}

static struct route_request read_body(enum prompt_api api, const char *body)
{
    struct route_request out;
    route_read(route, fleet_view(fleet), &(struct route_input){.api = api, .body = slice_str(body)},
               &out);
    return out;
}

// Otherwise a client that tokenizes itself would not find what others have brought there.
TEST(ids_of_a_dialect_name_the_same_blocks_as_ids_of_the_client)
{
    uint64_t keys[16];
    set_up_exact(&policy_prefix_cost, (struct dialect_options){0});
    struct route_request out = read_body(PROMPT_COMPLETION, "{\"model\":\"m\",\"prompt\":"
                                                            "\"abcdefghijk\"}");
    CHECK(out.dialect == tiny.set.dialects[0]);
    CHECK_EQ(out.shape, CHAT_COMPLETION_SHAPE);
    CHECK_EQ(out.id_count, 12);
    CHECK_EQ(out.ids[0], TINY_BOS);
    CHECK_EQ(out.prompt_tokens, 12);
    CHECK_EQ(out.block_tokens, 4);
    CHECK_EQ(out.key_count, 3);
    memcpy(keys, out.keys, out.key_count * sizeof(uint64_t));
    out = read_body(PROMPT_COMPLETION,
                    "{\"model\":\"m\",\"prompt\":[258,97,98,99,100,101,102,103,104,105,106,107]}");
    CHECK(out.dialect == NULL);
    CHECK_EQ(out.key_count, 3);
    CHECK(memcmp(keys, out.keys, 3 * sizeof(uint64_t)) == 0);
    tear_down_exact();
}

TEST(ids_that_were_computed_before_are_taken_as_they_are)
{
    static const uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    set_up_exact(&policy_prefix_cost, (struct dialect_options){0});
    struct token_result before = {.dialect = tiny.set.dialects[0], .ids = ids, .count = 8};
    struct route_request out;
    route_read(route, fleet_view(fleet),
               &(struct route_input){.api = PROMPT_COMPLETION,
                                     .body = slice_str("{\"model\":\"m\",\"prompt\":\"ab\"}"),
                                     .token_result = &before},
               &out);
    CHECK(out.ids == ids);
    CHECK_EQ(out.prompt_tokens, 8);
    CHECK_EQ(out.key_count, 2);
    CHECK_EQ(atomic_load(&tiny.set.dialects[0]->shared.by_ids_count), 0);
    tear_down_exact();
}

TEST(without_ids_a_prompt_is_named_by_its_text)
{
    static char long_prompt[8192];
    set_up_exact(&policy_prefix_cost, (struct dialect_options){0});
    // Another model's; more than is encoded at once; not to be understood.
    snprintf(long_prompt, sizeof(long_prompt), "{\"model\":\"m\",\"prompt\":\"%05000d\"}", 7);
    static const char *const bodies[] = {"{\"model\":\"n\",\"prompt\":\"ab\"}", long_prompt,
                                         "{\"model\":\"m\",\"prompt\":\"ab\",\"suffix\":\"c\"}"};
    for (size_t i = 0; i < ARRAY_COUNT(bodies); i++) {
        struct route_request out = read_body(PROMPT_COMPLETION, bodies[i]);
        CHECK(out.dialect == NULL);
        CHECK_EQ(out.id_count, 0);
        CHECK_EQ(out.prompt->form, PROMPT_TEXT);
    }
    tear_down_exact();
}

static bool wants_ids(enum prompt_api api, const char *body)
{
    struct route_request out;
    route_read_model(route, &(struct route_input){.api = api, .body = slice_str(body)}, &out);
    return route_wants_ids(route, fleet_view(fleet), &out);
}

TEST(ids_are_wanted_where_prompts_are_looked_at_or_ids_are_forwarded)
{
    static const struct {
        const struct policy *policy;
        bool forwards_ids;
        bool wants;
    } cases[] = {
        {&policy_prefix_cost, false, true},
        {&policy_prefix_cost, true, true},
        {&policy_round_robin, false, false},
        {&policy_round_robin, true, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        set_up_exact(cases[i].policy,
                     (struct dialect_options){.forwards_ids = cases[i].forwards_ids});
        CHECK_EQ(wants_ids(PROMPT_COMPLETION, "{\"model\":\"m\",\"prompt\":\"ab\"}"),
                 cases[i].wants);
        CHECK(!wants_ids(PROMPT_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,2]}"));
        CHECK(!wants_ids(PROMPT_COMPLETION, "{\"model\":\"x\",\"prompt\":\"ab\"}"));
        CHECK(!wants_ids(PROMPT_COMPLETION, "nonsense"));
        tear_down_exact();
    }
}

TEST(the_model_alone_is_read_without_keys)
{
    struct route_request out;
    set_up(&policy_prefix_cost);
    route_read_model(route, &(struct route_input){.api = PROMPT_CHAT, .body = slice_str(long_chat)},
                     &out);
    CHECK(slice_is(out.model, "m"));
    CHECK(out.chain == NULL);
    CHECK_EQ(out.key_count, 0);
    tear_down();
}

// Engines that tell what they hold.

static void set_up_told(void)
{
    ledger_memory = 1 << 20;
    set_up(&policy_kv_aware);
    ledger_memory = 0;
}

static struct route_request read_ids(const char *model)
{
    struct route_request out;
    static char body[256]; // the request points into it
    snprintf(body, sizeof(body), "{\"model\":\"%s\",\"prompt\":[1,2,3,4,5,6,7,8,9,10,11,12,13]}",
             model);
    route_read(route, fleet_view(fleet),
               &(struct route_input){.api = PROMPT_COMPLETION, .body = slice_str(body)}, &out);
    return out;
}

// The key of the first ids, as an event of them has it.
static uint64_t key_of(const char *adapter, uint32_t ids)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint64_t keys[1];
    struct prefix_chain chain;
    struct prefix_space space = {.adapter = slice_str(adapter)};
    prefix_chain_begin(&chain, prefix_seed(&space), ids * 4, keys, 1);
    prefix_chain_add(&chain, slice_of(tokens, ids * sizeof(uint32_t)));
    return keys[0];
}

TEST(where_engines_tell_what_they_hold_models_are_one_and_adapters_are_not)
{
    set_up_told();
    static const struct fleet_model models[] = {
        {.name = "base", .document = "{}"}, {.name = "sql", .document = "{}", .is_adapter = true}};
    struct backend *learned =
        fleet_add(fleet, &(struct fleet_spec){.url = "http://d", .host = "h", .weight = 1});
    fleet_set_models(fleet, learned, models, 2);
    ASSERT(fleet_publish(fleet));
    CHECK(read_ids("base").by_token_ids);
    CHECK_EQ(read_ids("base").keys[0], key_of("", 4));
    CHECK_EQ(read_ids("m").keys[0], key_of("", 4));
    CHECK_EQ(read_ids("sql").keys[0], key_of("sql", 4));
    tear_down();
}

TEST(a_group_with_blocks_of_two_sizes_has_two_chains_of_keys)
{
    set_up_told();
    atomic_store(&backends[0]->load.block_tokens, 8);
    atomic_store(&backends[1]->load.told_block_tokens, 4);
    struct route_request out = read_ids("m");
    CHECK_EQ(out.block_tokens, 8);
    CHECK_EQ(out.key_count, 1);
    CHECK_EQ(out.keys[0], key_of("", 8));
    CHECK_EQ(out.other_count, 1);
    CHECK_EQ(out.others[0].block_tokens, 4);
    CHECK_EQ(out.others[0].key_count, 3);
    CHECK_EQ(out.others[0].keys[0], key_of("", 4));
    tear_down();
}

TEST(the_size_of_blocks_is_asked_for_again_each_second)
{
    set_up_told();
    CHECK_EQ(read_ids("m").block_tokens, 4);
    atomic_store(&backends[0]->load.told_block_tokens, 8);
    struct route_request out;
    static const char body[] = "{\"model\":\"m\",\"prompt\":[1,2,3,4,5,6,7,8,9]}";
    route_read(
        route, fleet_view(fleet),
        &(struct route_input){.api = PROMPT_COMPLETION, .body = slice_str(body), .wall_s = 1},
        &out);
    CHECK_EQ(out.block_tokens, 8);
    tear_down();
}

TEST(a_prompt_goes_where_events_tell_that_its_beginning_is)
{
    set_up_told();
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
