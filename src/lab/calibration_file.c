// SPDX-License-Identifier: Apache-2.0

#include "lab/calibration_file.h"

#include "base/text.h"
#include "config/option/command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool calibration_file_read(const char *command, const char *path, struct calibration *out)
{
    char error[calibration_error_size];
    size_t size = 0;
    uint8_t *space = malloc(calibration_file_size_max);
    if (space == NULL) {
        return command_fail(command, path, "memory is short");
    }
    bool is_good = command_read_file(command, path, space, calibration_file_size_max, &size);
    if (is_good && calibration_read(slice_of(space, size), out, error) != STATUS_OK) {
        is_good = command_fail(command, path, error);
    }
    free(space);
    return is_good;
}

bool calibration_file_profile(const char *command, const char *path, const char *model,
                              struct profile *out)
{
    struct calibration calibration;
    char error[calibration_error_size];
    if (path == NULL) {
        model = model != NULL ? model : "";
        return profile_find(model, out) ||
               command_fail_name(command, "model without --calibration FILE is called", model,
                                 profile_name);
    }
    if (!calibration_file_read(command, path, &calibration)) {
        return false;
    }
    bool is_good = calibration_profile(&calibration, model, out, error) == STATUS_OK ||
                   command_fail(command, path, error);
    calibration_destroy(&calibration);
    return is_good;
}

bool calibration_file_write(const char *command, const char *path,
                            const struct calibration *calibration)
{
    uint8_t *space = malloc(calibration_file_size_max);
    if (space == NULL) {
        return command_fail(command, path, "memory is short");
    }
    struct text text = text_over(space, calibration_file_size_max);
    calibration_write(calibration, &text);
    FILE *file = NULL;
    bool is_good =
        !text.overflow || command_fail(command, path, "is too large for a calibration file");
    if (is_good) {
        file = command_open_file(command, path);
        is_good = file != NULL && fwrite(text.bytes, 1, text.size, file) <= text.size;
    }
    free(space);
    return command_close_file(command, path, &file) && is_good;
}
