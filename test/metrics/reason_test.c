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

// A backend as it was known, with its name.
struct candidate {
    const char *url;
    struct decision_party party;
};

static struct candidate party(const char *url, uint32_t expected, uint64_t queued, double ms)
{
    return (struct candidate){.url = url,
                              .party = {.expected_tokens = expected,
                                        .queued_tokens = queued,
                                        .prefill_ms = (float)ms,
                                        .by_events = true,
                                        .cost = NAN}};
}

static struct decision decision;

static struct reason by_warm(uint32_t prompt_tokens, struct candidate chosen)
{
    decision =
        (struct decision){.policy = &policy_warm, .candidate_count = 2, .chosen = chosen.party};
    return (struct reason){.decision = &decision,
                           .prompt_tokens = prompt_tokens,
                           .attempts = 1,
                           .url = slice_str(chosen.url)};
}

static const char *against(struct reason reason, struct candidate rival)
{
    reason_add_rival(&reason, &rival.party, slice_str(rival.url));
    return written(&reason);
}

TEST(the_cache_that_decides_is_named_and_so_is_the_next_best)
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

TEST(without_events_the_holding_is_believed)
{
    struct reason reason = by_warm(978, party("http://a", 960, 1, 0.4));
    decision.chosen.by_events = false;
    CHECK_STR(against(reason, party("http://b", 0, 1, 12345)),
              "warm chose http://a, which is believed to hold 960 of 978 prompt tokens and has 1 "
              "token queued: first token in under 1 ms; the next best, http://b, holds none of "
              "them and would take about 12 s.");
}

TEST(a_fuller_cache_is_named_with_the_argument_against_it)
{
    struct reason reason = by_warm(978, party("http://a", 64, 0, 28));
    CHECK_STR(against(reason, party("http://b", 900, 40000, 1200)),
              "warm chose http://a, which holds 64 of 978 prompt tokens and has nothing queued: "
              "first token in about 28 ms; http://b holds more (900) but has 40,000 tokens queued "
              "and would take about 1.2 s.");
    struct candidate busy = party("http://b", 900, 0, (double)NAN);
    busy.party.running_requests = 12;
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
    decision.chosen.expected_tokens = 0;
    CHECK_STR(against(reason, party("", 900, 7, 31)),
              "warm chose http://a, which holds none of the 978 prompt tokens and has nothing "
              "queued: first token in about 28 ms; a backend that has left holds more (900) but "
              "has 7 tokens queued and would take about 31 ms.");
}

TEST(without_any_cached_prefix_the_load_decides)
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

TEST(the_only_candidate_is_called_that)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    decision.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 960 of 978 prompt tokens and "
              "has nothing queued: first token in about 4 ms.");
    decision.chosen.expected_tokens = 0;
    decision.chosen.prefill_ms = NAN;
    CHECK_STR(written(&reason), "The only candidate holds none of the 978 prompt tokens: warm "
                                "chose http://a, which has nothing queued.");
}

TEST(earlier_attempts_are_counted)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    decision.candidate_count = 1;
    reason.attempts = 2;
    CHECK_STR(written(&reason),
              "After 1 attempt elsewhere, warm chose http://a, the only candidate, which holds 960 "
              "of 978 prompt tokens and has nothing queued: first token in about 4 ms.");
    decision.chosen.expected_tokens = 0;
    reason.attempts = 3;
    CHECK_STR(written(&reason),
              "The only candidate holds none of the 978 prompt tokens: after 2 attempts elsewhere, "
              "warm chose http://a, which has nothing queued: first token in about 4 ms.");
}

TEST(a_policy_that_ignores_prompts_says_so)
{
    struct reason reason = by_warm(978, party("http://a", 0, 0, (double)NAN));
    decision.policy = &policy_round_robin;
    decision.candidate_count = 3;
    CHECK_STR(written(&reason), "round_robin chose http://a, one of 3 candidates, without a look "
                                "at the prompt; it was running nothing else.");
    decision.chosen.running_requests = 1;
    decision.candidate_count = 1;
    reason.attempts = 2;
    CHECK_STR(written(&reason),
              "After 1 attempt elsewhere, round_robin chose http://a, the only candidate, without "
              "a look at the prompt; it was running 1 other request.");
}

TEST(without_a_decision_it_says_why)
{
    static const struct decision none;
    CHECK_STR(written(&(struct reason){.decision = &none, .problem = "model_not_found"}),
              "No backend was chosen: the router responded model_not_found.");
    CHECK_STR(written(&(struct reason){.decision = &none, .is_local = true}),
              "No backend was chosen: the router responded itself.");
    CHECK_STR(written(&(struct reason){.decision = &none}),
              "No backend was chosen: the request ended before.");
}

TEST(the_cheapest_rival_is_next_and_without_costs_the_fastest)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    struct candidate rivals[] = {party("http://b", 10, 0, 30), party("http://c", 500, 0, 20),
                                 party("http://d", 20, 0, 20), party("http://e", 0, 0, NAN)};
    for (int i = 0; i < 4; i++) {
        reason_add_rival(&reason, &rivals[i].party, slice_str(rivals[i].url));
    }
    CHECK(slice_is(reason.next.url, "http://c"));
    CHECK(slice_is(reason.fullest.url, "http://c"));
    struct candidate cheap = party("http://f", 0, 0, 90);
    cheap.party.cost = 100;
    reason_add_rival(&reason, &cheap.party, slice_str("http://f"));
    CHECK(slice_is(reason.next.url, "http://f"));
    reason_add_rival(&reason, &cheap.party, slice_str("http://g"));
    CHECK(slice_is(reason.next.url, "http://f"));
    CHECK(slice_is(reason.fullest.url, "http://c"));
}

TEST(the_tokens_held_never_exceed_the_prompt)
{
    struct reason reason = by_warm(950, party("http://a", 960, 0, 4));
    decision.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 950 of 950 prompt tokens and "
              "has nothing queued: first token in about 4 ms.");
}

TEST(digits_are_grouped_in_threes)
{
    struct reason reason = by_warm(1000, party("http://a", 1000, 1234056007, 4));
    decision.candidate_count = 1;
    CHECK_STR(written(&reason),
              "warm chose http://a, the only candidate, which holds 1,000 of 1,000 prompt tokens "
              "and has 1,234,056,007 tokens queued: first token in about 4 ms.");
}

TEST(a_sentence_that_does_not_fit_overflows)
{
    struct reason reason = by_warm(978, party("http://a", 960, 0, 4));
    struct text out = text_over(sentence, 40);
    reason_write(&reason, &out);
    CHECK(out.overflow);
}
