// SPDX-License-Identifier: Apache-2.0
//
// flags.h -- the command lines of the commands other than serve: one table each.  The options of
// serve are the rows of options.def, since each is also a key of the configuration file.
//
//     static const struct flag flags[] = {
//         {"count", FLAG_COUNT, &options.count, "N", "How many engines."},
//         ...
//     };
//
// `--name value` and `--name=value`; a switch stands alone.  Words without dashes belong to the row
// whose name is empty, if there is one.  `--help` prints the table.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flag_kind {
    FLAG_TEXT,     // const char *
    FLAG_COUNT,    // uint32_t, with k, m or g
    FLAG_NUMBER,   // double, not negative
    FLAG_DURATION, // double, seconds: 500ms, 10s, 2m, 1h; alone: seconds
    FLAG_SWITCH,   // bool
    FLAG_LIST,     // struct flag_list: may be given several times, and with commas
    FLAG_WORDS,    // struct flag_list: may be given several times, each as it stands
};

enum { flag_list_max = 1024 };

struct flag_list {
    const char *items[flag_list_max]; // parts of the words
    uint32_t count;
};

struct flag {
    const char *name; // without the dashes
    enum flag_kind kind;
    void *value;          // holds the default
    const char *argument; // stands for the value in the help
    const char *help;
};

enum flags_verdict { FLAGS_GOOD, FLAGS_HELPED, FLAGS_BAD };

// Reads the words behind the name of the command, and cuts them at `=` and `,`.  BAD: the reason
// was printed to standard error.  HELPED: `--help` was given and the help printed.
enum flags_verdict flags_read(const char *command, const struct flag *flags, size_t flag_count,
                              int word_count, char **words);

// Prints usage and summary of a command, as commands.def has them.
void flags_write_usage(const char *command);

// Whether it can stand in the head of a request: printable ASCII without blanks.
bool flags_is_word(const char *text);
