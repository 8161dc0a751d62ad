// SPDX-License-Identifier: Apache-2.0
//
// The first byte picks the portions, the second how the connection ends.  For any input, the result
// does not depend on the portions in which the response came, and times never run backwards.

#include "base/base.h"
#include "base/histogram.h"
#include "drive/drive_response.h"
#include "fuzz.h"

#include <stdlib.h>

static struct histogram gaps;

static void read_in_portions(struct drive_response *response, const uint8_t *bytes, size_t size,
                             size_t portion, bool is_orderly)
{
    bool is_over = false;
    uint64_t now_us = 1;

    drive_response_begin(response, &(struct drive_response_options){
                                       .api = PROMPT_CHAT, .keeps_text = true, .gaps = &gaps});
    for (size_t at = 0; at < size && !is_over; at += portion) {
        size_t part = size - at < portion ? size - at : portion;
        uint8_t *copy = malloc(part);
        ASSERT(copy != NULL);
        memcpy(copy, bytes + at, part);
        is_over = drive_response_feed(response, copy, part, now_us++);
        free(copy);
    }
    if (!is_over) {
        drive_response_cut(response, is_orderly, now_us);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct drive_response whole;
    static struct drive_response parts;
    if (size < 3) {
        return 0;
    }
    bool is_orderly = bytes[1] % 2 == 0;
    read_in_portions(&whole, bytes + 2, size - 2, size, is_orderly);
    read_in_portions(&parts, bytes + 2, size - 2, 1 + bytes[0], is_orderly);

    // Bytes behind the end of an answer may have come with it, or not yet.
    ASSERT(whole.error == parts.error);
    ASSERT(whole.status == parts.status);
    if (whole.error != DRIVE_MALFORMED) {
        // Bytes before a malformed part count only if they came in an earlier portion.
        ASSERT(whole.token_events == parts.token_events);
        ASSERT(slice_equal(text_slice(&whole.text), text_slice(&parts.text)));
    }
    ASSERT(parts.first_us <= parts.last_us);
    ASSERT(whole.error != DRIVE_FINE || whole.status == 200);
    drive_response_end(&whole);
    drive_response_end(&parts);
    return 0;
}
