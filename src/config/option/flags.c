// SPDX-License-Identifier: Apache-2.0

#include "config/option/flags.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A number and the unit behind it; NaN if the word does not begin with a number.
static double flags_read_number(const char *word, const char **unit)
{
    char *end = NULL;
    double value = strtod(word, &end);
    *unit = end;
    return end == word || !isfinite(value) || value < 0 ? NAN : value;
}

struct flag_unit {
    const char *name;
    double factor;
};

static bool scale(const char *word, const struct flag_unit *units, size_t unit_count, double *out)
{
    const char *unit = NULL;
    double value = flags_read_number(word, &unit);
    for (size_t i = 0; i < unit_count; i++) {
        if (strcmp(units[i].name, unit) == 0) {
            *out = value * units[i].factor;
            return !isnan(value);
        }
    }
    return false;
}

static bool flags_read_plain_number(const char *word, double *out)
{
    static const struct flag_unit units[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}};
    return scale(word, units, ARRAY_COUNT(units), out);
}

static bool flags_read_count(const char *word, uint32_t *out)
{
    double value = 0;
    if (!flags_read_plain_number(word, &value) || value > UINT32_MAX || value != floor(value)) {
        return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool flags_read_duration(const char *word, double *out)
{
    static const struct flag_unit units[] = {
        {"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600.0}};
    return scale(word, units, ARRAY_COUNT(units), out);
}

static bool flags_read_list(char *word, struct flag_list *out)
{
    for (char *rest = word; rest != NULL;) {
        char *item = strsep(&rest, ",");
        if (*item == '\0' || out->count == flag_list_max) {
            return false;
        }
        out->items[out->count++] = item;
    }
    return true;
}

static bool add_word(const char *word, struct flag_list *out)
{
    if (*word == '\0' || out->count == flag_list_max) {
        return false;
    }
    out->items[out->count++] = word;
    return true;
}

static const char *expectation(enum flag_kind kind)
{
    switch (kind) {
    case FLAG_COUNT:
        return "a whole number, k, m or g may follow";
    case FLAG_NUMBER:
        return "a number";
    case FLAG_DURATION:
        return "a time such as 500ms, 10s, 2m or 1h";
    case FLAG_LIST:
        return "names with commas between them";
    case FLAG_TEXT:
    case FLAG_SWITCH:
    case FLAG_WORDS:
        break;
    }
    return "a value";
}

static bool flags_set(const struct flag *flag, char *word)
{
    switch (flag->kind) {
    case FLAG_TEXT:
        *(const char **)flag->value = word;
        return true;
    case FLAG_COUNT:
        return flags_read_count(word, flag->value);
    case FLAG_NUMBER:
        return flags_read_plain_number(word, flag->value);
    case FLAG_DURATION:
        return flags_read_duration(word, flag->value);
    case FLAG_LIST:
        return flags_read_list(word, flag->value);
    case FLAG_WORDS:
        return add_word(word, flag->value);
    case FLAG_SWITCH:
        break;
    }
    *(bool *)flag->value = true;
    return true;
}

static const struct flag *flags_find(const struct flag *flags, size_t flag_count, const char *name)
{
    for (size_t i = 0; i < flag_count; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

void flags_write_usage(const char *command)
{
#define COMMAND(name, usage, summary)                                                              \
    if (strcmp(command, #name) == 0) {                                                             \
        printf("warmpath %s\n\n%s\n", usage, summary);                                             \
    }
#include "config/option/commands.def"
#undef COMMAND
}

static void write_help(const char *command, const struct flag *flags, size_t flag_count)
{
    flags_write_usage(command);
    printf("\n");
    for (size_t i = 0; i < flag_count; i++) {
        char left[64];
        const char *argument = flags[i].kind == FLAG_SWITCH ? "" : flags[i].argument;
        bool has_name = flags[i].name[0] != '\0';
        snprintf(left, sizeof(left), "%s%s%s%s", has_name ? "--" : "", flags[i].name,
                 has_name ? " " : "", argument);
        printf("  %-28s %s\n", left, flags[i].help);
    }
}

// Reads the flag in words[0]; returns how many words it took, 0 when it is wrong.
static int flags_read_one(const char *command, const struct flag *flags, size_t flag_count,
                          int word_count, char **words)
{
    char *word = words[0];
    if (strncmp(word, "--", 2) != 0) {
        const struct flag *nameless = flags_find(flags, flag_count, "");
        if (nameless != NULL && flags_set(nameless, word)) {
            return 1;
        }
        fprintf(stderr, "warmpath %s: %s: not a flag\n", command, word);
        return 0;
    }
    char *value = strchr(word, '=');
    if (value != NULL) {
        *value++ = '\0';
    }
    const struct flag *flag = word[2] != '\0' ? flags_find(flags, flag_count, word + 2) : NULL;
    if (flag == NULL) {
        fprintf(stderr, "warmpath %s: %s: no such flag; --help lists them\n", command, word);
        return 0;
    }
    bool is_switch = flag->kind == FLAG_SWITCH;
    int taken = is_switch || value != NULL ? 1 : 2;
    if (taken > word_count || (is_switch && value != NULL)) {
        fprintf(stderr, "warmpath %s: %s: %s\n", command, word,
                is_switch ? "takes no value" : "needs a value");
        return 0;
    }
    value = taken == 2 ? words[1] : value;
    if (!flags_set(flag, value)) {
        fprintf(stderr, "warmpath %s: %s: %s: needs %s\n", command, word, value,
                expectation(flag->kind));
        return 0;
    }
    return taken;
}

enum flags_verdict flags_read(const char *command, const struct flag *flags, size_t flag_count,
                              int word_count, char **words)
{
    for (int i = 0; i < word_count;) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            write_help(command, flags, flag_count);
            return FLAGS_HELPED;
        }
        int taken = flags_read_one(command, flags, flag_count, word_count - i, words + i);
        if (taken == 0) {
            return FLAGS_BAD;
        }
        i += taken;
    }
    return FLAGS_GOOD;
}

bool flags_is_word(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text <= ' ' || *text > '~') {
            return false;
        }
    }
    return true;
}
