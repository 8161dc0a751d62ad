// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_call.h"

#include "base/base.h"
#include "json/json_writer.h"

#include <stdlib.h>

struct admin_result admin_refuse(const struct admin_call *call, enum http_problem problem,
                                 const char *reason)
{
    text_add_str(call->reason, reason);
    return (struct admin_result){.problem = problem};
}

struct admin_result admin_refuse_memory(const struct admin_call *call)
{
    return admin_refuse(call, HTTP_PROBLEM_OVERLOADED, "memory is short");
}

void admin_put_status(struct json_writer *json, const char *status)
{
    json_begin_object(json, NULL);
    json_put_str(json, "status", status);
    json_end(json);
}

static void admin_call_send(struct text *out, uint16_t status, struct slice json)
{
    text_add_format(out, "HTTP/1.1 %u %s\r\n", status, http_reason(status));
    if (status != 204) {
        text_add_format(out,
                        "content-type: application/json\r\ncontent-length: %zu\r\n"
                        "cache-control: no-store\r\n",
                        json.size);
    }
    text_add_str(out, "connection: close\r\n\r\n");
    text_add(out, json);
}

void admin_call_run(struct admin_call *call, admin_handler *handler)
{
    size_t capacity = call->out->capacity - admin_head_size_max;
    uint8_t reason_space[admin_reason_size_max];
    struct text reason = text_over(reason_space, sizeof(reason_space));
    uint8_t *space = malloc(capacity);
    struct text text = text_over(space, space != NULL ? capacity : 0);
    struct json_writer json = json_writer_over(&text);

    call->reason = &reason;
    struct admin_result result = space != NULL ? handler(call, &json) : admin_refuse_memory(call);
    if (text.overflow && result.problem == HTTP_PROBLEM_NONE) {
        result =
            admin_refuse(call, HTTP_PROBLEM_INTERNAL, "the document is too long for one response");
    }
    if (result.problem != HTTP_PROBLEM_NONE) {
        http_problem_response(&(struct http_problem_response){.problem = result.problem,
                                                              .detail = text_slice(&reason),
                                                              .close = true},
                              call->out);
    } else if (result.status != 0) {
        admin_call_send(call->out, result.status, text_slice(&text));
    }
    free(space);
}
