// SPDX-License-Identifier: Apache-2.0

#include "http/path.h"

#include "base/rng.h"
#include "test.h"

static const char *plain(const char *path)
{
    static uint8_t space[http_path_size_max + 1];
    struct slice out = http_path_plain(slice_str(path), space);
    space[out.size] = '\0';
    return (const char *)space;
}

TEST(spellings_of_one_path_become_one)
{
    static const char *const same[] = {"/shutdown",      "/%73hutdown",        "//shutdown",
                                       "/./shutdown",    "/shutdown/",         "/shutdown;x",
                                       "/a/../shutdown", "/a/%2e%2E/shutdown", "/shut%64own//./"};
    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        CHECK_STR(plain(same[i]), "/shutdown");
    }
}

TEST(other_paths_stay_apart)
{
    CHECK_STR(plain("/a//b/%2e%2E/./c;v=1/"), "/a/c");
    CHECK_STR(plain("/"), "/");
    CHECK_STR(plain(""), "/");
    CHECK_STR(plain("/../.."), "/");
    CHECK_STR(plain("*"), "/*");
    CHECK_STR(plain("/%2573hutdown"), "/%73hutdown"); // decoded once, as servers do
    CHECK_STR(plain("/%zz%4"), "/%zz%4");
    CHECK_STR(plain("/Shutdown"), "/Shutdown");
}

TEST(random_bytes_stay_within_the_given_space)
{
    static char path[4096];
    static const char pieces[] = "/.;%2eab";
    struct rng rng = {.state = 11};
    for (int round = 0; round < 20000; round++) {
        size_t size = rng_below(&rng, sizeof(path) - 1);
        for (size_t i = 0; i < size; i++) {
            path[i] = pieces[rng_below(&rng, sizeof(pieces) - 1)];
        }
        path[size] = '\0';
        const char *out = plain(path);
        CHECK(out[0] == '/');
        CHECK(strstr(out, "//") == NULL);
    }
}
