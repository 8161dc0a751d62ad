// SPDX-License-Identifier: Apache-2.0
//
// For any input: a document is read exactly if it is an object with an array of `backends`, or one
// of `rivals`.  With `rivals` alone it is a past decision, without predictions.  Strings are parts
// of the input without control characters, and the result can be printed.

#include "base/base.h"
#include "cli/explain_document.h"
#include "cli/explain_table.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

static bool has_list(struct slice body, const char *name)
{
    const char *const names[] = {name};
    struct json_value value[1] = {0};
    return json_find(body, names, 1, value) == STATUS_OK && value[0].kind == JSON_ARRAY;
}

static void check_part(struct slice body, struct slice part)
{
    ASSERT(part.size == 0 ||
           (part.bytes >= body.bytes && part.bytes + part.size <= body.bytes + body.size));
    for (size_t i = 0; i < part.size; i++) {
        ASSERT(part.bytes[i] >= ' ');
    }
}

static void check_shown(const struct explain_document *document)
{
    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    ASSERT(out != NULL);
    explain_table_write(document, out);
    ASSERT(fclose(out) == 0);
    uint32_t lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += page[i] == '\n';
    }
    ASSERT(lines >= document->candidate_count + document->record_count + 1);
    free(page);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct explain_document document = {0};
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice body = slice_of(copy, size);
    enum status status = explain_document_read(body, &document);

    bool is_explanation = has_list(body, "backends");
    bool is_decision = !is_explanation && has_list(body, "rivals");
    ASSERT(status == (is_explanation || is_decision ? STATUS_OK : STATUS_MALFORMED));
    ASSERT(document.is_kept == is_decision);
    ASSERT(!is_decision || document.record_count == 0);
    ASSERT(document.record_count <= 2 * document.candidate_count);
    check_part(body, document.summary);
    check_part(body, document.ending.outcome);
    check_part(body, document.ending.other_url);
    for (uint32_t i = 0; i < document.candidate_count; i++) {
        check_part(body, document.candidates[i].url);
        check_part(body, document.candidates[i].events);
    }
    if (status == STATUS_OK) {
        check_shown(&document);
    }
    explain_document_free(&document);
    free(copy);
    return 0;
}
