// SPDX-License-Identifier: Apache-2.0

#include "sim/lab.h"
#include "test.h"

TEST(a_saturated_fleet_completes_about_its_rate_however_much_is_offered)
{
    struct profile profile;
    CHECK(profile_find("llama-3.1-8b", &profile));
    profile.sequences_max = 16; // full soon
    struct lab_options options = {.profile = &profile,
                                  .policy = policy_find("warm"),
                                  .backend_count = 2,
                                  .workload = {.kind = "unique", .requests = 1000, .seed = 1},
                                  .seed = 1,
                                  .scrape_ms = 1000,
                                  .warm_up = 0.2};
    char error[lab_error_size];
    double rate = 0;
    struct lab_result result;
    CHECK(lab_saturation(&options, &rate, error));

    options.workload.rate = rate * 0.8;
    CHECK(lab_run(&options, &result, error));
    CHECK(result.completed_per_s > 0.75 * rate);
    options.workload.rate = rate * 1.3;
    CHECK(lab_run(&options, &result, error));
    CHECK(result.completed_per_s < 1.1 * rate);
}
