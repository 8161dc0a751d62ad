// SPDX-License-Identifier: Apache-2.0
//
// tiny_files.h -- directories as models come in, with the tiny dialect in them.
#pragma once

#include "dialect/tiny_dialect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct tiny_files {
    char directory[64];
};

static inline const char *tiny_path(const struct tiny_files *files, const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", files->directory, name);
    return path;
}

static inline void tiny_write(const struct tiny_files *files, const char *name, struct slice text)
{
    int fd = open(tiny_path(files, name), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    ASSERT(fd != -1);
    ASSERT(write(fd, text.bytes, text.size) == (ssize_t)text.size && close(fd) == 0);
}

// With a tokenizer.json and nothing else.
static inline void tiny_files_make(struct tiny_files *files)
{
    static uint8_t space[tiny_size_max];
    struct text json = text_over(space, sizeof(space));

    snprintf(files->directory, sizeof(files->directory), "/tmp/tiny_files.XXXXXX");
    ASSERT(mkdtemp(files->directory) != NULL);
    tiny_add_tokenizer(&json);
    tiny_write(files, "tokenizer.json", text_slice(&json));
}

static inline void tiny_files_remove(const struct tiny_files *files)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "other.jinja", "body.json"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        unlink(tiny_path(files, names[i]));
    }
    ASSERT(rmdir(files->directory) == 0);
}
