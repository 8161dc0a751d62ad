// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_result.h"
#include "drive/result_fixture.h"
#include "test.h"

TEST(the_page_stands_alone)
{
    struct drive_result result = result_fixture();
    snprintf(fixture_tally.backends[0].name, drive_backend_size, "http://10.0.0.1");
    fixture_tally.backend_count = 1;
    fixture_tally.backends[0].requests = 10;
    const char *page = written(&result, drive_result_write_html);
    CHECK(strncmp(page, "<!doctype html>", 15) == 0);
    CHECK(strstr(page, "</html>") != NULL);
    CHECK(strstr(page, "<svg") != NULL);
    CHECK(strstr(page, "87.5%") != NULL);
    CHECK(strstr(page, "Requests by backend") != NULL);
    CHECK(strstr(page, "<script") == NULL);
    CHECK(strstr(page, "src=") == NULL);
    CHECK(strstr(page, "TRUST") == NULL);
}

TEST(text_from_outside_is_text)
{
    struct drive_result result = result_fixture();
    fixture_flags.label = "<b>&";
    const char *page = written(&result, drive_result_write_html);
    CHECK(strstr(page, "<b>") == NULL);
    CHECK(strstr(page, "&lt;b&gt;&amp;") != NULL);
}

TEST(doubt_and_errors_are_on_the_page)
{
    struct drive_result result = result_fixture();
    fixture_tally.errors[DRIVE_UNSENT] = 7;
    fixture_tally.errors[DRIVE_STATUS] = 2;
    fixture_tally.statuses[503] = 2;
    const char *page = written(&result, drive_result_write_html);
    CHECK(strstr(page, "DO NOT TRUST THESE TIMES") != NULL);
    CHECK(strstr(page, "not 200; 503: 2)") != NULL);
}

TEST(a_run_without_a_response_has_a_page)
{
    struct drive_result result = result_fixture();
    result.figures = (struct figures){0};
    CHECK(strstr(written(&result, drive_result_write_html), "</html>") != NULL);
}
