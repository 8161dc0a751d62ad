// SPDX-License-Identifier: Apache-2.0
//
// For any input: a trace is in order of time, from 0 to its span; every request is within the
// limits and its ids are the trace's; written and read again it is the same, except for equal
// times.  An invalid trace has a message.

#include "base/base.h"
#include "base/text.h"
#include "fuzz.h"
#include "sim/workload/mooncake.h"

#include <stdlib.h>

static void check(const struct mooncake_trace *trace)
{
    uint64_t before = 0;
    uint64_t ids = 0;
    ASSERT(trace->request_count > 0);
    ASSERT(trace->requests[0].at_us == 0);
    for (uint32_t i = 0; i < trace->request_count; i++) {
        const struct mooncake_request *request = &trace->requests[i];
        ASSERT(request->at_us >= before);
        ASSERT(request->input_tokens <= mooncake_tokens_max);
        ASSERT(request->output_tokens <= mooncake_tokens_max);
        ASSERT(request->block_tokens > 0 && request->block_tokens <= mooncake_tokens_max);
        ASSERT((uint64_t)request->first + request->id_count <= trace->id_count);
        before = request->at_us;
        ids += request->id_count;
    }
    ASSERT(before == trace->span_us);
    ASSERT(ids == trace->id_count);
}

// The text of a request's numbers is below that, and of an id below 24.
enum { request_size_max = 256, id_size_max = 24 };

// The last ones may be spread to beyond what a stamp may be.
static const uint64_t span_max_us = 4000000000000000;

static void check_again(const struct mooncake_trace *trace)
{
    char error[mooncake_error_size];
    struct mooncake_trace again;
    size_t room =
        (size_t)trace->request_count * request_size_max + (size_t)trace->id_count * id_size_max;
    uint8_t *bytes = malloc(room);
    ASSERT(bytes != NULL);
    struct text text = text_over(bytes, room);
    for (uint32_t i = 0; i < trace->request_count; i++) {
        mooncake_write(&trace->requests[i], trace->ids, &text);
    }
    ASSERT(!text.overflow);
    enum status status = mooncake_read(text_slice(&text), &again, error);
    ASSERT(status == STATUS_OK);
    ASSERT(again.request_count == trace->request_count);
    for (uint32_t i = 0; i < trace->request_count; i++) {
        const struct mooncake_request *a = &trace->requests[i];
        const struct mooncake_request *b = &again.requests[i];
        ASSERT(a->input_tokens == b->input_tokens && a->output_tokens == b->output_tokens);
        ASSERT(a->session == b->session && a->block_tokens == b->block_tokens);
        ASSERT(a->session == 0 || a->turn == b->turn);
        ASSERT(a->id_count == b->id_count);
        ASSERT(a->id_count == 0 || memcmp(trace->ids + a->first, again.ids + b->first,
                                          a->id_count * sizeof(*again.ids)) == 0);
    }
    mooncake_destroy(&again);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char error[mooncake_error_size] = "";
    struct mooncake_trace trace = {0};
    uint8_t *copy = malloc(size > 0 ? size : 1); // of its exact size, for sanitizers
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    enum status status = mooncake_read(slice_of(copy, size), &trace, error);
    if (status == STATUS_OK) {
        check(&trace);
        if (trace.span_us <= span_max_us) {
            check_again(&trace);
        }
    } else {
        ASSERT(error[0] != '\0' && memchr(error, '\0', sizeof(error)) != NULL);
        ASSERT(trace.requests == NULL);
    }
    mooncake_destroy(&trace);
    free(copy);
    return 0;
}
