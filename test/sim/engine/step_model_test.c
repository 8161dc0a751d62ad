// SPDX-License-Identifier: Apache-2.0

#include "sim/engine/step_model.h"

#include "test.h"

#include <math.h>
#include <stdbool.h>

static const struct step_model model = {.floor_ms = 5,
                                        .token_ms = 0.02,
                                        .sharpness = 2,
                                        .cross_ms = 1e-6,
                                        .square_ms = 5e-7,
                                        .square_behind_ms = 8e-7,
                                        .cached_ms = 1e-4,
                                        .context_ms = 3e-5,
                                        .sequence_ms = 1e-3};

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-9 * fabs(b);
}

TEST(a_step_takes_the_time_of_the_formula)
{
    struct step_work work = {0};
    step_work_add_chunk(&work, &model, 0, 1000);
    step_work_add_chunk(&work, &model, 400, 200);
    step_work_add_decode(&work, &model, 10, 5000);
    CHECK(is_near(work.tokens, 1210));
    double extra = 5e-7 * 1e6 + 1e-6 * 200 * 400 + 8e-7 * 4e4 + 3e-5 * 5000 + 1e-2;
    CHECK(is_near(work.extra_ms, extra));
    CHECK(is_near(step_ms(&work, &model), sqrt(25 + pow(0.02 * 1210, 2)) + extra));
}

TEST(few_tokens_behind_a_cached_prefix_take_as_long_as_reading_it)
{
    struct step_work few = {0};
    struct step_work more = {0};
    step_work_add_chunk(&few, &model, 30000, 10);
    step_work_add_chunk(&more, &model, 30000, 50);
    CHECK(is_near(few.extra_ms, 3 + 8e-7 * 100));
    CHECK(is_near(more.extra_ms, 3 + 8e-7 * 2500));
}

TEST(few_tokens_take_as_long_as_reading_the_weights)
{
    struct step_work work = {.tokens = 1};
    CHECK(is_near(step_ms(&work, &model), 5));
}

TEST(a_long_prompt_is_the_sum_of_its_chunks)
{
    struct step_work first = {0};
    struct step_work second = {0};
    step_work_add_chunk(&first, &model, 100, 8192);
    step_work_add_chunk(&second, &model, 8292, 1808);
    CHECK(is_near(step_prefill_ms(&model, 100, 10000, 8192),
                  step_ms(&first, &model) + step_ms(&second, &model)));
    CHECK(step_prefill_ms(&model, 100, 0, 8192) == 0);
}
