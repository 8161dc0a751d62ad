// SPDX-License-Identifier: Apache-2.0

#include "lab/json_file.h"

#include "base/base.h"

void json_file_open(struct json_file *file, FILE *out)
{
    file->out = out;
    file->text = text_over(file->space, sizeof(file->space));
    file->json = json_writer_spaced(&file->text);
}

void json_file_flush(struct json_file *file)
{
    ASSERT(!file->text.overflow);
    fwrite(file->space, 1, file->text.size, file->out);
    file->text.size = 0;
}

void json_file_close(struct json_file *file)
{
    text_add_str(&file->text, "\n");
    json_file_flush(file);
}
