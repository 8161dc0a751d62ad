// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks request or response and where the rest is split.  For any input, the verdict
// is the same fed whole or in two parts, and an accepted head, written again, is a head with the
// same fields: forwarding does not change its meaning.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "http/forward.h"
#include "http/head.h"

#include <stdlib.h>

static const struct http_limits limits = {.head_size = 8192, .target_size = 1024};

static void forward(const struct http_head *head)
{
    static uint8_t space[32768];
    static struct http_head again;
    struct text out = text_over(space, sizeof(space));

    if (head->kind == HTTP_KIND_REQUEST) {
        http_forward_request(head,
                             &(struct http_forward_request){.host = slice_str("h"),
                                                            .request_id = slice_str("id"),
                                                            .keep_authorization = true},
                             &out);
    } else {
        http_forward_response(head, &(struct http_forward_response){.request_id = slice_str("id")},
                              &out);
    }
    ASSERT(!out.overflow);
    http_head_start(&again, head->kind, (struct http_limits){sizeof(space), sizeof(space)});
    enum status status = http_head_feed(&again, text_slice(&out));
    // More fields than allowed are the id and the host that we added.
    ASSERT(status == STATUS_OK || head->field_count + 2 > http_field_count_max);
    ASSERT(status != STATUS_OK || again.size == out.size);
    ASSERT(status != STATUS_OK || again.content_length == head->content_length);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct http_head whole;
    static struct http_head split;

    if (size < 2) {
        return 0;
    }
    enum http_kind kind = (bytes[0] & 1) != 0 ? HTTP_KIND_RESPONSE : HTTP_KIND_REQUEST;
    size_t at = (bytes[0] >> 1) % size;
    uint8_t *copy = malloc(size - 1);
    ASSERT(copy != NULL);
    memcpy(copy, bytes + 1, size - 1);
    struct slice all = slice_of(copy, size - 1);

    http_head_start(&whole, kind, limits);
    enum status expected = http_head_feed(&whole, all);
    http_head_start(&split, kind, limits);
    enum status status = http_head_feed(&split, slice_of(copy, at < all.size ? at : all.size));
    if (status == STATUS_AGAIN) {
        status = http_head_feed(&split, all);
    }
    ASSERT(status == expected);
    ASSERT(status != STATUS_MALFORMED || (split.why != NULL && whole.why != NULL));
    if (status == STATUS_OK) {
        ASSERT(whole.size == split.size && whole.field_count == split.field_count);
        forward(&whole);
    }
    free(copy);
    return 0;
}
