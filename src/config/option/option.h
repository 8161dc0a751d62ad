// SPDX-License-Identifier: Apache-2.0
//
// option.h -- tables of options: their names, kinds, defaults, bounds and help.
//
// options.def makes four tables: the options of serve, of a backend, of a pool and of a tokenizer.
// Every other command has a table of its own (flags.h).  Everything that knows an option by name
// walks these: binder, command line, --help, manual page and docs.
#pragma once

#include "config/option/option_kind.h"

struct config_option {
    const char *name; // with dots; "": a command's words that are not flags
    const struct config_kind *kind;
    const struct config_option_table *items; // rows of each item, for a list of things; or NULL
    const char *flag;                        // where it is not the name with dashes; or NULL
    bool is_list;
    bool has_flag;
    bool needs_restart;   // a reload does not apply a changed value
    uint32_t offset;      // of the field in the struct that the table is for
    uint32_t size;        // of the field
    const char *fallback; // the default as a user would write it; NULL: unset
    const char *low;      // bounds, both NULL where the kind has none
    const char *high;
    uint32_t fewest; // items of a list
    uint32_t most;
    const char *choices; // "a|b|c"
    const char *help;
};

struct config_option_table {
    const char *name; // of the option whose items these rows are for, or of the command; "": serve
    const struct config_option *rows;
    uint32_t count;
    uint32_t item_size; // of the struct that offsets refer to
};

struct config_option_group {
    const char *name; // "limits"; "" for options without a dot
    const char *title;
    const char *text;
};

extern const struct config_option_table config_options;
extern const struct config_option_table config_backend_options;
extern const struct config_option_table config_pool_options;
extern const struct config_option_table config_tokenizer_options;

// In the order of options.def; NULL past the last.
const struct config_option_group *config_option_group_at(uint32_t index);

// Whether `option` belongs under the key `group`.
bool config_option_is_in(const struct config_option *option, const char *group);

// The last part of the name: the key in the file.
const char *config_option_key(const struct config_option *option);

// NULL when no row of the table is called `name`, with its dots.
const struct config_option *config_option_find(const struct config_option_table *table,
                                               const char *name);

// By its name on the command line, without the two dashes in front.
const struct config_option *config_option_find_flag(const struct config_option_table *table,
                                                    const char *flag);

enum { config_flag_size_max = 64 };

// Writes the name on the command line, "--limits-body-size".  The option must have a flag.
void config_option_flag(const struct config_option *option, char flag[config_flag_size_max]);

// Appends why `flag` is refused: the table has no such flag, but perhaps a similar one.
void config_option_add_unknown(const struct config_option_table *table, const char *flag,
                               struct text *why);
