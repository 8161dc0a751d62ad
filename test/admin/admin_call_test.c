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

static struct admin_result write_hundred(const struct admin_call *call, struct json_writer *json)
{
    (void)call;
    for (int i = 0; i < 10; i++) {
        text_add_str(json->out, "[123456789");
    }
    return admin_done(200);
}

static struct admin_result write_created(const struct admin_call *call, struct json_writer *json)
{
    (void)call;
    admin_put_status(json, "ok");
    return admin_done(201);
}

static struct admin_result write_nothing(const struct admin_call *call, struct json_writer *json)
{
    (void)call;
    (void)json;
    return admin_done(204);
}

static struct admin_result write_itself(const struct admin_call *call, struct json_writer *json)
{
    (void)json;
    text_add_str(call->out, "all of it");
    return admin_done(0);
}

static struct admin_result refuse(const struct admin_call *call, struct json_writer *json)
{
    json_begin_object(json, NULL); // half a document is not sent
    return admin_refuse(call, HTTP_PROBLEM_BAD_QUERY, "why");
}

TEST(a_response_is_one_message_that_caches_must_not_store)
{
    struct admin_call call = call_of(1000);
    admin_call_run(&call, write_created);
    CHECK_STR(space, "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n"
                     "content-length: 15\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
                     "{\"status\":\"ok\"}");
    CHECK(strstr(space, "access-control") == NULL);
}

TEST(a_response_without_a_document_has_no_length)
{
    struct admin_call call = call_of(1000);
    admin_call_run(&call, write_nothing);
    CHECK_STR(space, "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
}

TEST(a_handler_may_write_the_whole_response)
{
    struct admin_call call = call_of(1000);
    admin_call_run(&call, write_itself);
    CHECK_STR(space, "all of it");
}

TEST(the_head_of_a_response_fits_into_its_limit)
{
    struct admin_call call = call_of(1000);
    admin_call_run(&call, write_created);
    CHECK(out.size - 15 < admin_head_size_max - 20); // a length has up to 19 digits more
}

TEST(a_document_that_does_not_fit_is_a_problem)
{
    struct admin_call call = call_of(admin_head_size_max + 100);
    admin_call_run(&call, write_hundred);
    CHECK(strstr(space, "content-length: 100\r\n") != NULL);
    CHECK(strstr(space, "\r\n\r\n[123456789[") != NULL);
    call = call_of(admin_head_size_max + 99);
    admin_call_run(&call, write_hundred);
    CHECK_EQ(strncmp(space, "HTTP/1.1 500 ", 13), 0);
}

TEST(a_refusal_ends_the_connection_and_gives_the_reason)
{
    struct admin_call call = call_of(1000);
    admin_call_run(&call, refuse);
    CHECK_EQ(strncmp(space, "HTTP/1.1 400 ", 13), 0);
    CHECK(strstr(space, "connection: close\r\n") != NULL);
    CHECK(strstr(space, "takes: why\"") != NULL);
}
