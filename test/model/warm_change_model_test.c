// SPDX-License-Identifier: Apache-2.0
//
// The default policy while the fleet changes: a backend that starts slowly gets its share again,
// and backends that join help at once and harm nobody.
//
// The lab is deterministic: these are claims about the seeds below, with room for others.

#include "base/base.h"
#include "sim/lab.h"
#include "test.h"

static struct lab_result run(const char *kind, double rate, uint32_t backends,
                             const struct lab_change *change)
{
    static struct profile profile;
    struct lab_result result;
    char error[lab_error_size];

    ASSERT(profile_find("llama-3.1-8b", &profile));
    struct lab_options options = {
        .profile = &profile,
        .policy = policy_find("warm"),
        .backend_count = backends,
        .workload = {.kind = kind, .rate = rate, .requests = (uint32_t)(rate * 95), .seed = 3},
        .seed = 5,
        .scrape_ms = 1000,
        .changes = change,
        .change_count = 1,
    };
    ASSERT(lab_run(&options, &result, error) && result.figures.failed_count == 0);
    return result;
}

// Without fading speeds the first three had no request in the 60 s after that.
TEST(a_backend_that_was_slow_has_half_its_share_within_thirty_seconds)
{
    static const struct {
        const char *kind;
        double rate;
        struct lab_change change;
    } rows[] = {
        {"unique", 20, {.number = 1, .factor = 20, .until_s = 2}},
        {"unique", 10, {.number = 1, .factor = 5, .until_s = 6}},
        {"rag", 10, {.number = 1, .factor = 5, .until_s = 6}},
        {"rag", 40, {.number = 1, .factor = 20, .at_s = 20, .until_s = 22}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct lab_change change = rows[i].change;
        change.kind = LAB_SLOW;
        struct lab_result result = run(rows[i].kind, rows[i].rate, 8, &change);
        // All of the 30 s together, and so more at their end.
        CHECK(result.changes[0].share[1] > 0.5);
        CHECK(result.changes[0].share[2] > 0.75);
    }
}

TEST(two_cold_backends_that_join_eight_warm_ones_work_at_once_and_slow_no_others)
{
    static const struct {
        const char *kind;
        double rate;
    } rows[] = {{"rag", 66}, {"unique", 60}, {"chat", 120}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct lab_change change = {.kind = LAB_JOIN, .at_s = 30};
        struct lab_result before = run(rows[i].kind, rows[i].rate, 8, &change);
        change.number = 2;
        struct lab_result after = run(rows[i].kind, rows[i].rate, 8, &change);
        CHECK(after.changes[0].share[0] > 0.4);
        CHECK(after.changes[0].share[0] < 1.25); // no rush to an empty cache
        CHECK(after.changes[0].ttft_p99 < before.changes[0].ttft_p99 * 1.05);
        CHECK(after.changes[0].ttft_p50 < before.changes[0].ttft_p50 * 1.02);
    }
}
