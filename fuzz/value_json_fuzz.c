// SPDX-License-Identifier: Apache-2.0
//
// For any input: exactly the texts that the scanner accepts are read, except for halves of
// surrogate pairs and integers of thousands of digits.  A value that was read is written, read
// again, equal to itself, and written as the same bytes.  With little memory it is refused, and
// nothing outside that memory is touched.

#include "base/base.h"
#include "fuzz.h"
#include "json/json.h"
#include "template/value/value.h"

#include <stdlib.h>

// Values are larger than their text: 24 bytes for "1,", 48 for a member in the making.
enum { memory_per_byte = 128 };

static struct value_room room_over(struct arena *arena)
{
    return (struct value_room){.arena = arena, .steps_left = UINT64_MAX};
}

static struct slice write(const struct value *value, void *memory, size_t size, bool indent)
{
    struct arena none = {0};
    struct value_room room = room_over(&none);
    struct text text = text_over(memory, size);
    struct value_json_style style = {.indent = indent ? 1 : -1, .ensure_ascii = indent};
    bool written = value_to_json(&room, value, &style, &text);
    ASSERT(written);
    return text_slice(&text);
}

// Numbers beyond all floats are written as Infinity, which JSON does not have.
static void check_again(const struct value *value, size_t size)
{
    size_t text_size = 400 * size + 64;
    size_t memory_size = memory_per_byte * text_size;
    uint8_t *first = malloc(text_size);
    uint8_t *second = malloc(text_size);
    uint8_t *third = malloc(text_size);
    void *memory = malloc(memory_size);
    ASSERT(first != NULL && second != NULL && third != NULL && memory != NULL);
    struct slice once = write(value, first, text_size, true);
    struct arena arena = arena_over(memory, memory_size);
    struct value_room room = room_over(&arena);
    struct value again;
    if (value_from_json(&room, once, &again)) {
        struct slice plain = write(value, second, text_size, false);
        struct slice twice = write(&again, third, text_size, false);
        ASSERT(slice_equal(plain, twice));
    } else {
        ASSERT(memmem(once.bytes, once.size, "Infinity", 8) != NULL);
    }
    free(first);
    free(second);
    free(third);
    free(memory);
}

static bool has_thousands_of_digits(struct slice json)
{
    size_t digits = 0;
    for (size_t i = 0; i < json.size && digits <= 4300; i++) {
        digits = json.bytes[i] >= '0' && json.bytes[i] <= '9' ? digits + 1 : 0;
    }
    return digits > 4300;
}

static void check(struct slice json)
{
    size_t size = memory_per_byte * json.size + 1024;
    void *memory = malloc(size);
    ASSERT(memory != NULL);
    struct arena arena = arena_over(memory, size);
    struct value_room room = room_over(&arena);
    struct value value;
    struct json scan = json_open(json);
    enum status verdict = json_close(&scan);
    if (value_from_json(&room, json, &value)) {
        ASSERT(verdict == STATUS_OK);
        ASSERT(value_equal(&value, &value));
        check_again(&value, json.size);
    } else if (verdict == STATUS_OK) {
        ASSERT(room.status == STATUS_MALFORMED);
        ASSERT(memmem(json.bytes, json.size, "\\u", 2) != NULL || has_thousands_of_digits(json));
    }
    ASSERT(arena.size == size);
    free(memory);

    // A memory of exactly this size, so that a sanitizer sees one byte too far.
    size_t small_size = (json.size * 7 + 16) & ~(size_t)15;
    void *small = malloc(small_size);
    ASSERT(small != NULL);
    arena = arena_over(small, small_size);
    room = room_over(&arena);
    (void)value_from_json(&room, json, &value);
    free(small);
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
