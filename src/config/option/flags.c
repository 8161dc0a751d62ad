// SPDX-License-Identifier: Apache-2.0

#include "config/option/flags.h"

#include "config/option/command.h"
#include "config/option/command_line.h"
#include "config/option/manual.h"

#include <stdio.h>

enum { why_size = 512 };

static void flags_set_defaults(const struct config_option_table *table, void *out)
{
    memset(out, 0, table->item_size);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct config_option *option = &table->rows[i];
        char space[why_size];
        struct text why = text_over(space, sizeof(space));
        bool is_good =
            option->fallback == NULL ||
            option->kind->read(option, option->fallback, (char *)out + option->offset, &why);
        ASSERT(is_good);
    }
}

static bool flags_read_item(const struct config_option *option, char *text, void *field,
                            struct text *why)
{
    struct flag_list *list = field;
    struct flag_numbers *numbers = field;
    bool is_number = option->kind->number != NULL;
    uint32_t *count = is_number ? &numbers->count : &list->count;
    uint32_t most = is_number ? flag_numbers_max : flag_list_max;
    void *item = is_number ? (void *)&numbers->items[*count] : &list->items[*count];

    ASSERT(option->size == (is_number ? sizeof(*numbers) : sizeof(*list)));
    if (*count == most) {
        text_add_format(why, "has too many values; the most are %u", most);
        return false;
    }
    bool is_good = option->kind->read(option, text, item, why);
    *count += is_good;
    return is_good;
}

static bool flags_read_list(const struct config_option *option, char *text, void *field,
                            struct text *why)
{
    bool is_good = true;
    if (option->kind == &config_kind_any) {
        return flags_read_item(option, text, field, why);
    }
    for (char *rest = text; rest != NULL && is_good;) {
        is_good = flags_read_item(option, strsep(&rest, ","), field, why);
    }
    return is_good;
}

static bool flags_set(const struct config_option *option, char *text, void *out, struct text *why)
{
    void *field = (char *)out + option->offset;
    return option->is_list ? flags_read_list(option, text, field, why)
                           : option->kind->read(option, text, field, why);
}

// Reads the flag in words[0]; returns how many words it took, 0 when it is wrong.
static int flags_read_one(const struct config_option_table *table, int word_count, char **words,
                          void *out)
{
    char space[why_size];
    struct text why = text_over(space, sizeof(space) - 1);
    bool is_flag = strncmp(words[0], "--", 2) == 0;
    char *value = words[0];
    int taken = is_flag ? config_command_line_take(table, word_count, words, &value) : 1;
    const struct config_option *option =
        is_flag ? config_option_find_flag(table, words[0] + 2) : config_option_find(table, "");

    if (option == NULL && is_flag) {
        config_option_add_unknown(table, words[0], &why);
        text_add_str(&why, space[why.size - 1] == '?' ? "" : "; --help lists the options");
    } else if (option == NULL) {
        text_add_str(&why, "is not an option; those start with --");
    } else if (value == NULL) {
        text_add_str(&why, "needs a value");
    } else if (flags_set(option, value, out, &why)) {
        return taken;
    }
    space[why.size] = '\0';
    command_fail(table->name, words[0], space);
    return 0;
}

int flags_read(const struct config_option_table *table, int word_count, char **words, void *out)
{
    flags_set_defaults(table, out);
    for (int i = 0; i < word_count;) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            command_write_usage(table->name);
            printf("\n");
            config_manual_write_flags(stdout, table);
            return COMMAND_OK;
        }
        int taken = flags_read_one(table, word_count - i, words + i, out);
        if (taken == 0) {
            return COMMAND_USAGE;
        }
        i += taken;
    }
    return FLAGS_READ;
}
