// SPDX-License-Identifier: Apache-2.0
//
// template.h -- chat templates: Jinja, as transformers runs it.
//
// trim_blocks and lstrip_blocks are on, loop controls and `generation` blocks exist, nothing is
// escaped, and only namespaces can be changed.  A template that uses a feature we lack is refused
// when it is compiled, by name and line; it is never rendered approximately.
//
// Bounded: nesting while compiling, steps, depth of calls and memory while rendering.
//
// Threads: a template does not change after compiling and is shared.  Memory: allocated while
// compiling; rendering takes from its arena.
#pragma once

#include "template/value/value.h"

struct template;

struct template_error {
    uint32_t line; // of the template; 0: not known
    char text[200];
};

// MALFORMED: not a template, or something that is not implemented; TOO_LARGE: nested or long beyond
// bounds; EXHAUSTED: memory is short.
enum status template_compile(struct slice source, struct template **out,
                             struct template_error *error);
void template_destroy(struct template **template_ptr);

// Whether it reads a variable of that name.  Engines pass only variables that are read.
bool template_reads(const struct template *template, struct slice variable);

// Whether it loops over the content of a message, as vLLM finds out: then content is given as a
// list of parts, and as a string otherwise.
bool template_loops_over_content(const struct template *template);

// For strftime_now: the clock of the engine's machine, broken down.
struct template_time {
    int32_t year;
    uint8_t month; // 1 to 12
    uint8_t day;   // 1 to 31
    uint8_t hour;
    uint8_t minute;
    uint8_t second;
    uint8_t weekday;   // 0: Monday
    uint16_t year_day; // 1 to 366
};

struct template_input {
    const struct value_dict *variables; // messages, tools, add_generation_prompt, bos_token, ...
    struct template_time now;
    uint64_t step_max;
};

struct template_output {
    struct text *text; // appended to; on failure as it was, but for its overflow
    bool used_time;    // strftime_now was called: the result holds for a while only
};

// MALFORMED: the template raised an error, which is the request's or the template's fault, or used
// something in a way we do not have; TOO_LARGE: a bound was reached.
enum status template_render(const struct template *template, const struct template_input *input,
                            struct arena *arena, struct template_output *out,
                            struct template_error *error);
