// SPDX-License-Identifier: Apache-2.0

#include "sim/workload.h"

#include "test.h"

TEST(arrivals_come_at_the_rate_that_was_asked_for)
{
    char error[workload_error_size];
    struct workload_options options = {.kind = "b2b", .rate = 20, .requests = 10000, .seed = 3};
    struct workload *workload = workload_create(&options, error);
    struct work_item item;
    uint64_t at_us = 0;
    CHECK(workload != NULL);
    while (workload_peek(workload, &at_us)) {
        workload_take(workload, &item);
        workload_done(workload, &item, at_us);
    }
    CHECK(workload_is_over(workload));
    // 500 s; three standard errors of a Poisson process.
    CHECK(at_us > 485000000 && at_us < 515000000);
    workload_destroy(&workload);
}
