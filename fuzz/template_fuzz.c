// SPDX-License-Identifier: Apache-2.0
//
// For any input, a template compiles or is refused with a message, and a compiled one renders or
// fails with a message, within its steps, its arena and its output.  The input is copied to a block
// of its exact size, so that a sanitizer catches a read of one byte too many.

#include "base/base.h"
#include "fuzz.h"
#include "template/template.h"

#include <stdlib.h>

enum { arena_size = 256 << 10, output_size = 16 << 10 };

static const char variables_json[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\","
    " \"content\": [{\"type\": \"text\", \"text\": \"a<b\"}]}], \"x\": 5, \"s\": \"h\\u00e9\","
    " \"l\": [1, 2.5, null], \"d\": {\"a\": {\"b\": true}}}";

static void render(const struct template *template)
{
    static _Alignas(16) uint8_t memory[arena_size];
    static uint8_t bytes[output_size];
    struct arena arena = arena_over(memory, sizeof(memory));
    struct value_room room = {.arena = &arena, .steps_left = UINT64_MAX};
    struct value variables;
    ASSERT(value_from_json(&room, slice_str(variables_json), &variables));
    struct template_input input = {
        .variables = variables.dict,
        .now = {2026, 1, 2, 3, 4, 5, .weekday = 4, .year_day = 2},
        .step_max = 20000,
    };
    struct text text = text_over(bytes, sizeof(bytes));
    struct template_output output = {.text = &text};
    struct template_error error = {0};
    enum status status = template_render(template, &input, &arena, &output, &error);
    ASSERT(status == STATUS_OK || status == STATUS_MALFORMED || status == STATUS_TOO_LARGE);
    ASSERT(status != STATUS_OK || !text.overflow);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct template *template = NULL;
    struct template_error error;
    enum status status = template_compile(slice_of(copy, size), &template, &error);
    ASSERT(status == STATUS_OK || status == STATUS_MALFORMED || status == STATUS_TOO_LARGE);
    ASSERT((status == STATUS_OK) == (template != NULL));
    ASSERT(status == STATUS_OK || error.text[0] != '\0');
    free(copy);
    if (template != NULL) {
        (void)template_reads(template, slice_str("messages"));
        (void)template_loops_over_content(template);
        render(template);
    }
    template_destroy(&template);
    return 0;
}
