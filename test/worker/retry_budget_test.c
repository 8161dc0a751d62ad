// SPDX-License-Identifier: Apache-2.0

#include "worker/retry_budget.h"

#include "test.h"

static uint32_t spend(struct retry_budget *budget, const struct retry_budget_rules *rules,
                      uint64_t now_ms)
{
    uint32_t spent = 0;
    while (retry_budget_withdraw(budget, rules, now_ms)) {
        spent++;
    }
    return spent;
}

TEST(starts_full_refills_with_time_and_with_requests)
{
    struct retry_budget budget;
    struct retry_budget_rules rules = {.percent = 20, .per_10s = 10};
    retry_budget_start(&budget, &rules, 0);
    CHECK_EQ(spend(&budget, &rules, 0), 20);
    CHECK_EQ(spend(&budget, &rules, 0), 0);
    CHECK_EQ(spend(&budget, &rules, 5000), 5);
    for (int i = 0; i < 15; i++) {
        retry_budget_deposit(&budget, &rules);
    }
    CHECK_EQ(spend(&budget, &rules, 5000), 3);
    CHECK_EQ(spend(&budget, &rules, 1000000), 20);
}

TEST(small_steps_of_time_add_up)
{
    struct retry_budget budget;
    struct retry_budget_rules rules = {.percent = 0, .per_10s = 3};
    retry_budget_start(&budget, &rules, 0);
    spend(&budget, &rules, 0);
    uint32_t spent = 0;
    for (uint64_t now = 1; now <= 100000; now++) {
        spent += retry_budget_withdraw(&budget, &rules, now);
    }
    CHECK_EQ(spent, 30);
}

TEST(nothing_allowed_means_nothing)
{
    struct retry_budget budget;
    struct retry_budget_rules rules = {0};
    retry_budget_start(&budget, &rules, 0);
    CHECK_EQ(spend(&budget, &rules, 1000000), 0);
}
