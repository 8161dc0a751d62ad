// SPDX-License-Identifier: Apache-2.0

#include "admin/admin_call.h"

#include "base/base.h"
#include "json/json_writer.h"

#include <stdlib.h>

void admin_call_problem(const struct admin_call *call, enum http_problem which, const char *detail)
{
    http_problem_response(&(struct http_problem_response){.problem = which,
                                                          .detail = slice_str(detail),
                                                          .close = true},
                          call->out);
}

void admin_call_document(const struct admin_call *call, uint16_t status, struct slice json)
{
    struct text *out = call->out;
    text_add_format(out,
                    "HTTP/1.1 %u %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
                    "cache-control: no-store\r\nconnection: close\r\n\r\n",
                    status, http_reason(status), json.size);
    text_add(out, json);
}

void admin_call_written(const struct admin_call *call, uint16_t status, admin_write_fn *write)
{
    size_t capacity = call->out->capacity - admin_response_head_size;
    uint8_t *space = malloc(capacity);
    ASSERT(space != NULL);
    struct text text = text_over(space, capacity);
    struct json_writer json = json_writer_over(&text);
    write(call, &json);
    if (text.overflow) {
        admin_call_problem(call, HTTP_PROBLEM_INTERNAL, "the list is too long for one answer");
    } else {
        admin_call_document(call, status, text_slice(&text));
    }
    free(space);
}
