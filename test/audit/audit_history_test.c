// SPDX-License-Identifier: Apache-2.0

#include "audit/audit_history.h"

#include "test.h"

static void note(struct audit_history *history, uint64_t at_ms, const char *text)
{
    struct audit_page page = {.at_ms = at_ms};
    engine_counters_read(slice_str(text), &page.counters);
    audit_history_note(history, &page);
}

static struct audit_replica span_of(const struct audit_history *history, enum audit_span span)
{
    struct audit_replica replica = {.name = "kept"};
    audit_history_span(history, span, 1000, &replica);
    ASSERT(strcmp(replica.name, "kept") == 0);
    return replica;
}

static double prompt_of(const struct audit_history *history, enum audit_span span)
{
    return span_of(history, span).done.values[COUNTER_PROMPT];
}

TEST(one_page_covers_only_the_time_since_the_start)
{
    struct audit_history history = {0};
    note(&history, 5000, "vllm:prompt_tokens_total 100\nprocess_start_time_seconds 400\n");
    CHECK_STR(span_of(&history, AUDIT_LAST).why, "it was read only once");
    CHECK_STR(span_of(&history, AUDIT_WHOLE).why, "it was read only once");
    CHECK(span_of(&history, AUDIT_EVER).why == NULL);
    CHECK(prompt_of(&history, AUDIT_EVER) == 100);
    CHECK(span_of(&history, AUDIT_EVER).span_s == 600);
}

TEST(when_an_engine_started_may_not_be_known)
{
    struct audit_history history = {0};
    note(&history, 5000, "vllm:prompt_tokens_total 100\n");
    CHECK(span_of(&history, AUDIT_EVER).span_s == -1);
    note(&history, 5000, "vllm:prompt_tokens_total 100\nprocess_start_time_seconds 2000\n");
    CHECK(span_of(&history, AUDIT_EVER).span_s == -1);
}

TEST(the_last_interval_differs_from_the_whole_audit)
{
    struct audit_history history = {0};
    note(&history, 1000, "vllm:prompt_tokens_total 100\n");
    note(&history, 2000, "vllm:prompt_tokens_total 150\n");
    note(&history, 4000, "vllm:prompt_tokens_total 180\n");
    CHECK(prompt_of(&history, AUDIT_LAST) == 30);
    CHECK(prompt_of(&history, AUDIT_WHOLE) == 80);
    CHECK(prompt_of(&history, AUDIT_EVER) == 180);
    CHECK(span_of(&history, AUDIT_LAST).span_s == 2);
    CHECK(span_of(&history, AUDIT_WHOLE).span_s == 3);
}

TEST(a_page_that_cannot_be_read_leaves_a_gap)
{
    struct audit_history history = {0};
    note(&history, 1000, "vllm:prompt_tokens_total 100\n");
    note(&history, 2000, "vllm:prompt_tokens_total 150\n");
    audit_history_fail(&history, "timed out");
    CHECK_STR(span_of(&history, AUDIT_LAST).why, "timed out");
    CHECK(prompt_of(&history, AUDIT_WHOLE) == 50);
    note(&history, 4000, "vllm:prompt_tokens_total 180\n");
    CHECK(prompt_of(&history, AUDIT_LAST) == 30);
    CHECK(span_of(&history, AUDIT_LAST).span_s == 2);
}

TEST(a_replica_that_was_never_read_has_the_reason)
{
    struct audit_history history = {0};
    audit_history_fail(&history, "timed out");
    CHECK_STR(span_of(&history, AUDIT_LAST).why, "timed out");
    CHECK_STR(span_of(&history, AUDIT_WHOLE).why, "timed out");
    CHECK_STR(span_of(&history, AUDIT_EVER).why, "timed out");
    CHECK(prompt_of(&history, AUDIT_EVER) == -1);
}

TEST(after_a_restart_everything_begins_there)
{
    struct audit_history history = {0};
    note(&history, 1000, "vllm:prompt_tokens_total 100\n");
    note(&history, 2000, "vllm:prompt_tokens_total 40\n");
    CHECK(span_of(&history, AUDIT_LAST).restarted && prompt_of(&history, AUDIT_LAST) == 40);
    note(&history, 3000, "vllm:prompt_tokens_total 500\n");
    CHECK(!span_of(&history, AUDIT_LAST).restarted && prompt_of(&history, AUDIT_LAST) == 460);
    CHECK(span_of(&history, AUDIT_WHOLE).restarted && prompt_of(&history, AUDIT_WHOLE) == 500);
}

TEST(a_page_without_counters_counts_once_they_appear)
{
    struct audit_history history = {0};
    note(&history, 1000, "sglang:num_running_reqs 0\n");
    note(&history, 2000, "sglang:num_running_reqs 0\n");
    CHECK_STR(span_of(&history, AUDIT_LAST).why, "its page says nothing of prompts");
    note(&history, 3000, "sglang:prompt_tokens_total 7\n");
    CHECK(prompt_of(&history, AUDIT_LAST) == 7);
}

TEST(an_engine_that_lists_no_steps_has_taken_no_steps)
{
    static const char steps[] =
        "[{\"kvCacheStats\":{\"reusedBlocks\":1,\"missedBlocks\":1,\"tokensPerBlock\":32}}]";
    struct audit_history history = {0};
    note(&history, 1000, "[]");
    note(&history, 2000, "[]");
    CHECK_STR(span_of(&history, AUDIT_LAST).why, "it lists no steps");
    note(&history, 3000, steps);
    note(&history, 4000, "[]");
    CHECK(prompt_of(&history, AUDIT_LAST) == 0);
    CHECK(prompt_of(&history, AUDIT_EVER) == 64);
}
