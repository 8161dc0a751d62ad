// SPDX-License-Identifier: Apache-2.0
//
// Failures that need no engine; test/e2e/test_72_calibrate.py has one.

#include "drive/probe_engine.h"

#include "test.h"

static struct calibration calibration;
static char error[probe_engine_error_size];

static bool probe(const char *url, const char *model)
{
    struct probe_engine_options options = {.url = url,
                                           .model = model,
                                           .seconds = 5,
                                           .step_tokens = 8192,
                                           .sequences_max = 256,
                                           .context_max = 131072};
    error[0] = '\0';
    return probe_engine(&options, &calibration, error);
}

TEST(an_engine_that_does_not_listen_is_a_failure)
{
    CHECK(!probe("http://127.0.0.1:1", "m"));
    CHECK_STR(error, "Connection refused");
}

TEST(anything_but_a_url_is_refused)
{
    CHECK(!probe("nowhere", "m"));
    CHECK(error[0] != '\0');
}

TEST(a_model_name_has_room)
{
    CHECK(!probe("http://127.0.0.1:1",
                 "a-name-that-is-much-longer-than-any-name-of-a-model-should-ever-be-in-life"));
    CHECK_STR(error, "the model's name is too long");
}
