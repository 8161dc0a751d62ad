// SPDX-License-Identifier: Apache-2.0

#include "config/option/command_line.h"

#include "config/config.h"
#include "config/option/option.h"

#include <stdio.h>

static bool is_flag(const char *word)
{
    return strncmp(word, "--", 2) == 0 && word[2] != '\0';
}

static enum status command_line_refuse(struct config_error *error, const char *word,
                                       const char *why)
{
    char space[64];
    struct text quoted = text_over(space, sizeof(space));
    config_quote(&quoted, word);

    *error = (struct config_error){0};
    snprintf(error->file, sizeof(error->file), "command line");
    snprintf(error->text, sizeof(error->text), "%.*s: %s", (int)quoted.size - 2, space + 1, why);
    return STATUS_MALFORMED;
}

int config_command_line_take(const struct config_option_table *table, int word_count, char **words,
                             char **value)
{
    char *equals = strchr(words[0], '=');
    if (equals != NULL) {
        *equals = '\0';
        *value = equals + 1;
        return 1;
    }
    const struct config_option *option = config_option_find_flag(table, words[0] + 2);
    bool is_switch = option != NULL && option->kind == &config_kind_toggle;
    bool stands_alone = is_switch && config_option_find(table, "") != NULL;
    if (word_count > 1 && !is_flag(words[1]) && !stands_alone) {
        *value = words[1];
        return 2;
    }
    static char alone[] = "true";
    *value = is_switch ? alone : NULL;
    return 1;
}

enum status config_command_line_read(char **words, int word_count, const char **pairs,
                                     struct config_source *out, struct config_error *error)
{
    struct config_source source = {.values = pairs};
    const char **next = pairs;

    for (int i = 0; i < word_count;) {
        const char *flag = words[i];
        char *value = NULL;
        if (!is_flag(flag)) {
            return command_line_refuse(error, flag, "is not an option; those start with --");
        }
        i += config_command_line_take(&config_options, word_count - i, words + i, &value);
        if (value == NULL) {
            return command_line_refuse(error, flag, "needs a value");
        }
        if (strcmp(flag, "--config") == 0) {
            source.path = value;
        } else {
            *next++ = flag;
            *next++ = value;
            source.value_count++;
        }
    }
    *out = source;
    return STATUS_OK;
}
