// SPDX-License-Identifier: Apache-2.0

#include "config/config_file.h"

#include <errno.h>
#include <stdio.h>

enum status config_file_read(const char *path, void *bytes, size_t capacity, size_t *size)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        return STATUS_IO;
    }

    enum status status = STATUS_OK;
    errno = 0;
    size_t got = fread(bytes, 1, capacity, file);
    // At the limit, one more read tells whether the file ends here.
    if (ferror(file) == 0 && got == capacity && fgetc(file) != EOF) {
        status = STATUS_TOO_LARGE;
    } else if (ferror(file) != 0) {
        status = STATUS_IO;
    } else {
        *size = got;
    }
    int saved_errno = errno;
    fclose(file);
    errno = saved_errno;
    return status;
}
