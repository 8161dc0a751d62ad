// SPDX-License-Identifier: Apache-2.0
//
// The default policy in whole runs on simulated engines, beside its peers.
//
// Runs are short: of some hundred requests on eight replicas, the busiest has a fifth more than
// the mean by chance alone.  Margins are wide enough for other seeds.

#include "base/base.h"
#include "sim/lab.h"
#include "test.h"

#include <math.h>

static struct lab_options setting(const char *kind, uint32_t backends, double rate,
                                  uint32_t requests)
{
    static struct profile profile;
    ASSERT(profile_find("llama-3.1-8b", &profile));
    return (struct lab_options){
        .profile = &profile,
        .backend_count = backends,
        .workload = {.kind = kind, .rate = rate, .requests = requests, .seed = 3},
        .seed = 5,
        .scrape_ms = 1000,
        .warm_up = 0.4,
    };
}

static struct figures run(const struct lab_options *options, const char *policy)
{
    struct lab_options chosen = *options;
    struct lab_result result;
    char error[lab_error_size];

    chosen.policy = policy_find(policy);
    ASSERT(chosen.policy != NULL && lab_run(&chosen, &result, error));
    ASSERT(result.figures.failed_count == 0);
    return result.figures;
}

static double bound(const struct lab_options *options)
{
    char error[lab_error_size];
    double rate;
    ASSERT(lab_bound(options, &rate, error));
    return rate;
}

// Within so many points of what one cache without end would hit.
static bool hits_all_but(double points, const struct figures *figures,
                         const struct lab_options *options)
{
    return figures->hit_rate > bound(options) - points / 100;
}

static bool is_even(const struct figures *figures, double most)
{
    return figures->balance < most && figures->request_balance < most;
}

TEST(one_hot_prompt_spreads_to_as_many_replicas_as_it_needs)
{
    static const double rates[] = {2, 50, 100};
    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        struct lab_options options = setting("hot", 8, rates[i], 3000);
        struct figures warm = run(&options, "warm");
        CHECK(is_even(&warm, 1.5));
        CHECK(hits_all_but(1, &warm, &options));
        struct figures least = run(&options, "least_requests");
        CHECK(warm.ttft.mean < least.ttft.mean * (rates[i] > 10 ? 0.9 : 1.01));
    }
}

// 150 groups are more than the cache of one replica has room for.
TEST(groups_of_prompts_keep_the_hit_rate_of_one_big_cache)
{
    static const double rates[] = {2, 10, 23};
    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        struct lab_options options = setting("b2b", 8, rates[i], 1000);
        struct figures warm = run(&options, "warm");
        struct figures least = run(&options, "least_requests");
        CHECK(hits_all_but(3, &warm, &options));
        CHECK(is_even(&warm, 1.4));
        CHECK(warm.hit_rate > least.hit_rate + 0.25);
        CHECK(warm.ttft.mean * 2 < least.ttft.mean);
    }
}

TEST(where_caches_are_full_of_prompts_in_use_few_copies_are_made)
{
    struct profile small;
    ASSERT(profile_find("qwen2.5-32b", &small));
    struct lab_options options = setting("b2b", 8, 6, 1000);
    options.profile = &small;
    struct figures warm = run(&options, "warm");
    CHECK(hits_all_but(8, &warm, &options));
    CHECK(is_even(&warm, 1.3));
}

TEST(groups_stay_together_also_where_engines_tell_nothing)
{
    struct lab_options options = setting("b2b", 8, 20, 1000);
    options.scrape_ms = 0;
    struct figures warm = run(&options, "warm");
    CHECK(hits_all_but(3, &warm, &options));
    CHECK(is_even(&warm, 1.4));
}

TEST(conversations_stay_where_their_history_is)
{
    static const struct {
        const char *kind;
        double rate;
        double points; // of hits that may be lost
        double gain;   // of time to the first token, over counting requests
    } rows[] = {{"chat", 150, 6, 1.15}, {"agent", 45, 3, 2.5}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct lab_options options = setting(rows[i].kind, 8, rows[i].rate, 1500);
        struct figures warm = run(&options, "warm");
        struct figures least = run(&options, "least_requests");
        CHECK(hits_all_but(rows[i].points, &warm, &options));
        CHECK(is_even(&warm, 1.4));
        CHECK(warm.ttft.mean * rows[i].gain < least.ttft.mean);
    }
}

// Prompts that share nothing leave only the load to look at.
TEST(cold_prompts_spread_as_evenly_as_by_counting_requests)
{
    static const double rates[] = {10, 80};
    for (size_t i = 0; i < ARRAY_COUNT(rates); i++) {
        struct lab_options options = setting("unique", 8, rates[i], 1500);
        struct figures warm = run(&options, "warm");
        struct figures least = run(&options, "least_requests");
        CHECK(warm.request_balance < least.request_balance + 0.1);
        CHECK(warm.balance < least.balance + 0.1);
        CHECK(warm.ttft.mean <= least.ttft.mean);
    }
}

// Four seconds in which a prompt is asked for again before its first holder has computed it.
TEST(a_burst_on_empty_caches_pins_no_prompt)
{
    struct lab_options options = setting("b2b", 16, 500, 2000);
    options.warm_up = 0;
    struct figures warm = run(&options, "warm");
    struct figures lmetric = run(&options, "lmetric");
    CHECK(warm.ttft.p99 < lmetric.ttft.p99 * 1.25);
    CHECK(warm.e2e.mean < lmetric.e2e.mean * 1.05);
    CHECK(is_even(&warm, 1.3));
}

struct best {
    double ttft;
    double e2e;
};

static struct best best_of_peers(const struct lab_options *options)
{
    static const char *const peers[] = {"lmetric", "smetric",     "cache_aware",   "gaie",
                                        "dynamo",  "round_robin", "least_requests"};
    struct best best = {INFINITY, INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(peers); i++) {
        struct figures peer = run(options, peers[i]);
        best.ttft = fmin(best.ttft, peer.ttft.mean);
        best.e2e = fmin(best.e2e, peer.e2e.mean);
    }
    return best;
}

// The rates are 0.85 of the saturation of four replicas, by `warmpath sim --load 0.85`.  The
// narrowest is the mean TTFT of stress, where round robin is hard to beat: 0.94 to 0.97 by seed.
TEST(on_a_busy_fleet_it_is_near_the_best_of_its_peers)
{
    static const struct {
        const char *kind;
        double rate;
        uint32_t requests; // of rag enough to fill the caches
    } rows[] = {
        {"b2b", 11.76, 1000}, {"rag", 47.85, 4000},    {"agent", 25.86, 1500},
        {"hot", 51.21, 1500}, {"stress", 148.5, 4000},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct lab_options options = setting(rows[i].kind, 4, rows[i].rate, rows[i].requests);
        struct figures warm = run(&options, "warm");
        struct best best = best_of_peers(&options);
        CHECK(best.ttft > warm.ttft.mean * 0.95);
        CHECK(best.e2e > warm.e2e.mean * 0.95);
    }
}
