// SPDX-License-Identifier: Apache-2.0
//
// template_render_stream -- renders templates from its standard input, to compare with Jinja.
//
//     in:   { u32 size, template, u32 size, JSON object of variables } ...
//     out:  { u32 status, u32 size, text } ...
//
// Numbers are in the machine's byte order.  If the status (base/status.h) is not OK, the text is
// the error, which begins with "compile" or "render" and the line.  The clock stands at 2026-01-02
// 03:04:05, a Friday.
//
// With an argument, a number N, it renders each template N times and prints the processor time of
// one rendering, in nanoseconds, to its standard error.

#include "base/base.h"
#include "template/template.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { input_max = 64 << 20, arena_size = 64 << 20, output_size = 16 << 20 };

struct program {
    uint8_t *arena;
    uint8_t *output;
    uint32_t times;
};

static bool read_block(uint8_t **out, uint32_t *size)
{
    if (fread(size, sizeof(*size), 1, stdin) != 1) {
        return false;
    }
    ASSERT(*size <= input_max);
    *out = malloc(*size + 1);
    ASSERT(*out != NULL);
    ASSERT(fread(*out, 1, *size, stdin) == *size);
    return true;
}

static void write_response(enum status status, struct slice text)
{
    uint32_t head[2] = {status, (uint32_t)text.size};
    ASSERT(fwrite(head, sizeof(head), 1, stdout) == 1);
    ASSERT(fwrite(text.bytes, 1, text.size, stdout) == text.size);
    ASSERT(fflush(stdout) == 0);
}

static void write_error(const char *when, enum status status, const struct template_error *error)
{
    char text[300];
    int size = snprintf(text, sizeof(text), "%s, line %u: %s", when, error->line, error->text);
    write_response(status, slice_of(text, (size_t)size));
}

static uint64_t spent_ns(void)
{
    struct timespec now;
    ASSERT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void render(const struct program *program, const struct template *template,
                   struct slice json)
{
    struct arena arena = arena_over(program->arena, arena_size);
    struct value_room room = {.arena = &arena, .steps_left = UINT64_MAX};
    struct value variables;
    ASSERT(value_from_json(&room, json, &variables) && variables.kind == VALUE_DICT);
    struct template_input input = {
        .variables = variables.dict,
        .now = {2026, 1, 2, 3, 4, 5, .weekday = 4, .year_day = 2},
        .step_max = 100000000,
    };
    struct template_error error;
    struct text text = text_over(program->output, output_size);
    enum status status = STATUS_OK;
    size_t used = arena.used;
    uint64_t begin = spent_ns();

    for (uint32_t i = 0; i < program->times; i++) {
        arena.used = used;
        text = text_over(program->output, output_size);
        struct template_output output = {.text = &text};
        status = template_render(template, &input, &arena, &output, &error);
    }
    if (program->times > 1) {
        (void)fprintf(stderr, "%lu ns for %zu bytes\n",
                      (unsigned long)((spent_ns() - begin) / program->times), text.size);
    }
    if (status == STATUS_OK) {
        write_response(status, text_slice(&text));
    } else {
        write_error("render", status, &error);
    }
}

int main(int argc, char **argv)
{
    struct program program = {
        .arena = malloc(arena_size),
        .output = malloc(output_size),
        .times = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1,
    };
    ASSERT(program.arena != NULL && program.output != NULL && program.times > 0);
    uint8_t *source;
    uint8_t *json;
    uint32_t source_size;
    uint32_t json_size;

    while (read_block(&source, &source_size) && read_block(&json, &json_size)) {
        struct template *template;
        struct template_error error;
        enum status status = template_compile(slice_of(source, source_size), &template, &error);
        if (status == STATUS_OK) {
            render(&program, template, slice_of(json, json_size));
            template_destroy(&template);
        } else {
            write_error("compile", status, &error);
        }
        free(source);
        free(json);
    }
    free(program.arena);
    free(program.output);
    return 0;
}
