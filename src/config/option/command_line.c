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

static bool is_switch(const char *flag)
{
    const struct config_option *option = config_option_find_flag(flag + 2);
    return option != NULL && option->kind == &config_kind_toggle;
}

enum status config_command_line_read(char **words, int word_count, const char **pairs,
                                     struct config_source *out, struct config_error *error)
{
    struct config_source source = {.values = pairs};
    const char **next = pairs;

    for (int i = 0; i < word_count; i++) {
        const char *flag = words[i];
        const char *value = NULL;
        if (!is_flag(flag)) {
            return command_line_refuse(error, flag, "is not an option; those start with --");
        }
        char *equals = strchr(words[i], '=');
        if (equals != NULL) {
            *equals = '\0';
            value = equals + 1;
        } else if (i + 1 < word_count && !is_flag(words[i + 1])) {
            value = words[++i];
        } else if (is_switch(flag)) {
            value = "true";
        } else {
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
