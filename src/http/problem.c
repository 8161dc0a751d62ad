// SPDX-License-Identifier: Apache-2.0

#include "http/problem.h"

#include "base/base.h"
#include "base/text.h"
#include "base/utf8.h"

enum {
    // Details come from requests (a path) and from engines (names of models); longer ones are cut.
    detail_size_max = 1024,
    message_size_max = detail_size_max + 256,
    // A byte of a message may become six, as \u0001 does.  Callers have room for this and a head.
    document_size_max = 8192,
};
_Static_assert(6 * message_size_max + 256 <= document_size_max, "a document might not fit");

static const struct {
    uint16_t status;
    const char *type;
    const char *code;
    const char *message;
} problems[] = {
    [HTTP_PROBLEM_NONE] = {0, "", "", ""},
#define PROBLEM(id, status, type, code, message)                                                   \
    [HTTP_PROBLEM_##id] = {status, type, code, message},
#include "http/problems.def"
#undef PROBLEM
};

static const struct {
    uint16_t status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {422, "Unprocessable Content"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
};

uint16_t http_problem_status(enum http_problem problem)
{
    ASSERT((size_t)problem < ARRAY_COUNT(problems));
    return problems[problem].status;
}

const char *http_problem_code(enum http_problem problem)
{
    ASSERT((size_t)problem < ARRAY_COUNT(problems));
    return problems[problem].code;
}

const char *http_reason(uint16_t status)
{
    for (size_t i = 0; i < ARRAY_COUNT(reasons); i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "";
}

void http_problem_document(enum http_problem problem, struct slice detail, struct text *out)
{
    ASSERT(problem != HTTP_PROBLEM_NONE && (size_t)problem < ARRAY_COUNT(problems));

    uint8_t space[message_size_max];
    struct text message = text_over(space, sizeof(space));
    text_add_str(&message, problems[problem].message);
    if (detail.size > 0) {
        text_add_str(&message, ": ");
        text_add(&message, utf8_cut(detail, detail_size_max));
    }
    ASSERT(!message.overflow);
    text_add_str(out, "{\"error\":{\"message\":");
    text_add_json(out, text_slice(&message));
    text_add_str(out, ",\"type\":");
    text_add_json(out, slice_str(problems[problem].type));
    text_add_str(out, ",\"param\":null,\"code\":");
    text_add_json(out, slice_str(problems[problem].code));
    text_add_str(out, "}}");
}

void http_problem_response(const struct http_problem_response *answer, struct text *out)
{
    uint8_t space[document_size_max];
    struct text document = text_over(space, sizeof(space));
    uint16_t status = http_problem_status(answer->problem);

    http_problem_document(answer->problem, answer->detail, &document);
    ASSERT(!document.overflow);
    text_add_str(out, "HTTP/1.1 ");
    text_add_u64(out, status);
    text_add_str(out, " ");
    text_add_str(out, http_reason(status));
    text_add_str(out, "\r\ncontent-type: application/json\r\ncontent-length: ");
    text_add_u64(out, document.size);
    if (answer->request_id.size > 0) {
        text_add_str(out, "\r\nx-request-id: ");
        text_add(out, answer->request_id);
    }
    if (answer->retry_after_s > 0) {
        text_add_str(out, "\r\nretry-after: ");
        text_add_u64(out, answer->retry_after_s);
    }
    text_add_str(out, answer->close ? "\r\nconnection: close\r\n\r\n" : "\r\n\r\n");
    if (!answer->without_body) {
        text_add(out, text_slice(&document));
    }
}
