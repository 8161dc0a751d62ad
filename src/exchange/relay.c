// SPDX-License-Identifier: Apache-2.0
//
// The step that brings the response back.
//
// Bytes are read into a buffer, checked where they lie, and written on from there; the buffer is
// kept only if the client did not take all of it, and as long as something is in it nothing more is
// read.  So a slow client slows its backend, and a stream costs no memory while it flows.
//
// A response that an observer watches is taken out of its framing, shown to the observer, and
// framed anew, so that the observer can hold events back or leave them out.
//
// A stream that breaks ends without its last chunk.  An event stream gets one more event with the
// problem, since many clients look at events only.

#include "base/base.h"
#include "base/text.h"
#include "config/config.h"
#include "exchange/account.h"
#include "exchange/exchange_internal.h"
#include "exchange/observer.h"
#include "http/forward.h"
#include "sys/log.h"
#include "worker/upstream.h"

#include <string.h>

enum {
    // Reads per wake-up: after that others have their turn.
    read_turns_max = 16,
    // An engine's Retry-After is honoured up to this; without one, the least is how long others
    // are preferred.
    busy_most_s = 60,
    // Also for a Retry-After of 0: a backend that asks for no pause would be asked at once again.
    busy_least_s = 1,
    event_size_max = 1024,
    // Room before a portion for the size line of a chunk.
    frame_room = 24,
};

static bool relay_is_busy(uint16_t status)
{
    return status == 429 || status == 503;
}

static bool relay_is_fault(uint16_t status)
{
    return status >= 500 && status != 501 && status != 503;
}

// The backend asks for a pause.
static void relay_note_busy(struct exchange *x, const struct http_head *head)
{
    const struct http_field *field = http_head_find(head, HTTP_NAME_RETRY_AFTER);
    uint64_t seconds = busy_least_s;

    if (field != NULL && !slice_parse_u64(http_field_value(head, field), &seconds)) {
        seconds = busy_least_s; // a date: rare, and no engine sends it
    }
    seconds = seconds < busy_most_s ? seconds : busy_most_s;
    seconds = seconds > busy_least_s ? seconds : busy_least_s;
    backend_set_busy(x->hop.backend, loop_now_ms(x->worker->loop) + seconds * 1000);
}

// A part of a body, where it was read.
struct portion {
    uint8_t *bytes;
    size_t size;
};

// Checks and compacts a portion of body in place; sets *kept to what goes to the client.
static enum status relay_scan(struct exchange *x, struct portion body, size_t *kept)
{
    size_t used = 0;

    *kept = body.size;
    if (x->response.is_done) {
        return STATUS_OK; // it ended with the connection
    }
    enum status status = http_body_scan(&x->hop.body, body.bytes, body.size, &used, kept);

    if (status == STATUS_OK) {
        x->response.is_done = true;
        // Bytes behind a complete response: the connection is not what we think it is.
        x->hop.is_reusable &= used == body.size;
    }
    if (!x->response.is_watched) {
        verdict_portion(x, *kept);
    }
    return status;
}

// Whether what goes to the client is in chunks that we make.
static bool relay_makes_chunks(const struct exchange *x)
{
    return x->response.is_watched && x->hop.body.framing == HTTP_CHUNKED && !x->is_http10;
}

// Shows the data that lies at `begin`, with frame_room before it, to the observer, and frames what
// may go on.
static void relay_pass_watched(struct exchange *x, struct buffer *buffer, uint32_t begin,
                               size_t data_size)
{
    uint8_t *data = buffer->bytes + begin;
    ASSERT(x->hop.observer != NULL && begin + data_size <= x->worker->buffer_size);
    size_t size = observer_see(x->hop.observer, data, data_size, x->response.is_done);
    verdict_portion(x, data_size);

    buffer->begin = begin;
    buffer->end = begin + (uint32_t)size;
    if (!relay_makes_chunks(x)) {
        return;
    }
    struct text end = text_over(data + size, x->worker->buffer_size - buffer->end);
    if (size > 0) {
        uint8_t space[frame_room];
        struct text line = text_over(space, sizeof(space));
        text_add_hex(&line, size);
        text_add_str(&line, "\r\n");
        buffer->begin -= (uint32_t)line.size;
        memcpy(buffer->bytes + buffer->begin, space, line.size);
        text_add_str(&end, "\r\n");
    }
    if (x->response.is_done) {
        text_add_str(&end, "0\r\n\r\n");
    }
    ASSERT(!end.overflow);
    buffer->end += (uint32_t)end.size;
}

// The same for a portion as it was read, to `begin` and behind `held` bytes that had been held
// back.
static enum status relay_scan_watched(struct exchange *x, struct buffer *buffer, uint32_t begin,
                                      size_t held, size_t size)
{
    size_t kept = 0;
    enum status status = relay_scan(x, (struct portion){buffer->bytes + begin + held, size}, &kept);

    if (status != STATUS_OK && status != STATUS_AGAIN) {
        buffer->begin = buffer->end = 0;
        return status;
    }
    relay_pass_watched(x, buffer, begin, held + kept);
    return status;
}

// Whether the observer reads the body, and hence how the body is taken apart.
static void relay_watch(struct exchange *x, const struct http_head *head)
{
    struct hop *hop = &x->hop;

    if (hop->observer != NULL) {
        bool may_hold_back = head->framing == HTTP_CHUNKED || head->framing == HTTP_UNTIL_CLOSE;
        observer_head(hop->observer, head, may_hold_back);
        x->response.is_watched =
            hop->observer->watch != OBSERVER_BLIND && head->framing != HTTP_NO_BODY;
    }
    // Trailers of a watched response are dropped, as a proxy may; no engine sends any.
    http_body_start(&hop->body, head,
                    x->is_http10 || x->response.is_watched ? CHUNKED_KEEP_DATA
                                                           : CHUNKED_KEEP_FRAMED);
}

// The part of the body that came with the head.
static enum status relay_scan_first(struct exchange *x, struct buffer *in)
{
    size_t size = in->end - in->begin;

    if (x->response.is_watched) {
        return relay_scan_watched(x, in, in->begin, 0, size);
    }
    size_t kept = 0;
    enum status status = relay_scan(x, (struct portion){in->bytes + in->begin, size}, &kept);
    in->end = in->begin + (uint32_t)kept;
    return status;
}

// The head is whole: decide, and turn to the body, whose first bytes may lie behind it.
const struct step *relay_begin(struct exchange *x, struct http_head *head)
{
    struct worker *worker = x->worker;

    ASSERT(x->hop.head == head && !x->response.has_begun);
    if (relay_is_busy(head->status)) {
        relay_note_busy(x, head);
    }
    x->hop.is_fault = relay_is_fault(head->status);
    bool is_retried = retry_is_for_status(x, head->status) && retry_is_allowed(x, HOP_BAD_STATUS);
    bool is_failure = x->hop.is_fault || relay_is_busy(head->status);
    if (is_retried || (is_failure && x->kept.status != 0)) {
        if (x->hop.is_fault) {
            attempt_judge(x, BACKEND_FAULT);
        }
        return is_retried ? retry_elsewhere(x) : refusal_pass(x);
    }
    if (verdict_asks_another(x, head)) {
        return retry_elsewhere(x);
    }
    refusal_drop(x);
    if (x->response.head.bytes == NULL && !buffer_take(worker, &x->response.head)) {
        exchange_abort(x);
        return NULL;
    }
    account_head(x, head->status);
    attempt_judge(x, x->hop.is_fault ? BACKEND_FAULT : BACKEND_RESPONDING);
    if (head->status < 300) { // a refusal does not show that an engine survives the prompt
        retry_keep_prompt(x);
    }
    x->response.is_event_stream = http_head_type_is(head, "text/event-stream");
    x->hop.is_reusable =
        head->keep_alive && x->hop.stage == HOP_AWAITING && head->framing != HTTP_UNTIL_CLOSE;
    relay_watch(x, head);
    response_write_head(x, head);

    x->response.out = hop_take_response(&x->hop);
    enum status status = relay_scan_first(x, &x->response.out);
    exchange_drop_request(x);
    x->response.has_begun = true;
    x->wait = WAIT_NOTHING;
    if (status != STATUS_OK && status != STATUS_AGAIN) {
        return relay_broken(x, HTTP_PROBLEM_BAD_ANSWER);
    }
    return &step_relay;
}

// Reads one portion into x->response.out.  OK: bytes are there, or the response is complete.
static enum status relay_read(struct exchange *x)
{
    struct worker *worker = x->worker;
    size_t size = 0;

    ASSERT(x->hop.stage == HOP_READING && buffer_is_empty(&x->response.out));
    if (!x->hop.upstream->transport.can_read) {
        return STATUS_AGAIN;
    }
    if (x->response.out.bytes == NULL && !buffer_take(worker, &x->response.out)) {
        return STATUS_EXHAUSTED;
    }
    // Behind what the observer held back, if it did.
    uint32_t begin = x->response.is_watched ? frame_room : 0;
    size_t held = x->response.is_watched ? observer_tail_size(x->hop.observer) : 0;
    enum status status =
        transport_read(&x->hop.upstream->transport, x->response.out.bytes + begin + held,
                       worker->read_size - begin - held, &size);
    if (status == STATUS_CLOSED) {
        status = http_body_close(&x->hop.body);
        x->response.is_done = status == STATUS_OK;
    }
    if (status != STATUS_OK) {
        return status;
    }
    x->wait = WAIT_NOTHING;
    if (x->response.is_watched) {
        observer_take_tail(x->hop.observer, x->response.out.bytes + begin);
        status = relay_scan_watched(x, &x->response.out, begin, held, size);
    } else {
        size_t kept = 0;
        status = relay_scan(x, (struct portion){x->response.out.bytes, size}, &kept);
        x->response.out.end = (uint32_t)kept;
    }
    return status == STATUS_AGAIN ? STATUS_OK : status;
}

static const struct step *relay_read_failed(struct exchange *x, enum status status)
{
    uint32_t limit_ms = x->worker->config->timeouts.between_chunks;

    switch (status) {
    case STATUS_AGAIN:
        if (buffer_is_empty(&x->response.out)) {
            buffer_put(x->worker, &x->response.out);
        }
        exchange_stall(x, WAIT_BACKEND, limit_ms);
        return NULL;
    case STATUS_EXHAUSTED:
        // The bytes wait in the kernel until a buffer is free.  The backend is not late.
        exchange_wait(x, WAIT_BACKEND, limit_ms);
        client_again(x->client);
        return NULL;
    default:
        return x->step->backend_gone(x);
    }
}

// The response is complete, or no more of it will come.
static void relay_end_attempt(struct exchange *x)
{
    if (x->hop.backend != NULL && !x->response.is_truncated && !x->hop.is_fault) {
        verdict_end(x);
        attempt_judge(x, BACKEND_SUCCESS);
        retry_note_response(x);
    }
    if (x->hop.observer != NULL && !x->response.is_truncated) {
        observer_complete(x->hop.observer);
    }
    attempt_end(x, x->hop.is_reusable && !x->response.is_truncated);
}

const struct step *relay_run(struct exchange *x)
{
    for (unsigned turn = 0; turn < read_turns_max; turn++) {
        if (x->response.is_done) {
            // The backend is done, however long the client takes for the rest.  A client that has
            // read the last byte finds its request counted.
            relay_end_attempt(x);
            account_close(x, true);
        }
        enum status status = exchange_flush(x);
        if (status == STATUS_AGAIN) {
            if (x->hop.backend != NULL) {
                hop_pause(&x->hop);
            }
            exchange_stall_client(x);
            return NULL;
        }
        if (status != STATUS_OK) {
            exchange_abort(x);
            return NULL;
        }
        if (x->response.is_done) {
            return &step_finish;
        }
        hop_go_on(&x->hop, loop_now_ms(x->worker->loop));
        status = relay_read(x);
        if (status != STATUS_OK) {
            return relay_read_failed(x, status);
        }
    }
    // Bytes have come since the last stall: its deadline is over.
    exchange_stall(x, WAIT_BACKEND, x->worker->config->timeouts.between_chunks);
    client_again(x->client);
    return NULL;
}

static void relay_add_chunk(struct text *out, struct slice bytes, bool framed)
{
    if (framed) {
        text_add_hex(out, bytes.size);
        text_add_str(out, "\r\n");
    }
    text_add(out, bytes);
    text_add_str(out, framed ? "\r\n" : "");
}

// One last event, framed so that it fits where the stream broke off.
static void relay_add_error_event(struct exchange *x, enum http_problem problem)
{
    uint8_t space[event_size_max];
    struct text event = text_over(space, sizeof(space));
    struct text out = text_over(x->response.out.bytes + x->response.out.end,
                                x->worker->buffer_size - x->response.out.end);
    bool framed = x->hop.body.framing == HTTP_CHUNKED && !x->is_http10;
    // When we re-chunk, no chunk is ever left open.
    bool passes_frames = framed && !x->response.is_watched;
    uint64_t left = passes_frames ? chunked_left(&x->hop.body.chunked) : 0;
    struct slice ending = slice_str(left > 0 ? "\r\n" : "");

    // The empty lines end whatever was begun; where nothing was, they mean nothing.
    text_add_str(&event, "\n\ndata: ");
    http_problem_document(problem, (struct slice){0}, &event);
    text_add_str(&event, "\n\n");
    ASSERT(!event.overflow);
    if (passes_frames && left == 0 && !chunked_ending(&x->hop.body.chunked, &ending)) {
        return; // in the middle of a size or of the trailers: nothing can be said there
    }
    if (left >= event.size) {
        text_add(&out, text_slice(&event)); // as a part of the chunk that never ends
    } else {
        for (uint64_t i = 0; i < left; i++) {
            text_add_str(&out, "\n");
        }
        text_add(&out, ending);
        relay_add_chunk(&out, text_slice(&event), framed);
    }
    x->response.out.end += out.overflow ? 0 : (uint32_t)out.size;
}

const struct step *relay_broken(struct exchange *x, enum http_problem problem)
{
    ASSERT(x->response.has_begun);

    bool can_say = x->response.is_event_stream && x->hop.body.framing != HTTP_LENGTH &&
                   x->hop.body.framing != HTTP_NO_BODY;
    if (can_say && (x->response.out.bytes != NULL || buffer_take(x->worker, &x->response.out))) {
        relay_add_error_event(x, problem);
    }
    if (x->hop.backend != NULL) {
        // A backend is at fault for a broken or stalled response, not for a long one.
        if (problem != HTTP_PROBLEM_REQUEST_TIMEOUT) {
            attempt_judge(x, BACKEND_FAULT);
        }
        log_debug("backend %s: the response broke off: %s", x->hop.backend->url,
                  http_problem_code(problem));
    }
    attempt_end(x, false);
    account_problem(x, http_problem_code(problem));
    x->wait = WAIT_NOTHING;
    x->response.is_truncated = true;
    x->response.is_done = true;
    return &step_relay;
}

// Between two reads of the backend, or while the client does not read.
const struct step *relay_expire(struct exchange *x)
{
    if (x->wait == WAIT_BACKEND) {
        return relay_broken(x, HTTP_PROBLEM_CHUNK_TIMEOUT);
    }
    exchange_expire_client(x);
    return NULL;
}

const struct step *relay_gone(struct exchange *x)
{
    return relay_broken(x, HTTP_PROBLEM_BAD_ANSWER);
}
