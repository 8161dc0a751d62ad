// SPDX-License-Identifier: Apache-2.0
//
// flags.h -- the command lines of the benchmark programs: `--name value` or `name value`.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One of `number` and `text` is set; what it points at holds the default.
struct flag {
    const char *name; // without the dashes
    uint64_t *number;
    const char **text;
};

// `words` are names and values by turns, without the program's name.  False, with the reason on
// standard error, when a word is unknown or has no value.
bool flags_read(const struct flag *flags, size_t flag_count, int word_count, char **words);

// As many descriptors as the system lets us have.
void flags_raise_descriptor_limit(void);
