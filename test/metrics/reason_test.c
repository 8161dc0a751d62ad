// SPDX-License-Identifier: Apache-2.0

#include "metrics/reason.h"

#include "test.h"

#include <math.h>

static char sentence[1024];

static const char *written(const struct reason *reason)
{
    struct text out = text_over(sentence, sizeof(sentence) - 1);
    reason_write(reason, &out);
    ASSERT(!out.overflow);
    sentence[out.size] = '\0';
    return sentence;
}

static struct reason_party party(const char *url, uint32_t expected, uint64_t queued, double ms)
{
    return (struct reason_party){.url = slice_str(url),
                                 .expected_tokens = expected,
                                 .queued_tokens = queued,
                                 .predicted_ms = ms,
                                 .cost = (double)NAN};
}

static struct reason by_warm(uint32_t prompt_tokens, struct reason_party chosen)
{
    return (struct reason){.policy = "warm",
                           .reads_prompt = true,
                           .by_events = true,
                           .prompt_tokens = prompt_tokens,
                           .candidate_count = 2,
                           .attempts = 1,
                           .chosen = chosen};
}

static const char *against(struct reason reason, struct reason_party rival)
{
    reason_add_rival(&reason, &rival);
    return written(&reason);
}

TEST(a_cache_that_decides_is_named_and_so_is_the_next_best)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    CHECK_STR(against(reason, party("http://b", 0, 0, 30)),
              "warm chose http://a, which holds 960 of 978 prompt tokens and has nothing queued: "
              "first token in about 4 ms; the next best, http://b, holds none of them and would "
              "take about 30 ms.");
    CHECK_STR(against(reason, party("http://b", 480, 0, 17)),
              "warm chose http://a, which holds 960 of 978 prompt tokens and has nothing queued: "
              "first token in about 4 ms; the next best, http://b, holds 480 of them and would "
              "take about 17 ms.");
    CHECK_STR(against(reason, party("http://b", 960, 40000, 1234)),
              "warm chose http://a, which holds 960 of 978 prompt tokens and has nothing queued: "
              "first token in about 4 ms; the next best, http://b, holds as many, has 40,000 "
              "tokens queued and would take about 1.2 s.");
}

TEST(what_is_not_told_by_events_is_believed)
{
    struct reason reason = by_warm(978, party("http://a", 960, 1, 0.4));
    reason.by_events = false;
    CHECK_STR(against(reason, party("http://b", 0, 1, 12345)),
              "warm chose http://a, which is believed to hold 960 of 978 prompt tokens and has 1 "
              "token queued: first token in under 1 ms; the next best, http://b, holds none of "
              "them and would take about 12 s.");
}

TEST(a_cache_that_lost_is_named_with_what_it_lost_to)
{
    struct reason reason = by_warm(978, party("http://a", 64, 0, 28));
    CHECK_STR(against(reason, party("http://b", 900, 40000, 1200)),
              "warm chose http://a, which holds 64 of 978 prompt tokens and has nothing queued: "
              "first token in about 28 ms; http://b holds more (900) but has 40,000 tokens queued "
              "and would take about 1.2 s.");
    struct reason_party busy = party("http://b", 900, 0, (double)NAN);
    busy.running_requests = 12;
    CHECK_STR(against(reason, busy),
              "warm chose http://a, which holds 64 of 978 prompt tokens and has nothing queued: "
              "first token in about 28 ms; http://b holds more (900) but runs 12 requests.");
    CHECK_STR(against(reason, party("http://b", 900, 0, 31)),
              "warm chose http://a, which holds 64 of 978 prompt tokens and has nothing queued: "
              "first token in about 28 ms; http://b holds more (900) but would take about 31 ms.");
    CHECK_STR(against(reason, party("http://b", 900, 0, 3)),
              "warm chose http://a, which holds 64 of 978 prompt tokens and has nothing queued: "
              "first token in about 28 ms; http://b holds more (900) but lost by warm's own "
              "measure.");
    reason.chosen.expected_tokens = 0;
    CHECK_STR(against(reason, party("", 900, 7, 31)),
              "warm chose http://a, which holds none of the 978 prompt tokens and has nothing "
              "queued: first token in about 28 ms; a backend that is gone holds more (900) but "
              "has 7 tokens queued and would take about 31 ms.");
}

TEST(where_nobody_holds_anything_the_load_decides)
{
    struct reason reason = by_warm(978, party("http://a", 0, 0, 30));
    CHECK_STR(against(reason, party("http://b", 0, 4000, 150)),
              "No candidate holds any of the 978 prompt tokens, so warm chose http://a, which has "
              "nothing queued: first token in about 30 ms; the next best, http://b, has 4,000 "
              "tokens queued and would take about 150 ms.");
    CHECK_STR(against(reason, party("http://b", 0, 0, 30)),
              "No candidate holds any of the 978 prompt tokens, so warm chose http://a, which has "
              "nothing queued: first token in about 30 ms; the next best, http://b, would take "
              "about 30 ms.");
    reason.prompt_tokens = 0;
    CHECK_STR(against(reason, party("http://b", 0, 0, (double)NAN)),
              "No prompt was found in the request, so warm chose http://a, which has nothing "
              "queued: first token in about 30 ms; the next best, http://b, has nothing queued.");
}

TEST(one_candidate_is_no_choice)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    reason.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 960 of 978 prompt tokens and "
              "has nothing queued: first token in about 4 ms.");
    reason.chosen.expected_tokens = 0;
    reason.chosen.predicted_ms = (double)NAN;
    CHECK_STR(written(&reason), "The only candidate holds none of the 978 prompt tokens: warm "
                                "chose http://a, which has nothing queued.");
}

TEST(attempts_before_it_are_counted)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    reason.candidate_count = 1;
    reason.attempts = 2;
    CHECK_STR(written(&reason),
              "After 1 attempt elsewhere, warm chose http://a, the only candidate, which holds 960 "
              "of 978 prompt tokens and has nothing queued: first token in about 4 ms.");
    reason.chosen.expected_tokens = 0;
    reason.attempts = 3;
    CHECK_STR(written(&reason),
              "The only candidate holds none of the 978 prompt tokens: after 2 attempts elsewhere, "
              "warm chose http://a, which has nothing queued: first token in about 4 ms.");
}

TEST(a_policy_that_does_not_look_at_prompts_says_so)
{
    struct reason reason = {.policy = "round_robin",
                            .candidate_count = 3,
                            .attempts = 1,
                            .prompt_tokens = 978,
                            .chosen = party("http://a", 0, 0, (double)NAN)};
    CHECK_STR(written(&reason), "round_robin chose http://a, one of 3 candidates, without a look "
                                "at the prompt; it was running nothing else.");
    reason.chosen.running_requests = 1;
    reason.candidate_count = 1;
    reason.attempts = 2;
    CHECK_STR(written(&reason),
              "After 1 attempt elsewhere, round_robin chose http://a, the only candidate, without "
              "a look at the prompt; it was running 1 other request.");
}

TEST(where_nothing_was_decided_it_says_why)
{
    CHECK_STR(written(&(struct reason){.problem = "model_not_found"}),
              "No backend was chosen: the router answered model_not_found in its own name.");
    CHECK_STR(written(&(struct reason){.is_local = true}),
              "No backend was chosen: the router had the answer itself.");
    CHECK_STR(written(&(struct reason){0}), "No backend was chosen: it ended before that.");
}

TEST(of_several_rivals_the_cheapest_is_next_and_without_costs_the_fastest)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    struct reason_party rivals[] = {party("http://b", 10, 0, 30), party("http://c", 500, 0, 20),
                                    party("http://d", 20, 0, 20), party("http://e", 0, 0, NAN)};
    for (int i = 0; i < 4; i++) {
        reason_add_rival(&reason, &rivals[i]);
    }
    CHECK(slice_is(reason.next.url, "http://c"));
    CHECK(slice_is(reason.fullest.url, "http://c"));
    struct reason_party cheap = party("http://f", 0, 0, 90);
    cheap.cost = 100;
    reason_add_rival(&reason, &cheap);
    CHECK(slice_is(reason.next.url, "http://f"));
    cheap.url = slice_str("http://g");
    reason_add_rival(&reason, &cheap);
    CHECK(slice_is(reason.next.url, "http://f"));
    CHECK(slice_is(reason.fullest.url, "http://c"));
}

TEST(nobody_holds_more_than_all)
{
    struct reason reason = by_warm(950, party("http://a", 960, 0, 4));
    reason.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 950 of 950 prompt tokens and "
              "has nothing queued: first token in about 4 ms.");
}

TEST(digits_come_in_threes)
{
    struct reason reason = by_warm(1000, party("http://a", 1000, 1234056007, 4));
    reason.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 1,000 of 1,000 prompt tokens "
              "and has 1,234,056,007 tokens queued: first token in about 4 ms.");
}

TEST(a_sentence_that_does_not_fit_is_known_not_to_be_whole)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    struct text out = text_over(sentence, 40);
    reason_write(&reason, &out);
    CHECK(out.overflow);
}
