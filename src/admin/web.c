// SPDX-License-Identifier: Apache-2.0

#include "admin/web.h"

#include "base/text.h"
#include "http/problem.h"

#include <inttypes.h>

#define PAGE "/dashboard"

// Styles are set by rules and by scripts, never by attributes; nothing is posted but by scripts.
#define CONTENT_SECURITY_POLICY                                                                    \
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "                 \
    "frame-ancestors 'none'"

static const struct web_asset *web_find(struct slice path)
{
    for (uint64_t i = 0; i < web_asset_count; i++) {
        if (slice_is(path, web_assets[i].path)) {
            return &web_assets[i];
        }
    }
    return NULL;
}

static void redirect(struct text *out)
{
    text_add_str(out, "HTTP/1.1 302 Found\r\n"
                      "location: " PAGE "\r\n"
                      "content-length: 0\r\n"
                      "connection: close\r\n\r\n");
}

static void web_serve(const struct web_asset *asset, bool with_body, struct text *out)
{
    text_add_format(out,
                    "HTTP/1.1 200 OK\r\n"
                    "content-type: %s\r\n"
                    "content-length: %" PRIu64 "\r\n"
                    "cache-control: %s\r\n"
                    "content-security-policy: " CONTENT_SECURITY_POLICY "\r\n"
                    "x-content-type-options: nosniff\r\n"
                    "referrer-policy: no-referrer\r\n"
                    "connection: close\r\n\r\n",
                    asset->type, asset->size, asset->cache_control);
    if (with_body) {
        text_add(out, slice_of(asset->bytes, asset->size));
    }
}

bool web_respond(struct slice method, struct slice path, struct text *out)
{
    const struct web_asset *asset = web_find(slice_is(path, PAGE "/") ? slice_str(PAGE) : path);
    bool is_head = slice_is(method, "HEAD");

    if (asset == NULL && !slice_is(path, "/") && !slice_starts_with(path, PAGE "/")) {
        return false;
    }
    if (!is_head && !slice_is(method, "GET")) {
        http_problem_response(
            &(struct http_problem_response){.problem = HTTP_PROBLEM_NO_SUCH_METHOD, .close = true},
            out);
    } else if (slice_is(path, "/")) {
        redirect(out);
    } else if (asset == NULL) {
        http_problem_response(&(struct http_problem_response){.problem = HTTP_PROBLEM_NOT_FOUND,
                                                              .close = true,
                                                              .without_body = is_head},
                              out);
    } else {
        web_serve(asset, !is_head, out);
    }
    return true;
}
