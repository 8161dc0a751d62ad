// SPDX-License-Identifier: Apache-2.0

#include "admin/explain.h"

#include "admin/admin.h"
#include "dialect/tiny_dialect.h"
#include "json/json_writer.h"
#include "knowledge/knowledge.h"
#include "proxy/rig.h"
#include "test.h"

#include <cjson/cJSON.h>

static struct rig rig;
static struct admin_options options;
static uint8_t space[65536];

static void set_up_exact(const char *config, const struct dialect_set *dialects)
{
    ASSERT(rig_start(
        &rig, &(struct rig_options){.config = config, .backend_count = 3, .dialects = dialects}));
    options =
        (struct admin_options){.fleet = rig.fleet, .config = &rig.config, .proxy = &rig.proxy};
}

static void set_up(const char *config)
{
    set_up_exact(config, NULL);
}

static cJSON *explain(const char *body, enum http_problem *problem)
{
    struct text text = text_over(space, sizeof(space) - 1);
    struct json_writer json = json_writer_over(&text);
    struct explain_request request = {.path = slice_str("/v1/chat/completions"),
                                      .body = slice_str(body)};
    if (!explain_write(&options, &request, &json, problem)) {
        return NULL;
    }
    ASSERT(!text.overflow);
    space[text.size] = '\0';
    return cJSON_Parse((const char *)space);
}

static const char *text_of(const cJSON *object, const char *name)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));
    return text != NULL ? text : "";
}

static int number_of(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItem(object, name);
    return cJSON_IsNumber(item) ? item->valueint : -1;
}

static const char chat[] =
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"A question that is long "
    "enough "
    "to have some whole blocks of sixty-four bytes each, which this one certainly has by now, even "
    "if nobody ever answers it.\"}]}";

// All are idle and hold nothing; counts the chosen one.
static void check_one(const cJSON *one, const char *chosen, int *count)
{
    bool is_chosen = cJSON_IsTrue(cJSON_GetObjectItem(one, "chosen"));
    CHECK_EQ(number_of(one, "matched_blocks"), 0);
    CHECK_EQ(number_of(one, "running_requests"), 0);
    CHECK(cJSON_IsNumber(cJSON_GetObjectItem(one, "cost")));
    CHECK_EQ(is_chosen, strcmp(text_of(one, "url"), chosen) == 0);
    *count += is_chosen;
}

TEST(every_backend_is_shown_and_one_is_chosen)
{
    enum http_problem problem;
    set_up("policy: prefix_cost\nprefix: {block_size: 64}\n");
    cJSON *why = explain(chat, &problem);
    CHECK(why != NULL);
    CHECK_STR(text_of(why, "policy"), "prefix_cost");
    CHECK_STR(text_of(why, "model"), "m");
    CHECK(number_of(why, "prompt_blocks") >= 2);
    CHECK_EQ(number_of(why, "wait_ms"), 0);
    CHECK(number_of(why, "prefill_ms") > 0);
    CHECK(strstr(text_of(why, "summary"), text_of(why, "chosen")) != NULL);
    const cJSON *all = cJSON_GetObjectItem(why, "backends");
    CHECK_EQ(cJSON_GetArraySize(all), 3);
    int chosen = 0;
    for (int i = 0; i < 3; i++) {
        check_one(cJSON_GetArrayItem(all, i), text_of(why, "chosen"), &chosen);
    }
    CHECK_EQ(chosen, 1);
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
}

TEST(it_says_how_well_each_was_predicted)
{
    enum http_problem problem;
    set_up("policy: prefix_cost\n");
    truth_note(&rig.backends[1].backend->truth, TRUTH_BELIEVED, 96, 64, 0);
    cJSON *why = explain(chat, &problem);
    CHECK(why != NULL);
    const cJSON *all = cJSON_GetObjectItem(why, "backends");
    for (int i = 0; i < 3; i++) {
        const cJSON *one = cJSON_GetArrayItem(all, i);
        const cJSON *truth = cJSON_GetObjectItem(one, "truth");
        const cJSON *believed = cJSON_GetObjectItem(truth, "believed");
        bool has_answered = strcmp(text_of(one, "url"), rig.backends[1].backend->url) == 0;
        CHECK(cJSON_IsNull(cJSON_GetObjectItem(truth, "by_events")));
        CHECK_EQ(cJSON_IsObject(believed), has_answered);
        CHECK_EQ(number_of(cJSON_GetObjectItem(believed, "last"), "predicted"),
                 has_answered ? 96 : -1);
    }
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
}

TEST(a_policy_without_costs_says_so)
{
    enum http_problem problem;
    set_up("policy: round_robin\n");
    cJSON *why = explain(chat, &problem);
    CHECK(why != NULL);
    const cJSON *one = cJSON_GetArrayItem(cJSON_GetObjectItem(why, "backends"), 0);
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(one, "cost")));
    CHECK(cJSON_IsNull(cJSON_GetObjectItem(why, "prefill_ms")));
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
}

TEST(a_request_without_an_explanation_gets_the_problem)
{
    enum http_problem problem = HTTP_PROBLEM_INTERNAL;
    set_up("policy: round_robin\n");
    for (uint32_t i = 0; i < 3; i++) {
        fleet_set_draining(rig.fleet, rig.backends[i].backend, true);
    }
    CHECK(rig_publish(&rig));
    CHECK(explain(chat, &problem) == NULL);
    CHECK_EQ(problem, HTTP_PROBLEM_NO_BACKEND);
    CHECK(rig_stop(&rig));
    struct proxy *none = NULL;
    options.proxy = &none;
    struct text text = text_over(space, sizeof(space));
    struct json_writer json = json_writer_over(&text);
    CHECK(!explain_write(&options, &(struct explain_request){0}, &json, &problem));
    CHECK_EQ(problem, HTTP_PROBLEM_OVERLOADED);
}

TEST(a_limit_of_backends_that_was_lowered_since_the_start_does_not_bound_an_explanation)
{
    enum http_problem problem;
    set_up("policy: prefix_cost\nprefix: {block_size: 64}\n");
    CHECK(rig_replan(&rig, "policy: prefix_cost\nprefix: {block_size: 64}\n"
                           "limits: {connections: 64, requests: 64, backends: 3}\n"));
    // One more, as somebody added it or a name resolved to it.
    char url[rig_url_size];
    struct fleet_spec spec = rig_spec(&rig, 0, url);
    CHECK(fleet_add(rig.fleet, &spec) != NULL);
    CHECK(rig_publish(&rig));
    cJSON *why = explain(chat, &problem);
    CHECK(why != NULL);
    CHECK_EQ(cJSON_GetArraySize(cJSON_GetObjectItem(why, "backends")), 4);
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
}

TEST(it_says_whether_the_tokens_are_counted_or_guessed)
{
    enum http_problem problem;
    struct tiny_set tiny;
    set_up("policy: prefix_cost\n");
    cJSON *why = explain(chat, &problem);
    CHECK(cJSON_IsFalse(cJSON_GetObjectItem(why, "by_token_ids")));
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
    tiny_set_open(&tiny, tiny_dialect((struct dialect_options){.is_trusted = true}));
    set_up_exact("policy: prefix_cost\nprefix: {block_tokens: 4}\n", &tiny.set);
    why = explain("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &problem);
    CHECK(cJSON_IsTrue(cJSON_GetObjectItem(why, "by_token_ids")));
    CHECK_EQ(number_of(why, "prompt_tokens"), 21);
    CHECK_EQ(number_of(why, "prompt_blocks"), 5);
    CHECK_EQ(number_of(why, "block_tokens"), 4);
    cJSON_Delete(why);
    // After a revocation, requests with that feature are estimated from their text again.
    atomic_store(&tiny.set.dialects[0]->shared.revoked, CHAT_PLAIN_SHAPE);
    why = explain("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &problem);
    CHECK(cJSON_IsFalse(cJSON_GetObjectItem(why, "by_token_ids")));
    cJSON_Delete(why);
    CHECK(rig_stop(&rig));
    tiny_set_close(&tiny);
}
