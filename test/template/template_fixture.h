// SPDX-License-Identifier: Apache-2.0
//
// template_fixture.h -- templates and their output, as rows of a table.
#pragma once

#include "template/template.h"
#include "test.h"

#include <stdlib.h>

// The variables of templates in tests.
#define FIXTURE_VARIABLES                                                                          \
    "{\"x\": 5, \"s\": \"h\\u00e9llo\", \"l\": [1, 2, 3], \"n\": null, \"t\": true, \"f\": 1.5,"   \
    " \"big\": 123456789012345678901234567890, \"e\": [],"                                         \
    " \"d\": {\"a\": 1, \"items\": [1, 2], \"content\": \"c\"},"                                   \
    " \"messages\": [{\"role\": \"user\", \"content\": \"hi\"},"                                   \
    " {\"role\": \"assistant\", \"content\": \"yo\"}, {\"role\": \"user\", \"content\": "          \
    "\"<b>\"}]}"

struct claim {
    const char *source;
    const char *expected; // the text; where it fails, a part of the error
};

enum { fixture_arena_size = 4 << 20, fixture_output_size = 1 << 20 };

struct fixture_result {
    enum status status;
    struct template_error error;
    bool compiled;
    bool used_time;
    char text[fixture_output_size];
};

static inline enum status fixture_run(struct fixture_result *result, const char *source,
                                      uint64_t step_max)
{
    struct template *template = NULL;
    *result = (struct fixture_result){0};
    result->status = template_compile(slice_str(source), &template, &result->error);
    result->compiled = result->status == STATUS_OK;
    if (!result->compiled) {
        return result->status;
    }
    void *memory = malloc(fixture_arena_size);
    ASSERT(memory != NULL);
    struct arena arena = arena_over(memory, fixture_arena_size);
    struct value_room room = {.arena = &arena, .steps_left = UINT64_MAX};
    struct value variables;
    ASSERT(value_from_json(&room, slice_str(FIXTURE_VARIABLES), &variables));
    struct template_input input = {
        .variables = variables.dict,
        .now = {2026, 1, 2, 3, 4, 5, .weekday = 4, .year_day = 2},
        .step_max = step_max,
    };
    struct text text = text_over(result->text, sizeof(result->text) - 1);
    struct template_output output = {.text = &text};
    result->status = template_render(template, &input, &arena, &output, &result->error);
    result->used_time = output.used_time;
    result->text[text.size] = '\0';
    free(memory);
    template_destroy(&template);
    return result->status;
}

static inline void check_renders(const struct claim *claims, size_t count)
{
    struct fixture_result *result = malloc(sizeof(*result));
    ASSERT(result != NULL);
    for (size_t i = 0; i < count; i++) {
        if (fixture_run(result, claims[i].source, 1000000) != STATUS_OK) {
            test_fail(__FILE__, __LINE__, "<%s>: line %u: %s", claims[i].source, result->error.line,
                      result->error.text);
        } else if (strcmp(result->text, claims[i].expected) != 0) {
            test_fail(__FILE__, __LINE__, "<%s> gives <%s>, expected <%s>", claims[i].source,
                      result->text, claims[i].expected);
        }
    }
    free(result);
}

// MALFORMED with an error that has `expected` in it, while compiling or while rendering.
static inline void check_fails(const struct claim *claims, size_t count, bool compiles)
{
    struct fixture_result *result = malloc(sizeof(*result));
    ASSERT(result != NULL);
    for (size_t i = 0; i < count; i++) {
        enum status status = fixture_run(result, claims[i].source, 1000000);
        if (status != STATUS_MALFORMED || result->compiled != compiles ||
            strstr(result->error.text, claims[i].expected) == NULL) {
            test_fail(__FILE__, __LINE__, "<%s>: %s, compiled %d, <%s>, expected <%s>",
                      claims[i].source, status_text(status), result->compiled,
                      result->status == STATUS_OK ? result->text : result->error.text,
                      claims[i].expected);
        }
    }
    free(result);
}
