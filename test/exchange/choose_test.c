// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define POST "POST /a HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n"

static struct rig rig;

// Reads the request from whatever backend gets it and answers it.
static bool serve(struct peer *client, uint32_t *index)
{
    struct peer *backend = rig_accept_any(&rig, index);
    bool served = peer_expect(backend, RIG_GET) &&
                  peer_send(backend, "HTTP/1.1 200 OK\r\nx-request-id: r\r\n"
                                     "connection: close\r\ncontent-length: 2\r\n\r\nok") &&
                  peer_expect(client, RIG_OK) && peer_expect_end(backend);
    peer_close(backend);
    return served;
}

TEST(a_backend_is_left_out_after_faults_in_a_row)
{
    uint32_t bad;
    uint32_t index;
    CHECK(rig_start(&rig,
                    &(struct rig_options){.config = "health: {eject_failures: 1, eject_time: 1h, "
                                                    "eject_time_max: 1h}",
                                          .backend_count = 2}));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, RIG_GET));
    struct peer *backend = rig_accept_any(&rig, &bad);
    CHECK(peer_expect(backend, RIG_GET));
    CHECK(peer_send(backend, "HTTP/1.1 500 Oh\r\nx-request-id: r\r\ncontent-length: 0\r\n\r\n"));
    CHECK(peer_expect(client, "HTTP/1.1 500 Oh\r\nx-request-id: r\r\ncontent-length: 0\r\n\r\n"));
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(peer_send(client, RIG_GET));
        CHECK(serve(client, &index));
        CHECK_EQ(index, 1 - bad);
    }
    // With nobody else left it is tried all the same.
    fleet_set_draining(rig.fleet, rig.backends[1 - bad].backend, true);
    CHECK(rig_publish(&rig));
    CHECK(peer_send(client, RIG_GET));
    CHECK(peer_expect(backend, RIG_GET)); // on the connection that it kept
    CHECK(rig_stop(&rig));
}

TEST(an_empty_fleet_is_503_at_once)
{
    static const struct fleet_model models[] = {{.name = "m", .document = "{}"}};
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, models, 1);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, POST "content-length: 13\r\n\r\n{\"model\":\"n\"}"));
    CHECK(peer_expect_problem(client, 404, "model_not_found"));
    fleet_set_draining(rig.fleet, rig.backends[0].backend, true);
    CHECK(rig_publish(&rig));
    CHECK(peer_send(client, POST "content-length: 13\r\n\r\n{\"model\":\"m\"}"));
    CHECK(peer_expect_problem(client, 503, "no_backend"));
    fleet_remove(rig.fleet, rig.backends[0].backend);
    CHECK(rig_publish(&rig));
    CHECK(peer_send(client, POST "content-length: 13\r\n\r\n{\"model\":\"n\"}"));
    CHECK(peer_expect_problem(client, 503, "no_backend"));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_stop(&rig));
}

TEST(a_404_names_the_models_that_exist)
{
    static const struct fleet_model models[] = {{.name = "a\"b", .document = "{}"},
                                                {.name = "c", .document = "{}"}};
    static const char *const requests[] = {
        POST "content-length: 13\r\n\r\n{\"model\":\"n\"}",
        "GET /v1/models/n HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n",
    };
    char answer[4096];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, models, 2);
    CHECK(rig_publish(&rig));
    for (size_t i = 0; i < ARRAY_COUNT(requests); i++) {
        struct peer *client = rig_connect(&rig);
        CHECK(peer_send(client, requests[i]));
        CHECK(peer_read_head(client, answer, sizeof(answer)));
        CHECK(strstr(answer, "HTTP/1.1 404 ") == answer);
        CHECK(peer_expect(
            client, "{\"error\":{\"message\":\"No backend serves the model: n; the models are "
                    "a\\\"b, c (names that engines accept but do not list go into pools.models)"
                    "\",\"type\":\"invalid_request_error\",\"param\":null,"
                    "\"code\":\"model_not_found\"}}"));
        peer_close(client);
    }
    CHECK(rig_stop(&rig));
}

TEST(a_404_for_a_very_long_name_fits)
{
    static const struct fleet_model model = {.name = "m", .document = "{}"};
    char request[4096];
    char name[512 * 6 + 1] = "";
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, &model, 1);
    CHECK(rig_publish(&rig));
    for (uint32_t i = 0; i < 512; i++) {
        memcpy(name + (size_t)i * 6, "\\u0001", 7);
    }
    snprintf(request, sizeof(request), POST "content-length: %zu\r\n\r\n{\"model\":\"%s\"}",
             strlen(name) + strlen("{\"model\":\"\"}"), name);
    struct peer *client = rig_connect(&rig);
    CHECK(peer_send(client, request));
    CHECK(peer_expect_problem(client, 404, "model_not_found"));
    CHECK(rig_stop(&rig));
}
