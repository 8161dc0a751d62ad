// SPDX-License-Identifier: Apache-2.0
//
// For any input, the scanner and its simple twin reach the same verdict and, if the text is valid,
// the same keys and values; every string then decodes within its own size or has half a surrogate
// pair; and json_find agrees.  The input is copied to a block of its exact size, so that a
// sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "fuzz.h"
#include "json/json.h"
#include "json/json_twin.h"

#include <stdlib.h>

static void decode(struct slice raw)
{
    uint8_t *buffer = malloc(raw.size > 0 ? raw.size : 1);
    ASSERT(buffer != NULL);
    struct slice out;
    enum status status = json_string_decode(raw, buffer, raw.size, &out);
    ASSERT(status == STATUS_OK || status == STATUS_MALFORMED);
    if (status == STATUS_OK) {
        ASSERT(out.size <= raw.size);
    }
    free(buffer);
}

static void decode_all(struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;

    while (json_next(&json, &item) || json.depth > 0) {
        ASSERT(json.status == STATUS_OK);
        decode(item.key);
        if (item.value.kind == JSON_STRING) {
            decode(item.value.raw);
        }
        if (json.pending) {
            json_enter(&json);
        }
    }
    ASSERT(json_close(&json) == STATUS_OK);
}

static void check(struct slice text)
{
    static const char *const names[] = {"model", "user", "stream"};
    struct json_value found[ARRAY_COUNT(names)];
    size_t capacity = 4 * text.size + 16;
    uint8_t *twin_bytes = malloc(capacity);
    uint8_t *scan_bytes = malloc(capacity);
    ASSERT(twin_bytes != NULL && scan_bytes != NULL);
    struct text twin_trace = text_over(twin_bytes, capacity);
    struct text scan_trace = text_over(scan_bytes, capacity);

    enum status twin = twin_read(text, &twin_trace);
    ASSERT(scan_read(text, &scan_trace) == twin);
    ASSERT(json_find(text, names, ARRAY_COUNT(names), found) == twin);
    ASSERT(!twin_trace.overflow && !scan_trace.overflow);
    if (twin == STATUS_OK) {
        ASSERT(slice_equal(text_slice(&twin_trace), text_slice(&scan_trace)));
        decode_all(text);
    }
    free(twin_bytes);
    free(scan_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    check(slice_of(copy, size));
    free(copy);
    return 0;
}
