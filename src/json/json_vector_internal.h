// SPDX-License-Identifier: Apache-2.0
//
// json_vector_internal.h -- the inner loops of the scanner, 64 bytes at a time.
//
// They read the same language as the scalar code in json.c, which is their twin on processors
// without AVX2.  Their cost hardly depends on the text: escapes and characters beyond ASCII are
// checked for all 64 bytes at once.
//
// Only where json_vector_is_supported returns true.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Cheap enough to ask every time: the C library's start-up code has asked the processor.
static inline bool json_vector_is_supported(void)
{
#ifdef __x86_64__
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
#else
    return false;
#endif
}

// From after the opening quote of a string to after its closing one; NULL when the quote is
// missing or the string is invalid before it.
const uint8_t *json_vector_string_end(const uint8_t *at, const uint8_t *end);

// The scalar twin.
const uint8_t *json_scalar_string_end(const uint8_t *at, const uint8_t *end);

// `at` is a comma in an array.  Passes over elements after it that are whole numbers of at most
// nine digits, with at most one space before them and a comma right behind.  Returns the last
// such comma, or `at`.  `*count` grows by their number.  May stop early, and always does in the
// last 64 bytes.
const uint8_t *json_vector_ids_end(const uint8_t *at, const uint8_t *end, uint64_t *count);
