// SPDX-License-Identifier: Apache-2.0

#include "proxy/rig.h"
#include "test.h"

#define LIST_HEAD(size, id)                                                                        \
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: " size                   \
    "\r\nx-request-id: " id "\r\n\r\n"

static struct rig rig;

TEST(models_are_listed_by_the_proxy_itself)
{
    static const struct fleet_model models[] = {{.name = "a/b", .document = "{\"id\":\"a/b\"}"}};
    static const char list[] = "{\"object\":\"list\",\"data\":[{\"id\":\"a/b\"}]}";
    char head[1024];
    char wanted[1024];
    CHECK(rig_start(&rig, &(struct rig_options){0}));
    fleet_set_models(rig.fleet, rig.backends[0].backend, models, 1);
    CHECK(rig_publish(&rig));
    struct peer *client = rig_connect(&rig);
    snprintf(wanted, sizeof(wanted),
             "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n"
             "x-request-id: r\r\n\r\n",
             sizeof(list) - 1);
    CHECK(peer_send(client, "GET /v1/models HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n"));
    CHECK(peer_expect(client, wanted));
    CHECK(peer_expect(client, list));
    CHECK(peer_send(client, "HEAD /v1/models?x HTTP/1.1\r\nhost: h\r\nx-request-id: r\r\n\r\n"));
    CHECK(peer_expect(client, wanted));
    CHECK(peer_send(client, "GET /v1/models/a/b HTTP/1.1\r\nhost: h\r\nx-request-id: q\r\n\r\n"));
    CHECK(peer_expect(client, LIST_HEAD("12", "q") "{\"id\":\"a/b\"}"));
    CHECK(peer_send(client, "GET /v1/models/c HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 404, "model_not_found"));
    CHECK(rig_has_no_call(&rig));
    CHECK(rig_becomes_idle(&rig));
    // Other methods and other paths are the backend's.
    CHECK(peer_send(client, "GET /v1/modelsx HTTP/1.1\r\nhost: h\r\n\r\n"));
    struct peer *backend = rig_accept(&rig, 0);
    CHECK(peer_read_head(backend, head, sizeof(head)));
    CHECK(peer_send(backend, RIG_OK));
    CHECK(peer_expect(client, RIG_OK));
    // With nobody to serve them there are none.
    backend_set_probe(rig.backends[0].backend, BACKEND_PROBE_DOWN, 0);
    fleet_touch(rig.fleet);
    CHECK(rig_publish(&rig));
    CHECK(peer_send(client, "GET /v1/models HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 503, "no_backend"));
    CHECK(peer_send(client, "GET /v1/models/a/b HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 503, "no_backend"));
    CHECK(peer_send(client, "GET /v1/models/c HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 404, "model_not_found"));
    fleet_remove(rig.fleet, rig.backends[0].backend);
    CHECK(rig_publish(&rig));
    CHECK(peer_send(client, "GET /v1/models/c HTTP/1.1\r\nhost: h\r\n\r\n"));
    CHECK(peer_expect_problem(client, 503, "no_backend"));
    CHECK(rig_stop(&rig));
}
