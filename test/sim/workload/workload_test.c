// SPDX-License-Identifier: Apache-2.0

#include "sim/workload/workload.h"

#include "base/hash.h"
#include "sim/workload/mooncake.h"
#include "test.h"
#include "workload_driver.h"

#include <math.h>

// A cache that never forgets: a plain set of keys.
struct key_set {
    uint64_t *slots; // 0: free
    uint32_t mask;
    uint32_t count;
};

static void set_init(struct key_set *set)
{
    *set = (struct key_set){.mask = (1U << 22) - 1};
    set->slots = calloc((size_t)set->mask + 1, sizeof(*set->slots));
    ASSERT(set->slots != NULL);
}

// Whether it was there before.
static bool set_add(struct key_set *set, uint64_t key)
{
    uint32_t at = (uint32_t)key & set->mask;
    for (; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (set->slots[at] == key) {
            return true;
        }
    }
    ASSERT(set->count++ < set->mask / 2);
    set->slots[at] = key;
    return false;
}

enum { block_tokens = 16, key_max = 1 << 14 };

// The items of a run.
struct tally {
    struct key_set cache;
    bool counts_hits;
    double requests;
    double sessions;
    double hit_tokens;
    double prompt_tokens;
    double output_tokens;
    uint64_t last_us;
    uint64_t digest; // of everything in order
};

static void tally_taken(void *owner, const struct work_item *item)
{
    static uint64_t keys[key_max];
    struct tally *tally = owner;
    tally->requests++;
    tally->sessions += item->turn == 0;
    tally->prompt_tokens += item->prompt_tokens;
    tally->output_tokens += item->output_tokens;
    tally->last_us = item->due_us;
    for (uint32_t i = 0; i <= item->piece_count; i++) {
        tally->digest = hash_pair(tally->digest + item->due_us, item->pieces[i].id);
        tally->digest += item->pieces[i].tokens;
    }
    if (tally->counts_hits) {
        uint32_t count = content_keys(item->pieces, item->piece_count, block_tokens, keys, key_max);
        bool is_hit = true;
        for (uint32_t i = 0; i < count; i++) {
            bool was_there = set_add(&tally->cache, keys[i]);
            is_hit = is_hit && was_there;
            tally->hit_tokens += is_hit ? block_tokens : 0;
        }
    }
}

// The answer is cached too.
static void tally_done(void *owner, const struct work_item *item, uint64_t now_us)
{
    static uint64_t keys[key_max];
    struct tally *tally = owner;
    (void)now_us;
    if (tally->counts_hits) {
        uint32_t count =
            content_keys(item->pieces, item->piece_count + 1, block_tokens, keys, key_max);
        for (uint32_t i = 0; i < count; i++) {
            (void)set_add(&tally->cache, keys[i]);
        }
    }
}

static bool run(const struct workload_options *options, uint64_t token_us, struct tally *tally)
{
    char error[workload_error_size];
    struct workload *workload = workload_create(options, error);
    if (workload == NULL) {
        printf("# %s\n", error);
        return false;
    }
    struct workload_driver driver = {.owner = tally,
                                     .taken = tally_taken,
                                     .done = tally_done,
                                     .first_us = 200000,
                                     .token_us = token_us};
    driver_run(&driver, workload);
    workload_destroy(&workload);
    return true;
}

static double rate_of(const struct tally *tally)
{
    return tally->requests / ((double)tally->last_us / 1e6);
}

TEST(every_kind_comes_at_the_rate_that_was_asked_for)
{
    const char *name = NULL;
    for (uint32_t i = 0; (name = workload_kind_name(i)) != NULL; i++) {
        struct workload_options options = {.kind = name, .rate = 20, .requests = 10000, .seed = 3};
        struct tally tally = {0};
        CHECK(run(&options, 10000, &tally));
        CHECK_EQ(tally.requests, 10000);
        // The standard error of single requests is 1%, that of 500 sessions 5%.
        bool is_single = tally.sessions == tally.requests;
        CHECK(fabs(rate_of(&tally) / 20 - 1) < (is_single ? 0.03 : 0.1));
    }
}

TEST(the_rate_is_there_from_the_start)
{
    static const char *const kinds[] = {"chat", "agent"};
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        // 20 s, in which no session comes to its end.
        struct workload_options options = {
            .kind = kinds[i], .rate = 100, .requests = 2000, .seed = 3};
        struct tally tally = {0};
        CHECK(run(&options, 10000, &tally));
        printf("# %s %.1f requests/s of 100\n", kinds[i], rate_of(&tally));
        CHECK(fabs(rate_of(&tally) / 100 - 1) < 0.1);
    }
}

// The hit rate of an infinite cache, and the mean number of tokens.  b2b, rag, agent and hot
// had 0.796, 0.749, 0.957 and 0.700 in the study.
static const struct {
    const char *kind;
    uint32_t requests;
    double hit_rate;
    double prompt_tokens;
    double output_tokens;
} expected[] = {
    {"b2b", 3400, 0.796, 7200, 1000},   {"rag", 12000, 0.760, 4400, 200},
    {"chat", 12000, 0.91, 2330, 250},   {"agent", 12000, 0.967, 18200, 150},
    {"hot", 12000, 0.707, 4500, 200},   {"unique", 12000, 0, 2000, 200},
    {"stress", 12000, 0.91, 3650, 100}, {"sharing", 12000, 0.71, 5250, 100},
};

TEST(each_kind_shares_as_much_as_it_is_said_to)
{
    for (size_t i = 0; i < ARRAY_COUNT(expected); i++) {
        struct workload_options options = {
            .kind = expected[i].kind, .rate = 10, .requests = expected[i].requests, .seed = 1};
        struct tally tally = {.counts_hits = true};
        set_init(&tally.cache);
        bool has_run = run(&options, 10000, &tally);
        free(tally.cache.slots);
        CHECK(has_run);
        double hit_rate = tally.hit_tokens / tally.prompt_tokens;
        double prompt_tokens = tally.prompt_tokens / tally.requests;
        double output_tokens = tally.output_tokens / tally.requests;
        printf("# %-8s hits %.3f, tokens in %.0f, out %.0f, turns %.2f\n", expected[i].kind,
               hit_rate, prompt_tokens, output_tokens, tally.requests / tally.sessions);
        CHECK(fabs(hit_rate - expected[i].hit_rate) < 0.01);
        CHECK(fabs(prompt_tokens / expected[i].prompt_tokens - 1) < 0.02);
        CHECK(fabs(output_tokens / expected[i].output_tokens - 1) < 0.02);
    }
}

TEST(the_same_seed_makes_the_same_requests)
{
    const char *name = NULL;
    for (uint32_t i = 0; (name = workload_kind_name(i)) != NULL; i++) {
        struct workload_options options = {.kind = name, .rate = 20, .requests = 2000, .seed = 3};
        struct tally one = {0};
        struct tally same = {0};
        struct tally other = {0};
        CHECK(run(&options, 10000, &one));
        CHECK(run(&options, 10000, &same));
        options.seed = 4;
        CHECK(run(&options, 10000, &other));
        CHECK(one.digest == same.digest);
        CHECK(one.digest != other.digest);
    }
}

TEST(single_requests_at_a_rate_do_not_depend_on_their_responses)
{
    struct workload_options options = {.kind = "rag", .rate = 20, .requests = 2000, .seed = 3};
    struct tally fast = {0};
    struct tally slow = {0};
    CHECK(run(&options, 10000, &fast));
    CHECK(run(&options, 70000, &slow));
    CHECK(fast.digest == slow.digest);
}

// A sum over all turns of all sessions that does not depend on their order.
struct said {
    uint64_t sum;
    uint32_t turns;
    uint32_t watched; // turns below it
};

static void add_said(void *owner, const struct work_item *item)
{
    struct said *said = owner;
    // Short sessions and early turns are over in either run.
    if (item->turn < said->watched && item->due_us < 60000000) {
        uint64_t digest = hash_pair(item->session, item->turn);
        for (uint32_t i = 0; i <= item->piece_count; i++) {
            digest = hash_pair(digest + item->pieces[i].id, item->pieces[i].tokens);
        }
        said->sum += digest;
        said->turns++;
    }
}

TEST(the_order_of_completions_changes_times_and_not_prompts)
{
    char error[workload_error_size];
    struct said said[2] = {{.watched = 1}, {.watched = 1}};
    for (uint64_t i = 0; i < 2; i++) {
        struct workload_options options = {
            .kind = "agent", .rate = 50, .requests = 9000, .seed = 3};
        struct workload *workload = workload_create(&options, error);
        CHECK(workload != NULL);
        struct workload_driver driver = {.owner = &said[i],
                                         .taken = add_said,
                                         .first_us = 100000 + 900000 * i,
                                         .token_us = 1000 + 12000 * i};
        driver_run(&driver, workload);
        workload_destroy(&workload);
    }
    CHECK(said[0].turns > 200);
    CHECK_EQ(said[0].turns, said[1].turns);
    CHECK(said[0].sum == said[1].sum);
}

// Of a closed loop: who is waiting for an answer, and when the last one came.
struct loop_watch {
    uint32_t out;
    uint32_t out_max;
    struct {
        uint64_t session;
        bool is_out;
        uint32_t turns;
    } talks[4096];
    uint32_t talk_count;
    bool is_broken; // a session had two requests at once, or a turn was left out
};

static void watch_taken(void *owner, const struct work_item *item)
{
    struct loop_watch *watch = owner;
    uint32_t i = 0;
    watch->out++;
    watch->out_max = watch->out > watch->out_max ? watch->out : watch->out_max;
    while (i < watch->talk_count && watch->talks[i].session != item->session) {
        i++;
    }
    if (i == watch->talk_count) {
        ASSERT(watch->talk_count++ < ARRAY_COUNT(watch->talks));
        watch->talks[i].session = item->session;
    }
    watch->is_broken |= watch->talks[i].is_out || watch->talks[i].turns != item->turn;
    watch->talks[i].is_out = true;
    watch->talks[i].turns++;
}

static void watch_done(void *owner, const struct work_item *item, uint64_t now_us)
{
    struct loop_watch *watch = owner;
    (void)now_us;
    watch->out--;
    for (uint32_t i = 0; i < watch->talk_count; i++) {
        if (watch->talks[i].session == item->session) {
            watch->talks[i].is_out = false;
        }
    }
}

static bool watch_run(const struct workload_options *options, struct loop_watch *watch)
{
    char error[workload_error_size];
    struct workload *workload = workload_create(options, error);
    struct workload_driver driver = {.owner = watch,
                                     .taken = watch_taken,
                                     .done = watch_done,
                                     .first_us = 10000000, // so that all wait at the same time
                                     .token_us = 10000};
    if (workload == NULL) {
        return false;
    }
    driver_run(&driver, workload);
    workload_destroy(&workload);
    return true;
}

TEST(a_session_never_has_two_requests_at_once_and_leaves_out_no_turn)
{
    static struct loop_watch watch;
    struct workload_options options = {.kind = "agent", .users = 25, .requests = 3000, .seed = 3};
    CHECK(watch_run(&options, &watch));
    CHECK(!watch.is_broken);
    CHECK_EQ(watch.out_max, 25);
    CHECK(watch.talk_count > 100);

    watch = (struct loop_watch){0};
    options = (struct workload_options){.kind = "chat", .rate = 20, .requests = 3000, .seed = 3};
    CHECK(watch_run(&options, &watch));
    CHECK(!watch.is_broken);
    CHECK(watch.out_max > 100);
}

TEST(so_many_users_have_so_many_requests_out_at_most)
{
    char error[workload_error_size];
    struct workload_options options = {.kind = "stress", .users = 30, .requests = 3000, .seed = 3};
    struct workload *workload = workload_create(&options, error);
    struct work_item items[31];
    uint64_t at_us = 0;
    uint32_t taken = 0;

    CHECK(workload != NULL);
    while (workload_peek(workload, &at_us)) {
        CHECK(taken < 30);
        CHECK(at_us <= 2000000); // they begin within the time that they think
        workload_take(workload, &items[taken++]);
    }
    CHECK_EQ(taken, 30);
    CHECK(!workload_is_over(workload));

    // Each comes back half a second to two after its answer, as the same client.
    uint64_t gone = items[7].client;
    workload_done(workload, &items[7], 50000000);
    CHECK(workload_peek(workload, &at_us));
    CHECK(at_us >= 50500000 && at_us <= 52000000);
    workload_take(workload, &items[7]);
    CHECK_EQ(items[7].number, 30);
    for (uint32_t i = 0; i < 30; i++) {
        CHECK_EQ(items[i].client == gone, i == 7);
    }
    CHECK_EQ(items[7].output_tokens, 100);
    CHECK(!workload_peek(workload, &at_us));
    workload_destroy(&workload); // with requests that were never answered
}

TEST(users_send_the_next_request_after_their_think_time)
{
    struct workload_options options = {.kind = "stress", .users = 30, .requests = 6000, .seed = 3};
    struct tally tally = {0};
    CHECK(run(&options, 10000, &tally));
    // 1.2 s for the answer and 1.25 s of thinking, each.
    CHECK(fabs(rate_of(&tally) / (30 / 2.45) - 1) < 0.02);
}

// One request a second, two ids each, the first of which all share.
enum { trace_requests = 1000 };

static void make_trace(struct mooncake_trace *out)
{
    static struct mooncake_request requests[trace_requests];
    static uint64_t ids[2 * trace_requests];
    for (uint32_t i = 0; i < trace_requests; i++) {
        requests[i] = (struct mooncake_request){.at_us = 1000000 * (uint64_t)i,
                                                .input_tokens = 1000,
                                                .output_tokens = i + 1,
                                                .block_tokens = 512,
                                                .first = 2 * i,
                                                .id_count = 2};
        ids[requests[i].first] = 7;
        ids[requests[i].first + 1] = 1000 + i;
    }
    *out = (struct mooncake_trace){.requests = requests,
                                   .request_count = trace_requests,
                                   .ids = ids,
                                   .id_count = ARRAY_COUNT(ids),
                                   .span_us = requests[trace_requests - 1].at_us};
}

TEST(a_trace_comes_as_it_was_recorded)
{
    char error[workload_error_size];
    struct mooncake_trace trace;
    struct work_item item;
    uint64_t at_us = 0;
    make_trace(&trace);
    struct workload *workload = workload_create(&(struct workload_options){.trace = &trace}, error);
    for (uint32_t i = 0; i < trace_requests; i++) {
        CHECK(workload_peek(workload, &at_us));
        CHECK_EQ(at_us, trace.requests[i].at_us);
        workload_take(workload, &item);
        CHECK_EQ(item.number, i);
        CHECK_EQ(item.prompt_tokens, 1000);
        CHECK_EQ(item.output_tokens, i + 1);
        CHECK_EQ(item.piece_count, 2);
        CHECK(!workload_is_over(workload));
        workload_done(workload, &item, at_us);
    }
    CHECK(!workload_peek(workload, &at_us));
    CHECK(workload_is_over(workload));
    workload_destroy(&workload);
}

// How often each id that all requests of a copy share was seen.
struct copy_tally {
    uint64_t shared[16];
    uint32_t requests[16];
    uint32_t copies;
    uint64_t last_us;
    uint32_t seen[trace_requests + 1]; // by output_tokens
    bool is_late;                      // one came before another that is due before it
};

static void tally_copy(void *owner, const struct work_item *item)
{
    struct copy_tally *tally = owner;
    uint32_t i = 0;
    while (i < tally->copies && tally->shared[i] != item->pieces[0].id) {
        i++;
    }
    if (i == tally->copies) {
        ASSERT(tally->copies++ < ARRAY_COUNT(tally->shared));
        tally->shared[i] = item->pieces[0].id;
    }
    tally->requests[i]++;
    tally->seen[item->output_tokens]++;
    tally->is_late |= item->due_us < tally->last_us;
    tally->last_us = item->due_us;
}

static bool run_copies(const struct workload_options *options, struct copy_tally *tally)
{
    char error[workload_error_size];
    struct workload *workload = workload_create(options, error);
    struct workload_driver driver = {.owner = tally, .taken = tally_copy, .first_us = 1000};
    if (workload == NULL) {
        return false;
    }
    driver_run(&driver, workload);
    workload_destroy(&workload);
    return true;
}

TEST(a_rate_makes_copies_of_a_trace_that_share_nothing)
{
    static struct copy_tally tally;
    struct mooncake_trace trace;
    make_trace(&trace);
    CHECK(run_copies(&(struct workload_options){.trace = &trace, .rate = 4, .seed = 5}, &tally));
    CHECK_EQ(tally.copies, 4);
    CHECK(!tally.is_late);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(tally.requests[i], trace_requests);
    }
    for (uint32_t i = 1; i <= trace_requests; i++) {
        CHECK_EQ(tally.seen[i], 4);
    }
    // Copies are wrapped around, so it is as long as it was.
    CHECK(tally.last_us > 998000000 && tally.last_us < 1001000000);
}

TEST(stretched_time_makes_up_the_rate_that_whole_copies_cannot)
{
    static const struct {
        double rate;
        uint32_t copies;
        double seconds;
    } cases[] = {{0.5, 1, 2000}, {1.4, 1, 1000 / 1.4}, {1.6, 2, 2000 / 1.6}, {7.3, 7, 7000 / 7.3}};
    struct mooncake_trace trace;
    make_trace(&trace);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct copy_tally tally = {0};
        struct workload_options options = {.trace = &trace, .rate = cases[i].rate, .seed = 5};
        CHECK(run_copies(&options, &tally));
        CHECK_EQ(tally.copies, cases[i].copies);
        CHECK(fabs((double)tally.last_us / 1e6 / cases[i].seconds - 1) < 0.003);
    }
}

TEST(a_trace_is_cut_to_its_first_requests)
{
    static struct copy_tally tally;
    struct mooncake_trace trace;
    make_trace(&trace);
    struct workload_options options = {.trace = &trace, .rate = 4, .requests = 100, .seed = 5};
    CHECK(run_copies(&options, &tally));
    CHECK_EQ(tally.requests[0] + tally.requests[1] + tally.requests[2] + tally.requests[3], 100);
    CHECK(tally.last_us > 23000000 && tally.last_us < 27000000);

    // It has no more than it has.
    tally = (struct copy_tally){0};
    options = (struct workload_options){.trace = &trace, .requests = 5000};
    CHECK(run_copies(&options, &tally));
    CHECK_EQ(tally.requests[0], trace_requests);
}

TEST(users_take_the_requests_of_a_trace_in_turn)
{
    static struct copy_tally tally;
    struct mooncake_trace trace;
    make_trace(&trace);
    CHECK(run_copies(&(struct workload_options){.trace = &trace, .users = 10, .seed = 5}, &tally));
    CHECK_EQ(tally.requests[0], trace_requests);
    for (uint32_t i = 1; i <= trace_requests; i++) {
        CHECK_EQ(tally.seen[i], 1);
    }
    // 1.25 s of thinking each, and no time for the answer.
    CHECK(fabs((double)tally.last_us / 125e6 - 1) < 0.03);
}

TEST(options_that_contradict_each_other_are_refused)
{
    struct mooncake_trace trace;
    make_trace(&trace);
    struct mooncake_trace burst = trace;
    burst.span_us = 0;
    const struct {
        struct workload_options options;
        const char *error;
    } cases[] = {
        {{.kind = "b2", .rate = 1}, "unknown workload 'b2'"},
        {{.rate = 1}, "a workload is one of the built-in ones or a trace"},
        {{.kind = "b2b", .trace = &trace, .rate = 1},
         "a workload is one of the built-in ones or a trace"},
        {{.kind = "b2b"}, "a built-in workload needs a rate or a number of users"},
        {{.kind = "b2b", .rate = 1, .users = 1},
         "a rate and a number of users contradict each other"},
        {{.kind = "b2b", .rate = NAN},
         "the rate is not a number of requests/s from 0 to a million"},
        {{.kind = "b2b", .rate = -1}, "the rate is not a number of requests/s from 0 to a million"},
        {{.kind = "b2b", .users = 1000001}, "there are more than a million users"},
        {{.kind = "b2b", .rate = 1, .share = 1}, "the share is not a number from 0 to below 1"},
        {{.kind = "rag", .rate = 1, .share = 0.5}, "the share of this workload cannot be set"},
        {{.trace = &trace, .share = 0.5}, "the share of this workload cannot be set"},
        {{.trace = &trace, .rate = 20000}, "the rate is more than 10,000 times that of the trace"},
        {{.trace = &burst, .rate = 1},
         "all requests of the trace are at one time, so it has no rate"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char error[workload_error_size] = "";
        CHECK(workload_create(&cases[i].options, error) == NULL);
        CHECK_STR(error, cases[i].error);
    }
}

TEST(every_kind_has_a_name_and_a_summary)
{
    uint32_t count = 0;
    for (; workload_kind_name(count) != NULL; count++) {
        CHECK(workload_kind_summary(count) != NULL);
    }
    CHECK_EQ(count, 8);
    CHECK(workload_kind_summary(count) == NULL);
}

TEST(the_limit_is_the_wanted_number_or_that_of_the_trace)
{
    char error[workload_error_size];
    struct workload_options options = {.kind = "b2b", .rate = 20, .requests = 70};
    struct workload *workload = workload_create(&options, error);
    CHECK_EQ(workload_limit(workload), 70);
    workload_destroy(&workload);
    options.requests = 0;
    workload = workload_create(&options, error);
    CHECK_EQ(workload_limit(workload), workload_requests_default);
    workload_destroy(&workload);
}
