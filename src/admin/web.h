// SPDX-License-Identifier: Apache-2.0
//
// web.h -- the dashboard's files, which are part of the program.
//
// They are listed in src/web/assets.txt and come here through tools/web.py, as bytes.  They are the
// same for everybody and tell nothing, so no token is asked for; what the page shows it fetches
// from the admin API, with the token that its reader gave it.
//
//     GET /                     to /dashboard
//     GET /dashboard            the page
//     GET /dashboard/FILE       what it consists of
//     GET /favicon.ico          what browsers ask for by themselves
//
// Each response forbids the browser to load anything from another host, or to show the page inside
// another one.
#pragma once

#include "base/slice.h"

struct text;

// As tools/web.py writes it: five words.
struct web_asset {
    const char *path;
    const char *type;
    const char *cache_control;
    const uint8_t *bytes;
    uint64_t size;
};

extern const struct web_asset web_assets[];
extern const uint64_t web_asset_count;

// Writes the whole response.  False, with nothing written: not one of our paths.
bool web_answer(struct slice method, struct slice path, struct text *out);
