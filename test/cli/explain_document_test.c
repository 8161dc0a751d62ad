// SPDX-License-Identifier: Apache-2.0

#include "cli/explain_document.h"

#include "test.h"

#include <math.h>

static struct explain_document document;

static enum status read_text(const char *text)
{
    return explain_document_read(slice_str(text), &document);
}

TEST(a_document_is_read_with_its_candidates_and_records)
{
    CHECK_EQ(
        read_text("{\"summary\":\"s\",\"policy\":\"warm\",\"model\":\"m\",\"by_token_ids\":true,"
                  "\"prompt_tokens\":978,\"wait_ms\":0.5,\"prefill_ms\":4,\"backends\":["
                  "{\"url\":\"a\",\"chosen\":false,\"matched_tokens\":0,\"cost\":null,"
                  "\"truth\":{\"by_events\":null,\"believed\":null}},"
                  "{\"url\":\"b\",\"chosen\":true,\"matched_tokens\":960,\"cost\":6.25,"
                  "\"events\":\"live\",\"truth\":{\"by_events\":{\"all\":{\"count\":4,\"p1\":-16},"
                  "\"last\":{\"predicted\":64,\"actual\":80}},\"believed\":{}}}]}"),
        STATUS_OK);
    CHECK(slice_is(document.policy, "warm"));
    CHECK(document.is_counted);
    CHECK(document.wait_ms == 0.5);
    CHECK_EQ(document.candidate_count, 2);
    CHECK(!document.candidates[0].is_chosen);
    CHECK(document.candidates[0].numbers[0] == 0);
    CHECK(isnan(document.candidates[0].numbers[explain_candidate_numbers - 1]));
    CHECK_EQ(document.candidates[0].events.size, 0);
    CHECK(document.candidates[1].is_chosen);
    CHECK(document.candidates[1].numbers[0] == 960);
    CHECK(document.candidates[1].numbers[explain_candidate_numbers - 1] == 6.25);
    CHECK(slice_is(document.candidates[1].events, "live"));
    CHECK_EQ(document.record_count, 2);
    CHECK_STR(document.records[0].kind, "by_events");
    CHECK(slice_is(document.records[0].url, "b"));
    CHECK(document.records[0].numbers[0] == 4);
    CHECK(isnan(document.records[0].numbers[1]));
    CHECK(document.records[0].numbers[explain_record_numbers - 1] == 80);
    CHECK_STR(document.records[1].kind, "believed");
    explain_document_free(&document);
    CHECK(document.memory == NULL);
}

TEST(members_that_are_missing_or_of_another_kind_are_left_out)
{
    CHECK_EQ(read_text("{\"backends\":[],\"prompt_tokens\":\"many\",\"by_token_ids\":1}"),
             STATUS_OK);
    CHECK_EQ(document.candidate_count, 0);
    CHECK(isnan(document.prompt_tokens));
    CHECK(!document.is_counted);
    explain_document_free(&document);
    CHECK_EQ(read_text("{\"backends\":[1,{\"url\":2,\"truth\":[],\"matched_tokens\":1e999},[]]}"),
             STATUS_OK);
    CHECK_EQ(document.candidate_count, 1);
    CHECK_EQ(document.candidates[0].url.size, 0);
    CHECK(isnan(document.candidates[0].numbers[0]));
    CHECK_EQ(document.record_count, 0);
    explain_document_free(&document);
}

TEST(a_document_without_backends_is_refused)
{
    static const char *const texts[] = {
        "", "{}", "[]", "{\"backends\":{}}", "{\"backends\":[}", "{\"backends\":[]} x"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        CHECK_EQ(read_text(texts[i]), STATUS_MALFORMED);
    }
}

TEST(a_decision_is_read_with_the_chosen_one_before_its_rivals)
{
    CHECK_EQ(read_text("{\"why\":\"w\",\"outcome\":\"ok\",\"attempts\":2,\"status\":null,"
                       "\"backend\":{\"url\":\"a\"},\"expected_tokens\":960,\"cost\":2,"
                       "\"rivals\":[1,{\"url\":\"b\",\"expected_tokens\":5},{\"url\":null}]}"),
             STATUS_OK);
    CHECK(document.is_kept);
    CHECK(slice_is(document.summary, "w"));
    CHECK(slice_is(document.ending.outcome, "ok"));
    CHECK(document.ending.attempts == 2);
    CHECK(isnan(document.ending.status));
    CHECK_EQ(document.ending.other_url.size, 0);
    CHECK_EQ(document.candidate_count, 3);
    CHECK(document.candidates[0].is_chosen && !document.candidates[1].is_chosen);
    CHECK(slice_is(document.candidates[0].url, "a"));
    CHECK(document.candidates[0].numbers[0] == 960);
    CHECK(document.candidates[0].numbers[explain_candidate_numbers - 1] == 2);
    CHECK(slice_is(document.candidates[1].url, "b"));
    CHECK(document.candidates[1].numbers[0] == 5);
    CHECK_EQ(document.candidates[2].url.size, 0);
    CHECK_EQ(document.record_count, 0);
    explain_document_free(&document);
    CHECK_EQ(read_text("{\"backend\":null,\"rivals\":[{\"url\":\"b\"}]}"), STATUS_OK);
    CHECK_EQ(document.candidate_count, 1);
    CHECK(slice_is(document.candidates[0].url, "b") && !document.candidates[0].is_chosen);
    explain_document_free(&document);
}
