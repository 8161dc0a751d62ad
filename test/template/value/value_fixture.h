// SPDX-License-Identifier: Apache-2.0
//
// value_fixture.h -- a room, and values written as JSON in and as Python's repr out.
#pragma once

#include "template/value/value.h"
#include "test.h"

static _Alignas(16) uint8_t fixture_memory[4 << 20];
static struct arena fixture_arena;
static struct value_room fixture_room;

static inline struct value_room *fresh_room(void)
{
    fixture_arena = arena_over(fixture_memory, sizeof(fixture_memory));
    fixture_room = (struct value_room){.arena = &fixture_arena, .steps_left = 1000000};
    return &fixture_room;
}

// Of something that is JSON.
static inline struct value from_json(const char *json)
{
    struct value value = value_none();
    bool read = value_from_json(&fixture_room, slice_str(json), &value);
    ASSERT(read);
    return value;
}

static inline struct value str(const char *text)
{
    return value_string(slice_str(text));
}

// Terminated; in a buffer of its own, of which there are four.
static inline const char *repr_of(const struct value *value)
{
    static char buffers[4][8192];
    static unsigned turn;
    char *buffer = buffers[turn++ % 4];
    struct text text = text_over(buffer, sizeof(buffers[0]) - 1);
    value_print_repr(value, &text);
    buffer[text.size] = '\0';
    return text.overflow ? "(does not fit)" : buffer;
}
