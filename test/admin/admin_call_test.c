// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_call.h"

#include "base/base.h"
#include "json/json_writer.h"
#include "test.h"

static char space[1024];
static struct text out;

static struct admin_call call_of(size_t capacity)
{
    ASSERT(capacity < sizeof(space));
    memset(space, 0, sizeof(space));
    out = text_over(space, capacity);
    return (struct admin_call){.out = &out};
}

static void write_hundred(const struct admin_call *call, struct json_writer *json)
{
    (void)call;
    for (int i = 0; i < 10; i++) {
        text_add_str(json->out, "[123456789");
    }
}

TEST(an_answer_is_whole_and_kept_by_nobody)
{
    struct admin_call call = call_of(1000);
    admin_call_document(&call, 201, slice_str("{}"));
    CHECK_STR(space, "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n"
                     "content-length: 2\r\ncache-control: no-store\r\nconnection: close\r\n\r\n{}");
    CHECK(strstr(space, "access-control") == NULL);
}

TEST(the_head_of_an_answer_is_within_its_bound)
{
    struct admin_call call = call_of(1000);
    admin_call_document(&call, 204, (struct slice){0});
    CHECK(out.size < admin_response_head_size - 20); // a length has up to 19 digits more
}

TEST(what_is_written_is_sent_and_what_does_not_fit_is_a_problem)
{
    struct admin_call call = call_of(admin_response_head_size + 100);
    admin_call_written(&call, 200, write_hundred);
    CHECK(strstr(space, "content-length: 100\r\n") != NULL);
    CHECK(strstr(space, "\r\n\r\n[123456789[") != NULL);
    call = call_of(admin_response_head_size + 99);
    admin_call_written(&call, 200, write_hundred);
    CHECK_EQ(strncmp(space, "HTTP/1.1 500 ", 13), 0);
}

TEST(a_problem_ends_the_connection)
{
    struct admin_call call = call_of(1000);
    admin_call_problem(&call, HTTP_PROBLEM_BAD_QUERY, "why");
    CHECK_EQ(strncmp(space, "HTTP/1.1 400 ", 13), 0);
    CHECK(strstr(space, "connection: close\r\n") != NULL);
    CHECK(strstr(space, "takes: why\"") != NULL);
}
