// SPDX-License-Identifier: Apache-2.0

#include "lab/json_file.h"

#include "test.h"

#include <stdlib.h>

TEST(pieces_make_one_document)
{
    static struct json_file file;
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    ASSERT(out != NULL);
    json_file_open(&file, out);
    json_begin_object(&file.json, NULL);
    json_put_u64(&file.json, "a", 1);
    json_file_flush(&file);
    json_begin_array(&file.json, "b");
    for (uint64_t i = 0; i < 3; i++) {
        json_put_u64(&file.json, NULL, i);
        json_file_flush(&file);
    }
    json_end(&file.json);
    json_end(&file.json);
    json_file_close(&file);
    ASSERT(fclose(out) == 0);
    CHECK_STR(bytes, "{\"a\": 1, \"b\": [0, 1, 2]}\n");
    free(bytes);
}

TEST(more_than_a_piece_goes_through)
{
    static struct json_file file;
    char *bytes = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&bytes, &size);
    ASSERT(out != NULL);
    json_file_open(&file, out);
    json_begin_array(&file.json, NULL);
    for (uint32_t i = 0; i < json_file_piece_max; i++) {
        json_put_u64(&file.json, NULL, 7);
        json_file_flush(&file);
    }
    json_end(&file.json);
    json_file_close(&file);
    ASSERT(fclose(out) == 0);
    CHECK_EQ(size, (size_t)3 * json_file_piece_max + 1); // [ ] and a line's end, less one comma
    free(bytes);
}
