// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_faults.h"

#include "base/text.h"
#include "test.h"

static struct engine_faults faults;
static struct engine_mishap mishap;
static char error[engine_faults_error_size];

static bool take(const char *body)
{
    return engine_faults_read(slice_str(body), &faults, &mishap, error) == STATUS_OK;
}

static const char *written(void)
{
    static char space[256];
    struct text text = text_over(space, sizeof(space) - 1);
    engine_faults_write(&faults, &text);
    space[text.size] = '\0';
    return space;
}

TEST(fields_that_are_not_given_stay)
{
    faults = engine_faults_none;
    CHECK(take("{\"error_rate\": 0.25, \"error_status\": 503}"));
    CHECK(take("{\"slow\": 2.5, \"events_loss\": 0.125}"));
    CHECK(take("{\"stall_ms\": 1e3, \"stall_rate\": 0.5}"));
    CHECK_STR(written(), "{\"error_rate\":0.25,\"error_status\":503,\"stall_rate\":0.5,"
                         "\"stall_ms\":1000,\"events_loss\":0.125,\"slow\":2.5}");
}

static const char none[] = "{\"error_rate\":0,\"error_status\":500,\"stall_rate\":1,"
                           "\"stall_ms\":0,\"events_loss\":0,\"slow\":1}";

TEST(there_are_no_faults_by_default)
{
    faults = engine_faults_none;
    CHECK(take("{}"));
    CHECK_STR(written(), none);
    CHECK(!mishap.flush && !mishap.reset);
    CHECK_EQ(mishap.freeze_ms, 0);
    CHECK(mishap.crash_s == 0);
}

TEST(faults_that_happen_once_are_not_kept)
{
    faults = engine_faults_none;
    CHECK(take("{\"crash_s\":0.5,\"flush\":true,\"reset\":true,\"freeze_ms\":20}"));
    CHECK(mishap.flush && mishap.reset);
    CHECK_EQ(mishap.freeze_ms, 20);
    CHECK(mishap.crash_s == 0.5);
    CHECK(take("{\"flush\":false}"));
    CHECK(!mishap.flush && !mishap.reset);
    CHECK_STR(written(), none);
}

TEST(a_wrong_order_changes_no_fault_and_is_named)
{
    static const struct {
        const char *body;
        const char *error;
    } cases[] = {
        {"", "the body is not a JSON object"},
        {"[]", "the body is not a JSON object"},
        {"{\"slow\":2", "the body is not a JSON object"},
        {"{\"slow\":2}x", "the body is not a JSON object"},
        {"{\"slow\":0}", "slow must be a number from 0.01 to 1000"},
        {"{\"slow\":\"2\"}", "slow must be a number from 0.01 to 1000"},
        {"{\"error_rate\":1.1}", "error_rate must be a number from 0 to 1"},
        {"{\"error_rate\":-0.1}", "error_rate must be a number from 0 to 1"},
        {"{\"events_loss\":2}", "events_loss must be a number from 0 to 1"},
        {"{\"error_status\":200}", "error_status must be a whole number from 400 to 599"},
        {"{\"error_status\":500.5}", "error_status must be a whole number from 400 to 599"},
        {"{\"stall_ms\":1e99}", "stall_ms must be a whole number from 0 to 3.6e+06"},
        {"{\"slow\":2,\"flush\":1}", "flush must be true or false"},
        {"{\"slow\":2,\"what\":1}", "no such fault: what"},
    };
    faults = engine_faults_none;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK(!take(cases[i].body));
        CHECK_STR(error, cases[i].error);
        CHECK_STR(written(), none);
    }
}
