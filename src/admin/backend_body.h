// SPDX-License-Identifier: Apache-2.0
//
// backend_body.h -- the bodies that change the fleet: POST, PATCH and DELETE of /backends.
//
// Fields have the names, spellings and bounds of the configuration's rows
// (config/option/options.def).  Functions that return false have written the reason to `why`.
#pragma once

#include "base/text.h"
#include "config/config.h"

enum {
    backend_body_models_max = 256,
    backend_body_host_size = 256,
    backend_body_url_size = 4096,
};

// The body of POST /backends.  `spec` points into the other fields.
struct backend_body {
    struct config_backend spec;
    char host[backend_body_host_size];
    const char *models[backend_body_models_max];
    struct text strings; // each ends with a NUL
};

// Strings of `out` lie in memory that backend_body_free gives back, also after false.  If
// memory is short, `strings` has none.
bool backend_body_read(const struct config *config, struct slice body, struct backend_body *out,
                       struct text *why);
void backend_body_free(struct backend_body *body);

// {"weight": 4}
bool backend_body_read_weight(struct slice body, uint32_t *weight, struct text *why);

// {"url": "http://10.0.0.7:8000"}
bool backend_body_read_url(struct slice body, char url[backend_body_url_size], struct text *why);
