// SPDX-License-Identifier: Apache-2.0
//
// json_file.h -- a JSON document that goes to a file piece by piece, for reports of any length.
//
// json_file_flush is called between pieces, each of which must fit json_file_piece_max; a larger
// one is a mistake in the caller.  Write errors stay with the file: ferror tells.
//
// Threads: one owner.  Memory: the caller's.
#pragma once

#include "json/json_writer.h"

#include <stdio.h>

enum { json_file_piece_max = 65536 };

struct json_file {
    struct json_writer json;
    FILE *out;
    struct text text;
    uint8_t space[json_file_piece_max];
};

// Keeps `out`.  The document has a space behind every comma and colon.
void json_file_open(struct json_file *file, FILE *out);

void json_file_flush(struct json_file *file);

// Flushes, and ends the last line.
void json_file_close(struct json_file *file);
