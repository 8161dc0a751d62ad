// SPDX-License-Identifier: Apache-2.0

#include "config/option/command.h"

#include "base/base.h"
#include "config/config_file.h"
#include "config/option/nearest.h"

#include <errno.h>
#include <string.h>

const struct command *command_at(uint32_t index)
{
    static const struct command commands[] = {
#define COMMAND(name, usage, summary) {#name, usage, summary},
#include "config/option/commands.def"
#undef COMMAND
    };
    return index < ARRAY_COUNT(commands) ? &commands[index] : NULL;
}

void command_write_usage(const char *name)
{
    for (uint32_t i = 0; command_at(i) != NULL; i++) {
        if (strcmp(command_at(i)->name, name) == 0) {
            printf("warmpath %s\n\n%s\n", command_at(i)->usage, command_at(i)->summary);
        }
    }
}

bool command_fail(const char *command, const char *subject, const char *why)
{
    fprintf(stderr, "warmpath %s: %s%s%s\n", command, subject, why != NULL ? ": " : "",
            why != NULL ? why : "");
    return false;
}

bool command_fail_name(const char *command, const char *kind, const char *word,
                       const char *(*name_at)(uint32_t index))
{
    char space[2048];
    struct text why = text_over(space, sizeof(space));
    text_add_format(&why, "no %s %.256s", kind, word);
    config_nearest_explain(word, name_at, &why);
    fprintf(stderr, "warmpath %s: %.*s\n", command, (int)why.size, space);
    return false;
}

bool command_read_file(const char *command, const char *path, void *space, size_t capacity,
                       size_t *size)
{
    const char *name = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    enum status status = config_file_read(name, space, capacity, size);
    return status == STATUS_OK ||
           command_fail(command, path,
                        status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
}

FILE *command_open_file(const char *command, const char *path)
{
    FILE *file = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (file == NULL) {
        command_fail(command, path, strerrordesc_np(errno));
    }
    return file;
}

bool command_close_file(const char *command, const char *path, FILE **file_ptr)
{
    FILE *file = *file_ptr;
    *file_ptr = NULL;

    if (file == NULL) {
        return true;
    }
    // Buffered writes may fail only now.
    bool is_written = fflush(file) == 0 && !ferror(file);
    is_written &= file == stdout || fclose(file) == 0;
    return is_written || command_fail(command, path, "could not be written");
}

bool command_flush(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}
