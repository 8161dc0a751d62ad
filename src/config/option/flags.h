// SPDX-License-Identifier: Apache-2.0
//
// flags.h -- the command lines of the commands other than serve: one table each, of the same rows
// as options.def makes for serve, which are also keys of the configuration file.
//
//     #define OWNER struct load_flags
//     static const struct config_option rows[] = {
//         FLAG(url, any, NULL, "Where to send requests."),
//         RANGE(timeout, seconds, "5m", "1ms", "24h", "From the request to its last byte."),
//     };
//     static const struct config_option_table table = FLAG_TABLE("load", rows);
//
// `--name value` and `--name=value`; a switch alone is true.  Words without dashes belong to the
// row whose name is empty, if the table has one.  `--help` prints the table.
#pragma once

#include "base/base.h"
#include "config/option/option.h"

enum { flag_list_max = 1024, flag_numbers_max = 64 };

// May be given several times; commas part the items, except of kind `any`.
struct flag_list {
    const char *items[flag_list_max]; // parts of the words
    uint32_t count;
};

// A list whose kind is stored as a double.
struct flag_numbers {
    double items[flag_numbers_max];
    uint32_t count;
};

// The field of OWNER has the name of the flag; FLAG_ROW is for those that have another one.
#define FLAG_ROW(path, field, type, ...)                                                           \
    {                                                                                              \
        .name = (path), .kind = &config_kind_##type, .has_flag = sizeof(path) > 1,                 \
        .offset = offsetof(OWNER, field), .size = sizeof(((OWNER *)NULL)->field), __VA_ARGS__      \
    }
#define FLAG(name, type, value, words)                                                             \
    FLAG_ROW(#name, name, type, .fallback = (value), .help = (words))
#define RANGE(name, type, value, least, greatest, words)                                           \
    FLAG_ROW(#name, name, type, .fallback = (value), .low = (least), .high = (greatest),           \
             .help = (words))
#define FLAG_LIST(name, type, words) FLAG_ROW(#name, name, type, .is_list = true, .help = (words))
#define FLAG_TABLE(command, table)                                                                 \
    {                                                                                              \
        .name = (command), .rows = (table), .count = ARRAY_COUNT(table),                           \
        .item_size = sizeof(OWNER)                                                                 \
    }

enum { FLAGS_READ = -1 };

// Sets all of `out` to the defaults and reads the words behind the name of the command, which it
// keeps and cuts at `=` and `,`.  Returns FLAGS_READ, or the exit status: the help was printed for
// `--help`, or the reason why a word is wrong to standard error.
int flags_read(const struct config_option_table *table, int word_count, char **words, void *out);
