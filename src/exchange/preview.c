// SPDX-License-Identifier: Apache-2.0

#include "exchange/preview.h"

#include "api/output.h"
#include "base/base.h"
#include "exchange/observer.h"
#include "http/body.h"
#include "http/sse.h"
#include "worker/buffer.h"
#include "worker/worker.h"

#include <string.h>

static struct output preview_events(struct worker *worker, enum prompt_api api, struct slice data)
{
    struct output output = {0};
    struct sse_event event;
    struct sse sse;

    sse_begin(&sse, worker->event_space, event_space_size);
    while (!output.has_answer && sse_next(&sse, &data, &event)) {
        struct response_event read = {0};
        response_read_event(api, event.data, NULL, &read);
        output_note(&output, api, &read);
    }
    return output;
}

static struct output preview_document(enum prompt_api api, struct slice data)
{
    struct response_event read = {0};
    struct output output = {0};

    response_read_body(api, data, NULL, &read);
    output_note(&output, api, &read);
    return output;
}

// The same of the data alone.
static enum preview preview_data(struct worker *worker, enum prompt_api api,
                                 const struct http_head *head, struct slice data, bool is_whole)
{
    struct output output = {0};
    bool is_opaque;

    if (head->status >= 300) {
        return is_whole ? PREVIEW_NOTHING : PREVIEW_MORE;
    }
    enum observer_watch watch =
        observer_watch_for(api, head, head->framing == HTTP_CHUNKED, &is_opaque);

    if (is_opaque) {
        output.has_answer = data.size > 0;
    } else if (watch == OBSERVER_EVENTS) {
        output = preview_events(worker, api, data);
    } else if (watch == OBSERVER_DOCUMENT && is_whole) {
        output = preview_document(api, data);
    }
    if (output.has_answer || (is_whole && output_is_given(&output))) {
        return PREVIEW_OUTPUT;
    }
    return is_whole ? PREVIEW_NOTHING : PREVIEW_MORE;
}

enum preview preview_response(struct worker *worker, enum prompt_api api,
                              const struct http_head *head, struct slice body)
{
    struct http_body scan;
    struct buffer copy = {0};
    size_t used = 0;
    size_t kept = 0;

    ASSERT(head->framing != HTTP_UNTIL_CLOSE && body.size <= worker->buffer_size);
    if (!buffer_take(worker, &copy)) {
        return PREVIEW_OUTPUT;
    }
    memcpy(copy.bytes, body.bytes, body.size);
    http_body_start(&scan, head, CHUNKED_KEEP_DATA);
    enum status status = http_body_scan(&scan, copy.bytes, body.size, &used, &kept);
    enum preview preview = PREVIEW_OUTPUT; // an invalid body is the relay's to report
    if (status == STATUS_OK || status == STATUS_AGAIN) {
        preview = preview_data(worker, api, head, slice_of(copy.bytes, kept), status == STATUS_OK);
    }
    buffer_put(worker, &copy);
    return preview;
}
