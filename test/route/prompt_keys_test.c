// SPDX-License-Identifier: Apache-2.0
//
// Tests of the keys, through route_read.

#include "route/prompt_keys_internal.h"
#include "route/route_fixture.h"

TEST(a_body_gives_its_model_and_session_or_neither)
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

TEST(a_policy_that_does_not_read_prompts_costs_no_hashing)
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

// The three backends of the fixture, all with one model, which takes any name.
static void accept_any_name(void)
{
    static const struct fleet_model model = {.name = "m", .document = "{}"};
    for (uint32_t i = 0; i < 3; i++) {
        fleet_remove(fleet, backends[i]);
        backends[i] =
            fleet_add(fleet, &(struct fleet_spec){.url = "http://d", .host = "h", .weight = 1});
        fleet_set_models(fleet, backends[i], &model, 1);
    }
    fleet_set_any_name(fleet, FLEET_ANY_NAME_ON);
    ASSERT(fleet_publish(fleet));
}

// Otherwise one prompt under two names would be looked for in two places.
TEST(a_made_up_name_has_the_keys_of_the_model_that_serves_it)
{
    static const char format[] =
        "{\"model\":\"%s\",\"prompt\":\"0123456789012345678901234567890123456789012345678901234567"
        "8901234567890123456789\"}";
    char body[256];
    uint64_t key;
    set_up(&policy_prefix_cost);
    for (int round = 0; round < 2; round++) {
        struct route_input input = {.api = PROMPT_COMPLETION};
        struct route_request out;
        snprintf(body, sizeof(body), format, "m");
        input.body = slice_str(body);
        route_read(route, fleet_view(fleet), &input, &out);
        CHECK_EQ(out.key_count, 1);
        key = out.keys[0];
        snprintf(body, sizeof(body), format, "gpt-4");
        input.body = slice_str(body);
        route_read(route, fleet_view(fleet), &input, &out);
        CHECK(slice_is(out.model, "gpt-4"));
        CHECK(slice_is(out.served, round == 0 ? "gpt-4" : "m"));
        CHECK_EQ(out.key_count, round);
        CHECK(round == 0 || out.keys[0] == key);
        if (round == 0) {
            accept_any_name();
        }
    }
    CHECK_EQ(read_ids("gpt-4").keys[0], read_ids("m").keys[0]);
    tear_down();
}

static void set_up_with_dialect(const struct policy *policy, struct dialect_options options)
{
    static const char *const model = "m";
    options.is_trusted = true;
    options.models = &model;
    options.model_count = 1;
    tiny_set_open(&tiny, tiny_dialect(options));
    set_up(policy);
}

static void tear_down_with_dialect(void)
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
TEST(ids_of_a_dialect_have_the_same_keys_as_ids_of_the_client)
{
    uint64_t keys[16];
    set_up_with_dialect(&policy_prefix_cost, (struct dialect_options){0});
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
    tear_down_with_dialect();
}

TEST(ids_that_were_computed_before_are_taken_as_they_are)
{
    static const uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};
    set_up_with_dialect(&policy_prefix_cost, (struct dialect_options){0});
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
    tear_down_with_dialect();
}

TEST(without_ids_the_keys_are_those_of_the_text)
{
    static char long_prompt[8192];
    set_up_with_dialect(&policy_prefix_cost, (struct dialect_options){0});
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
    tear_down_with_dialect();
}

static bool wants_ids(enum prompt_api api, const char *body)
{
    struct route_request out;
    route_read_model(route, &(struct route_input){.api = api, .body = slice_str(body)}, &out);
    return route_wants_ids(route, fleet_view(fleet), &out);
}

TEST(ids_are_wanted_if_the_policy_reads_prompts_or_ids_are_forwarded)
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
        set_up_with_dialect(cases[i].policy,
                            (struct dialect_options){.forwards_ids = cases[i].forwards_ids});
        CHECK_EQ(wants_ids(PROMPT_COMPLETION, "{\"model\":\"m\",\"prompt\":\"ab\"}"),
                 cases[i].wants);
        CHECK(!wants_ids(PROMPT_COMPLETION, "{\"model\":\"m\",\"prompt\":[1,2]}"));
        CHECK(!wants_ids(PROMPT_COMPLETION, "{\"model\":\"x\",\"prompt\":\"ab\"}"));
        CHECK(!wants_ids(PROMPT_COMPLETION, "nonsense"));
        tear_down_with_dialect();
    }
}

TEST(a_made_up_name_has_the_dialect_of_the_model_that_serves_it)
{
    static const char body[] = "{\"model\":\"gpt-4\",\"prompt\":\"abcdefghijk\"}";
    set_up_with_dialect(&policy_round_robin, (struct dialect_options){.forwards_ids = true});
    CHECK(!wants_ids(PROMPT_COMPLETION, body));
    accept_any_name();
    CHECK(wants_ids(PROMPT_COMPLETION, body));
    struct route_request out = read_body(PROMPT_COMPLETION, body);
    CHECK(out.dialect == tiny.set.dialects[0]);
    CHECK_EQ(out.id_count, 12);
    tear_down_with_dialect();
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

TEST(with_events_keys_depend_on_the_adapter_and_not_on_the_model)
{
    route_fixture_open_with_events();
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
    route_fixture_open_with_events();
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

TEST(block_sizes_are_read_again_each_second)
{
    route_fixture_open_with_events();
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
