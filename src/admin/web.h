// SPDX-License-Identifier: Apache-2.0
//
// web.h -- the dashboard's files, which are part of the program.
//
// They are listed in src/web/assets.txt, and tools/web.py makes them part of the program.  They are
// public and need no token; the page fetches its data from the admin API, with the token that the
// user entered.
//
//     GET /                     to /dashboard
//     GET /dashboard            the page
//     GET /dashboard/FILE       its parts
//     GET /favicon.ico          which browsers request by themselves
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
bool web_respond(struct slice method, struct slice path, struct text *out);
