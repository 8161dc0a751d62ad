// SPDX-License-Identifier: Apache-2.0

#include "http/body.h"

#include "base/base.h"

void http_body_start(struct http_body *body, const struct http_head *head, enum chunked_keep keep)
{
    ASSERT(head->size > 0);

    *body = (struct http_body){.framing = head->framing, .left = head->content_length};
    chunked_start(&body->chunked, keep);
}

enum status http_body_scan(struct http_body *body, uint8_t *bytes, size_t size, size_t *used,
                           size_t *kept)
{
    ASSERT(!body->is_complete);

    enum status status = STATUS_AGAIN;
    *used = size;
    switch (body->framing) {
    case HTTP_NO_BODY:
        *used = 0;
        status = STATUS_OK;
        break;
    case HTTP_LENGTH:
        *used = size < body->left ? size : (size_t)body->left;
        body->left -= *used;
        status = body->left == 0 ? STATUS_OK : STATUS_AGAIN;
        break;
    case HTTP_CHUNKED:
        status = chunked_scan(&body->chunked, bytes, size, used, kept);
        break;
    case HTTP_UNTIL_CLOSE:
        break;
    }
    if (body->framing != HTTP_CHUNKED) {
        *kept = *used;
    }
    body->is_complete = status == STATUS_OK;
    return status;
}

enum status http_body_close(struct http_body *body)
{
    body->is_complete |= body->framing == HTTP_UNTIL_CLOSE;
    return body->is_complete ? STATUS_OK : STATUS_CLOSED;
}
