// SPDX-License-Identifier: Apache-2.0

#include "sim/lab.h"

#include "base/base.h"
#include "test.h"

#include <math.h>
#include <string.h>

static struct profile profile;

static struct lab_options options_of(const char *kind, const char *policy)
{
    ASSERT(profile_find("llama-3.1-8b", &profile));
    return (struct lab_options){.profile = &profile,
                                .policy = policy_find(policy),
                                .backend_count = 4,
                                .workload = {.kind = kind, .rate = 8, .requests = 600, .seed = 3},
                                .seed = 5,
                                .scrape_ms = 1000,
                                .warm_up = 0.2};
}

static struct lab_result run(const struct lab_options *options)
{
    char error[lab_error_size];
    struct lab_result result;
    ASSERT(lab_run(options, &result, error));
    return result;
}

TEST(the_same_options_give_the_same_result_bit_for_bit)
{
    struct lab_options options = options_of("rag", "warm");
    struct lab_result one = run(&options);
    struct lab_result other = run(&options);
    CHECK(one.step_count == other.step_count);
    for (int i = 0; i < figure_curve_points; i++) {
        CHECK(one.figures.ttft_curve[i] == other.figures.ttft_curve[i]);
    }
    CHECK(one.figures.e2e.mean == other.figures.e2e.mean);
    CHECK(one.figures.tpot.p99 == other.figures.tpot.p99);
    CHECK(one.figures.hit_rate == other.figures.hit_rate);
    CHECK(one.figures.balance == other.figures.balance);
    options.workload.seed = 4;
    other = run(&options);
    CHECK(one.figures.ttft.mean != other.figures.ttft.mean);
}

TEST(every_request_completes_and_those_after_the_warm_up_count)
{
    struct lab_options options = options_of("agent", "warm");
    struct lab_result result = run(&options);
    CHECK_EQ(result.figures.failed_count, 0);
    CHECK_EQ(result.figures.request_count, 480);
    CHECK(result.figures.ttft.mean > 0);
    CHECK(result.figures.e2e.mean > result.figures.ttft.mean);
}

TEST(a_policy_that_looks_at_prompts_finds_them_where_round_robin_does_not)
{
    struct lab_options options = options_of("b2b", "warm");
    double warm = run(&options).figures.hit_rate;
    options.policy = policy_find("round_robin");
    double blind = run(&options).figures.hit_rate;
    double bound;
    char error[lab_error_size];
    CHECK(lab_bound(&options, &bound, error));
    CHECK(warm > blind + 0.1);
    CHECK(warm <= bound + 0.01);
}

TEST(affinity_is_full_on_one_backend_and_by_chance_on_four)
{
    struct lab_options options = options_of("sharing", "random");
    double spread = run(&options).figures.affinity;
    CHECK(fabs(spread - 0.25) < 0.06);
    options.backend_count = 1;
    CHECK(run(&options).figures.affinity == 1);
    options.workload.kind = "unique";
    CHECK(run(&options).figures.affinity == 0);
}

TEST(requests_in_flight_when_time_is_up_have_failed)
{
    struct lab_options options = options_of("b2b", "warm");
    options.limit_s = 20;
    struct lab_result result = run(&options);
    CHECK(result.figures.failed_count > 0);
    CHECK(result.virtual_s < 21);
}

TEST(a_request_that_no_engine_can_hold_fails_alone)
{
    struct lab_options options = options_of("b2b", "warm");
    profile.context_max = 8300; // of about 8,200
    struct lab_result result = run(&options);
    CHECK(result.figures.failed_count < 600);
    CHECK(result.figures.request_count > 0 || result.figures.failed_count > 0);
}

TEST(the_router_may_cut_prompts_into_other_blocks_than_the_engine)
{
    struct lab_options options = options_of("b2b", "warm");
    double usual = run(&options).figures.hit_rate;
    options.router_block_tokens = 50;
    CHECK(fabs(run(&options).figures.hit_rate - usual) < 0.05);
}

TEST(a_backend_that_leaves_ends_its_requests_and_gets_no_more)
{
    static const struct lab_change leave = {.kind = LAB_LEAVE, .number = 2, .at_s = 20};
    struct lab_options options = options_of("unique", "warm");
    options.changes = &leave;
    options.change_count = 1;
    struct lab_result result = run(&options);
    CHECK_EQ(result.figures.failed_count, 0);
    CHECK(result.changes[0].share[2] == 0);
    CHECK(result.figures.request_balance > 1.1);
}

TEST(a_backend_that_joins_serves)
{
    static const struct lab_change changes[] = {{.kind = LAB_JOIN, .number = 3, .at_s = 20},
                                                {.kind = LAB_LEAVE, .number = 1, .at_s = 20}};
    struct lab_options options = options_of("unique", "round_robin");
    options.changes = changes;
    options.change_count = 2;
    struct lab_result result = run(&options);
    CHECK_EQ(result.figures.failed_count, 0);
    for (int w = 0; w < lab_change_windows; w++) {
        CHECK(fabs(result.changes[0].share[w] - 1) < 0.1);
    }
}

TEST(a_slow_backend_takes_as_many_times_as_long_while_it_is)
{
    struct lab_change slow = {.kind = LAB_SLOW, .number = 1, .factor = 3, .until_s = 1000};
    struct lab_options options = options_of("unique", "round_robin");
    options.backend_count = 1;
    options.workload.rate = 0.1; // one at a time
    options.workload.requests = 50;
    double usual = run(&options).figures.ttft.mean;
    options.changes = &slow;
    options.change_count = 1;
    CHECK(fabs(run(&options).figures.ttft.mean / usual - 3) < 0.1);
    slow.at_s = 500;
    slow.until_s = 500.5;
    CHECK(fabs(run(&options).figures.ttft.mean / usual - 1) < 0.05);
}

static struct lab_options options_of_routers(uint32_t count, uint32_t sync_ms)
{
    struct lab_options options = options_of("rag", "warm");
    options.workload.rate = 40;
    options.workload.requests = 2500;
    options.sharing = (struct lab_sharing){.router_count = count, .sync_ms = sync_ms};
    return options;
}

TEST(routers_that_share_at_once_are_as_good_as_one)
{
    struct lab_options options = options_of_routers(1, 0);
    struct figures one = run(&options).figures;
    options.sharing.router_count = 3;
    struct figures three = run(&options).figures;
    CHECK_EQ(three.failed_count, 0);
    CHECK(fabs(three.hit_rate - one.hit_rate) < 0.02);
    CHECK(fabs(three.ttft.mean / one.ttft.mean - 1) < 0.1);
    CHECK(fabs(three.e2e.mean / one.e2e.mean - 1) < 0.05);
}

TEST(routers_that_share_nothing_hit_less_and_those_that_share_late_lie_between)
{
    struct lab_options options = options_of_routers(3, 0);
    struct figures at_once = run(&options).figures;
    options.sharing.sync_ms = 1000;
    struct figures late = run(&options).figures;
    options.sharing.sync_ms = lab_sync_never_ms;
    struct figures never = run(&options).figures;
    CHECK(never.hit_rate < at_once.hit_rate - 0.05);
    CHECK(never.hit_rate < late.hit_rate - 0.04);
    CHECK(never.ttft.mean > at_once.ttft.mean * 1.2);
    CHECK(late.ttft.p99 > at_once.ttft.p99);
}

TEST(losses_cost_less_than_silence_and_all_lost_is_silence)
{
    struct lab_options options = options_of_routers(3, 20);
    options.sharing.loss = 0.1;
    double some = run(&options).figures.hit_rate;
    options.sharing.loss = 1;
    double all = run(&options).figures.hit_rate;
    options.sharing.sync_ms = lab_sync_never_ms;
    double never = run(&options).figures.hit_rate;
    CHECK(some > never + 0.04);
    CHECK(fabs(all - never) < 0.02);
}

TEST(several_routers_give_the_same_result_bit_for_bit)
{
    static const struct lab_change changes[] = {{.kind = LAB_JOIN, .number = 1, .at_s = 20},
                                                {.kind = LAB_LEAVE, .number = 1, .at_s = 30}};
    struct lab_options options = options_of_routers(4, 20);
    options.sharing.loss = 0.1;
    options.changes = changes;
    options.change_count = 2;
    struct lab_result one = run(&options);
    struct lab_result other = run(&options);
    CHECK_EQ(one.figures.failed_count, 0);
    CHECK(one.step_count == other.step_count);
    CHECK(one.figures.e2e.mean == other.figures.e2e.mean);
    CHECK(one.figures.hit_rate == other.figures.hit_rate);
    for (int i = 0; i < figure_curve_points; i++) {
        CHECK(one.figures.ttft_curve[i] == other.figures.ttft_curve[i]);
    }
    CHECK(one.changes[0].share[2] > 0);
    CHECK(one.changes[1].share[2] == 0);
}

TEST(users_of_one_router_keep_their_sessions_without_sharing)
{
    struct lab_options options = options_of("chat", "warm");
    options.workload.rate = 0;
    options.workload.users = 60;
    options.workload.requests = 1500;
    options.sharing = (struct lab_sharing){.router_count = 4, .sync_ms = lab_sync_never_ms};
    double random = run(&options).figures.hit_rate;
    options.sharing.spread = LAB_SPREAD_CLIENT;
    CHECK(run(&options).figures.hit_rate > random + 0.05);
}

TEST(a_change_that_is_impossible_fails_the_run)
{
    static const struct lab_change leave = {.name = "leave:5@1s", .kind = LAB_LEAVE, .number = 5};
    struct lab_options options = options_of("unique", "warm");
    struct lab_result result;
    char error[lab_error_size] = "";
    options.changes = &leave;
    options.change_count = 1;
    CHECK(!lab_run(&options, &result, error));
    CHECK_STR(error, "leave:5@1s: there are backends 1 to 4 then");
}

TEST(an_unknown_workload_is_refused_with_its_name)
{
    struct lab_options options = options_of("tea", "warm");
    struct lab_result result;
    char error[lab_error_size] = "";
    CHECK(!lab_run(&options, &result, error));
    CHECK(strstr(error, "tea") != NULL);
}
