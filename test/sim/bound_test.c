// SPDX-License-Identifier: Apache-2.0

#include "sim/lab.h"
#include "base/base.h"
#include "test.h"

static double bound_of(const char *kind)
{
    struct profile profile;
    char error[lab_error_size];
    double rate = -1;
    ASSERT(profile_find("llama-3.1-8b", &profile));
    struct lab_options options = {
        .profile = &profile,
        .backend_count = 1,
        .workload = {.kind = kind, .rate = 10, .requests = 3000, .seed = 1},
        .warm_up = 0.2};
    ASSERT(lab_bound(&options, &rate, error));
    return rate;
}

TEST(what_shares_nothing_hits_nothing)
{
    CHECK(bound_of("unique") == 0);
}

TEST(one_hot_prompt_hits_its_share_of_all_tokens)
{
    // 80% of the requests share 4,000 of 4,500 tokens.
    double rate = bound_of("hot");
    CHECK(rate > 0.69);
    CHECK(rate < 0.72);
}
