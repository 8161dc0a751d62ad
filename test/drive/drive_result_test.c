// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_result.h"

#include "drive/result_fixture.h"
#include "json/json.h"
#include "test.h"

// The text of one member of the JSON, without its blanks around; empty when it is not there.
static struct slice member(const struct drive_result *result, const char *name)
{
    struct slice text = slice_str(written(result, drive_result_write_json));
    struct json_value value = {0};
    ASSERT(json_find(text, &name, 1, &value) == STATUS_OK);
    return value.raw;
}

TEST(the_table_has_the_figures)
{
    struct drive_result result = result_fixture();
    const char *table = written(&result, drive_result_write_table);
    CHECK(strstr(table, "stress at http://127.0.0.1:1, model m") != NULL);
    CHECK(strstr(table, "first token") != NULL);
    CHECK(strstr(table, "200 ms") != NULL);
    CHECK(strstr(table, "10 in 2.0 s, 5.00/s; 0 failed; 2 more to warm up") != NULL);
    CHECK(strstr(table, "87.5% of the tokens") != NULL);
    CHECK(strstr(table, "TRUST") == NULL);
    CHECK(strstr(table, "backends") == NULL);
}

TEST(errors_stand_in_the_table_with_their_codes)
{
    struct drive_result result = result_fixture();
    fixture_tally.errors[DRIVE_STATUS] = 3;
    fixture_tally.statuses[429] = 1;
    fixture_tally.statuses[503] = 2;
    fixture_tally.error_count = 3;
    const char *table = written(&result, drive_result_write_table);
    CHECK(strstr(table, "3 (the status of the response is not 200; 429: 1; 503: 2)") != NULL);
    CHECK(strstr(table, "timeout") == NULL);
}

TEST(json_has_the_same_figures_and_null_for_unknown_ones)
{
    struct drive_result result = result_fixture();
    CHECK(slice_is(member(&result, "requests_per_s"), "5"));
    CHECK(slice_is(member(&result, "hit_rate"), "0.875"));
    CHECK(slice_is(member(&result, "workload"), "stress"));
    CHECK(slice_is(member(&result, "users"), "null"));
    CHECK(slice_is(member(&result, "balance"), "null"));
    CHECK(slice_is(member(&result, "request_balance"), "null"));
    CHECK(slice_is(member(&result, "label"), "null"));
    CHECK(slice_starts_with(member(&result, "ttft_ms"), "{\"mean\": 100.0000, \"p50\": 90.0000"));
    fixture_tally.knows_cached = false;
    CHECK(slice_is(member(&result, "hit_rate"), "null"));
    fixture_flags.no_stream = true;
    CHECK(slice_is(member(&result, "ttft_ms"), "null"));
    CHECK(slice_is(member(&result, "goodput"), "null"));
}

TEST(json_stays_valid_with_any_text)
{
    struct drive_result result = result_fixture();
    char label[2048];
    memset(label, 1, sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    fixture_flags.label = label;
    fixture_flags.model = "a\"b\\";
    snprintf(fixture_tally.backends[0].name, drive_backend_size, "\"\n");
    fixture_tally.backend_count = 1;
    fixture_tally.statuses[500] = 1;
    CHECK(slice_is(member(&result, "model"), "a\\\"b\\\\"));
    result.figures = (struct figures){0};
    CHECK(slice_is(member(&result, "ttft_ms"), "null"));
    CHECK(slice_is(member(&result, "e2e_ms"), "null"));
}

TEST(a_lagging_generator_is_reported_with_the_reason)
{
    struct drive_result result = result_fixture();
    CHECK(drive_result_doubt(&result) == NULL);

    result.cpu_s = 2.4;
    CHECK(strstr(drive_result_doubt(&result), "processor") != NULL);

    for (int i = 0; i < 10; i++) {
        histogram_add(&fixture_tally.late, 50000000);
    }
    CHECK(strstr(drive_result_doubt(&result), "sent late") != NULL);
    CHECK(strstr(written(&result, drive_result_write_table), "DO NOT TRUST THESE TIMES") != NULL);

    result.counts.in_flight_max = 100;
    CHECK(strstr(drive_result_doubt(&result), "--connections-max") != NULL);
    CHECK(strstr((const char *)member(&result, "generator").bytes, "connections-max") != NULL);
}

TEST(unsent_requests_are_a_reason_to_doubt)
{
    struct drive_result result = result_fixture();
    fixture_tally.errors[DRIVE_UNSENT] = 1;
    CHECK(drive_result_doubt(&result) != NULL);
}

TEST(every_error_has_a_name_of_its_own)
{
    uint32_t same = 0;
    for (enum drive_error a = DRIVE_FINE; a < drive_error_count; a++) {
        CHECK(drive_error_meaning(a)[0] != '\0');
        for (enum drive_error b = DRIVE_FINE; b < a; b++) {
            same += strcmp(drive_error_name(a), drive_error_name(b)) == 0;
        }
    }
    CHECK_EQ(same, 0);
}
