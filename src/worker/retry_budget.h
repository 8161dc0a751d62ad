// SPDX-License-Identifier: Apache-2.0
//
// retry_budget.h -- how many retries a worker may spend, so that a sick fleet is not beaten
// further.
//
// A bucket of retries.  Each request puts in a fraction (budget_percent of one); time puts in
// `budget_min` per ten seconds; each retry takes one out.  The bucket starts full and holds twice
// budget_min, so a burst after a quiet time is allowed and a storm is not.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct retry_budget {
    uint64_t parts; // of a retry, 10,000 each
    uint64_t refilled_ms;
};

struct retry_budget_rules {
    uint32_t percent;
    uint32_t per_10s;
};

void retry_budget_start(struct retry_budget *budget, const struct retry_budget_rules *rules,
                        uint64_t now_ms);
void retry_budget_deposit(struct retry_budget *budget, const struct retry_budget_rules *rules);

// False when the budget is spent.
bool retry_budget_withdraw(struct retry_budget *budget, const struct retry_budget_rules *rules,
                           uint64_t now_ms);
