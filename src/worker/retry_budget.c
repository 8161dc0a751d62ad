// SPDX-License-Identifier: Apache-2.0

#include "worker/retry_budget.h"

// A retry is 10,000 parts: a percent of one is a hundred, and one per ten seconds is one part each
// millisecond, so that nothing is lost to rounding.
enum { retry_parts = 10000, percent_parts = 100 };

static void retry_budget_add(struct retry_budget *budget, const struct retry_budget_rules *rules,
                             uint64_t parts)
{
    uint64_t most =
        (uint64_t)rules->per_10s * 2 * retry_parts + (uint64_t)rules->percent * percent_parts;
    uint64_t sum = budget->parts + parts;
    budget->parts = sum < most ? sum : most;
}

void retry_budget_start(struct retry_budget *budget, const struct retry_budget_rules *rules,
                        uint64_t now_ms)
{
    *budget = (struct retry_budget){.refilled_ms = now_ms};
    retry_budget_add(budget, rules, UINT32_MAX);
}

void retry_budget_deposit(struct retry_budget *budget, const struct retry_budget_rules *rules)
{
    retry_budget_add(budget, rules, (uint64_t)rules->percent * percent_parts);
}

bool retry_budget_withdraw(struct retry_budget *budget, const struct retry_budget_rules *rules,
                           uint64_t now_ms)
{
    retry_budget_add(budget, rules, (now_ms - budget->refilled_ms) * rules->per_10s);
    budget->refilled_ms = now_ms;
    if (budget->parts < retry_parts) {
        return false;
    }
    budget->parts -= retry_parts;
    return true;
}
