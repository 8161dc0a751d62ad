// SPDX-License-Identifier: Apache-2.0
//
// models_list.h -- reads the response of a backend to GET /v1/models.
#pragma once

#include "base/slice.h"
#include "base/status.h"

struct fleet_model;

enum { models_list_count_max = 4096 };

struct models_list {
    struct fleet_model *models; // names and documents are in `memory`
    uint32_t count;
    char *memory;
};

// {"object":"list","data":[{"id":"name",…},…]}.  MALFORMED: another form.  EXHAUSTED: memory is
// short.  Both leave `*out` untouched.  An entry without a usable id (a string, not empty, no NUL
// in it) is left out, and so is what comes after models_list_count_max.  A document is the entry as
// it was sent, byte for byte.  Only llama-server shows that it ignores the name in requests.
// On success the caller owes models_list_free.
enum status models_list_read(struct slice body, struct models_list *out);
void models_list_free(struct models_list *list);
