// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_endpoint.h"

#include "net/stub_server.h"
#include "test.h"

TEST(a_url_has_its_parts)
{
    static const struct {
        const char *url;
        const char *authority;
        const char *base;
        bool tls;
    } good[] = {
        {"http://127.0.0.1:8080", "127.0.0.1:8080", "", false},
        {"http://127.0.0.1:8080/", "127.0.0.1:8080", "", false},
        {"http://gpu.example/v1", "gpu.example:80", "", false},
        {"http://gpu.example/v1/", "gpu.example:80", "", false},
        {"https://gpu.example/openai/v1", "gpu.example:443", "/openai", true},
        {"https://[::1]:9/a/b/", "[::1]:9", "/a/b", true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        struct drive_endpoint endpoint;
        CHECK(drive_endpoint_parse(good[i].url, &endpoint) == NULL);
        CHECK_STR(endpoint.authority, good[i].authority);
        CHECK_STR(endpoint.base, good[i].base);
        CHECK_EQ(endpoint.tls, good[i].tls);
    }
}

TEST(anything_but_a_url_is_refused)
{
    static const char *const bad[] = {"",
                                      "localhost",
                                      "ftp://a",
                                      "http://",
                                      "http:///v1",
                                      "http://a:0",
                                      "http://a/x y",
                                      "http://a/x\r\nb: c",
                                      "http://a/x?y=1"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct drive_endpoint endpoint;
        CHECK(drive_endpoint_parse(bad[i], &endpoint) != NULL);
    }
    char longest[1024] = "http://a/";
    memset(longest + 9, 'x', 600);
    struct drive_endpoint endpoint;
    CHECK(drive_endpoint_parse(longest, &endpoint) != NULL);
}

struct scene {
    struct loop *loop;
    struct stub_server server;
    struct drive_endpoint endpoint;
    char model[drive_text_max];
    char error[drive_error_size];
};

static void scene_open(struct scene *scene, const char *answer)
{
    char url[64];
    *scene = (struct scene){0};
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    stub_start(&scene->server, scene->loop);
    scene->server.routes[0] = (struct stub_route){
        .path = "/base/v1/models", .answer = slice_str(answer), .end = STUB_CLOSES};
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/base", scene->server.port);
    ASSERT(drive_endpoint_parse(url, &scene->endpoint) == NULL);
    ASSERT(drive_endpoint_resolve(&scene->endpoint, scene->loop, scene->error));
}

static bool ask(struct scene *scene)
{
    return drive_endpoint_ask(&scene->endpoint, scene->loop, NULL, "Bearer k", scene->model,
                              scene->error);
}

static void scene_close(struct scene *scene)
{
    stub_stop(&scene->server);
    loop_destroy(&scene->loop);
}

TEST(the_first_model_is_taken)
{
    struct scene scene;
    scene_open(&scene, "HTTP/1.1 200 OK\r\n\r\n{\"object\":\"list\",\"data\":[{\"id\":\"m1\"},"
                       "{\"id\":\"m2\"}]}");
    CHECK_EQ(scene.endpoint.address_count, 1);
    CHECK(ask(&scene));
    CHECK_STR(scene.model, "m1");
    CHECK(strstr(scene.server.request, "authorization: Bearer k\r\n") != NULL);
    scene_close(&scene);
}

TEST(an_endpoint_without_a_list_of_models_is_reachable)
{
    struct scene scene;
    scene_open(&scene, "HTTP/1.1 404 No\r\n\r\n");
    CHECK(ask(&scene));
    CHECK_STR(scene.model, "");
    scene_close(&scene);
}

TEST(an_endpoint_that_does_not_listen_is_a_failure_with_a_reason)
{
    struct scene scene;
    scene_open(&scene, "");
    scene.server.slams = true;
    CHECK(!ask(&scene));
    CHECK(scene.error[0] != '\0');
    scene_close(&scene);
}
