// SPDX-License-Identifier: Apache-2.0

#include "lab/trace_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An hour of a busy service is 3 MB; a larger file is a mistake.
static const size_t size_max = (size_t)4 << 30;
static const size_t size_first = (size_t)1 << 20;

static char *trace_file_grow(char *bytes, size_t *room)
{
    *room = *room == 0 ? size_first : 2 * *room;
    return *room > size_max ? NULL : realloc(bytes, *room);
}

// All of the file, to be freed; NULL: `*why` says why not.
static char *trace_file_read_all(FILE *file, size_t *size, const char **why)
{
    char *bytes = NULL;
    size_t room = 0;

    *size = 0;
    do {
        char *grown = *size == room ? trace_file_grow(bytes, &room) : bytes;
        if (grown == NULL) {
            *why = "it is too large";
            free(bytes);
            return NULL;
        }
        bytes = grown;
        *size += fread(bytes + *size, 1, room - *size, file);
    } while (!feof(file) && !ferror(file));
    if (ferror(file)) {
        *why = strerrordesc_np(errno);
        free(bytes);
        return NULL;
    }
    return bytes;
}

bool trace_file_read(const char *path, struct mooncake_trace *out,
                     char error[trace_file_error_size])
{
    const char *why = NULL;
    char detail[mooncake_error_size];
    size_t size = 0;
    char *bytes = NULL;
    FILE *file = fopen(path, "rbe");

    if (file == NULL) {
        why = strerrordesc_np(errno);
    } else {
        bytes = trace_file_read_all(file, &size, &why);
        fclose(file);
    }
    if (bytes != NULL && mooncake_read(slice_of(bytes, size), out, detail) != STATUS_OK) {
        why = detail;
    }
    free(bytes);
    if (why != NULL) {
        snprintf(error, trace_file_error_size, "%s: %s", path, why);
    }
    return why == NULL;
}

void trace_file_name(const char *path, char out[trace_file_name_size])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t size = dot != NULL && dot > name ? (size_t)(dot - name) : strlen(name);
    size = size < trace_file_name_size ? size : trace_file_name_size - 1;
    memcpy(out, name, size);
    out[size] = '\0';
}
