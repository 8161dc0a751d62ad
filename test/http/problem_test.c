// SPDX-License-Identifier: Apache-2.0

#include "http/problem.h"

#include "base/text.h"
#include "test.h"

#include <cjson/cJSON.h>

TEST(every_problem_is_an_error_object_that_clients_understand)
{
    for (int i = HTTP_PROBLEM_NONE + 1; i <= HTTP_PROBLEM_REQUEST_TIMEOUT; i++) {
        char space[4096];
        struct text out = text_over(space, sizeof(space));
        http_problem_document((enum http_problem)i, slice_str("a \"name\"\x01"), &out);
        cJSON *document = cJSON_ParseWithLength(space, out.size);
        CHECK(document != NULL);
        cJSON *error = cJSON_GetObjectItem(document, "error");
        CHECK(cJSON_IsString(cJSON_GetObjectItem(error, "message")));
        CHECK(cJSON_IsString(cJSON_GetObjectItem(error, "type")));
        CHECK(cJSON_IsNull(cJSON_GetObjectItem(error, "param")));
        CHECK_STR(cJSON_GetObjectItem(error, "code")->valuestring,
                  http_problem_code((enum http_problem)i));
        CHECK(strstr(cJSON_GetObjectItem(error, "message")->valuestring, "a \"name\"") != NULL);
        cJSON_Delete(document);

        uint16_t status = http_problem_status((enum http_problem)i);
        CHECK(status >= 400 && status < 600);
        CHECK(http_reason(status)[0] != '\0');
    }
}

TEST(the_response_says_when_to_retry_and_that_the_connection_ends)
{
    char space[4096];
    struct text out = text_over(space, sizeof(space) - 1);
    http_problem_response(
        &(struct http_problem_response){
            .problem = HTTP_PROBLEM_NO_BACKEND,
            .retry_after_s = 3,
            .request_id = slice_str("id-1"),
            .close = true,
        },
        &out);
    space[out.size] = '\0';
    CHECK(strncmp(space, "HTTP/1.1 503 Service Unavailable\r\n", 34) == 0);
    CHECK(strstr(space, "\r\nretry-after: 3\r\n") != NULL);
    CHECK(strstr(space, "\r\nx-request-id: id-1\r\n") != NULL);
    CHECK(strstr(space, "\r\nconnection: close\r\n") != NULL);
}

TEST(a_long_detail_is_cut_between_characters)
{
    char detail[2000];
    for (size_t i = 0; i + 2 <= sizeof(detail); i += 2) {
        detail[i] = '\xc3';
        detail[i + 1] = '\xa9';
    }
    char space[4096];
    struct text out = text_over(space, sizeof(space));
    http_problem_document(HTTP_PROBLEM_NO_SUCH_MODEL, slice_of(detail + 1, sizeof(detail) - 1),
                          &out);
    CHECK(!out.overflow && out.size < 1200);
    CHECK(memmem(space, out.size, "\xc3\"", 2) == NULL);
}

TEST(a_detail_of_bytes_that_must_be_escaped_fits)
{
    char detail[2000];
    memset(detail, '\x01', sizeof(detail));
    char space[16384];
    struct text out = text_over(space, sizeof(space));
    http_problem_response(
        &(struct http_problem_response){.problem = HTTP_PROBLEM_NO_SUCH_MODEL,
                                        .detail = slice_of(detail, sizeof(detail))},
        &out);
    CHECK(!out.overflow && out.size > 6000);
}
