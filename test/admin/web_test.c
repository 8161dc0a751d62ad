// SPDX-License-Identifier: Apache-2.0

#include "admin/web.h"

#include "base/text.h"
#include "test.h"

static uint8_t space[1 << 20];
static struct text answer;

static bool ask(const char *method, const char *path)
{
    answer = text_over(space, sizeof(space) - 1);
    bool is_ours = web_respond(slice_str(method), slice_str(path), &answer);
    ASSERT(!answer.overflow);
    space[answer.size] = '\0';
    return is_ours;
}

static bool begins(const char *words)
{
    return slice_starts_with(text_slice(&answer), words);
}

static bool has(const char *words)
{
    return memmem(answer.bytes, answer.size, words, strlen(words)) != NULL;
}

// The body of the response.
static struct slice body(void)
{
    const uint8_t *end = memmem(answer.bytes, answer.size, "\r\n\r\n", 4);
    ASSERT(end != NULL);
    size_t head_size = (size_t)(end - answer.bytes) + 4;
    return slice_of(answer.bytes + head_size, answer.size - head_size);
}

TEST(every_asset_is_served_whole_with_its_type_and_length)
{
    CHECK(web_asset_count > 3);
    for (uint64_t i = 0; i < web_asset_count; i++) {
        const struct web_asset *asset = &web_assets[i];
        char line[128];
        CHECK(ask("GET", asset->path));
        CHECK(begins("HTTP/1.1 200 OK\r\n"));
        snprintf(line, sizeof(line), "\r\ncontent-type: %s\r\ncontent-length: %" PRIu64 "\r\n",
                 asset->type, asset->size);
        CHECK(has(line));
        CHECK(asset->size > 0);
        CHECK(slice_equal(body(), slice_of(asset->bytes, asset->size)));
    }
}

TEST(assets_are_the_files_of_the_tree)
{
    FILE *file = fopen(SOURCE_ROOT "/src/web/index.html", "rb");
    CHECK(file != NULL);
    static uint8_t content[65536];
    size_t size = fread(content, 1, sizeof(content), file);
    fclose(file);
    CHECK(ask("GET", "/dashboard"));
    CHECK(slice_equal(body(), slice_of(content, size)));
}

TEST(a_browser_loads_nothing_from_elsewhere_and_shows_the_page_in_no_other)
{
    CHECK(ask("GET", "/dashboard"));
    CHECK(has("\r\ncontent-security-policy: default-src 'self'; "));
    CHECK(has("frame-ancestors 'none'\r\n"));
    CHECK(has("\r\nx-content-type-options: nosniff\r\n"));
    CHECK(has("\r\nreferrer-policy: no-referrer\r\n"));
    CHECK(!has("unsafe-"));
}

TEST(only_what_has_its_version_in_its_path_is_kept_without_asking)
{
    CHECK(ask("GET", "/dashboard/dashboard.js"));
    CHECK(has("\r\ncache-control: no-cache\r\n"));
    CHECK(ask("GET", "/dashboard/uplot-1.6.32.js"));
    CHECK(has("\r\ncache-control: public, max-age=31536000, immutable\r\n"));
}

TEST(the_licence_of_the_charts_is_there)
{
    CHECK(ask("GET", "/dashboard/uplot-LICENSE"));
    CHECK(begins("HTTP/1.1 200 OK\r\n"));
    CHECK(has("Permission is hereby granted"));
}

TEST(head_is_answered_without_the_body)
{
    CHECK(ask("HEAD", "/dashboard"));
    CHECK(begins("HTTP/1.1 200 OK\r\n"));
    CHECK_EQ(body().size, 0);
    CHECK(ask("HEAD", "/dashboard/none"));
    CHECK(begins("HTTP/1.1 404 "));
    CHECK_EQ(body().size, 0);
}

TEST(the_root_leads_to_the_dashboard)
{
    CHECK(ask("GET", "/"));
    CHECK(begins("HTTP/1.1 302 Found\r\nlocation: /dashboard\r\n"));
    CHECK_EQ(body().size, 0);
}

TEST(the_page_is_there_with_a_slash_too)
{
    CHECK(ask("GET", "/dashboard/"));
    CHECK(begins("HTTP/1.1 200 OK\r\ncontent-type: text/html"));
}

TEST(an_unknown_asset_is_not_found)
{
    static const char *const paths[] = {"/dashboard/none", "/dashboard/../etc/passwd",
                                        "/dashboard/dashboard.js/", "/dashboard//"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        CHECK(ask("GET", paths[i]));
        CHECK(begins("HTTP/1.1 404 "));
    }
}

TEST(nothing_is_sent_to_the_dashboard)
{
    CHECK(ask("POST", "/dashboard"));
    CHECK(begins("HTTP/1.1 405 "));
    CHECK(ask("DELETE", "/"));
    CHECK(begins("HTTP/1.1 405 "));
}

TEST(other_paths_are_left_alone)
{
    static const char *const paths[] = {"/overview", "/dashboards", "/dashboard.js", "/status", ""};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        CHECK(!ask("GET", paths[i]));
        CHECK_EQ(answer.size, 0);
    }
}
