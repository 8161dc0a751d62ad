// SPDX-License-Identifier: Apache-2.0
//
// explain_table.h -- an explanation as tables: the candidates, the chosen one marked; and for each
// backend that reports cached tokens, predicted against actual.
#pragma once

#include <stdio.h>

struct explain_document;

void explain_table_write(const struct explain_document *document, FILE *out);
