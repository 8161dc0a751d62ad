"""The admin API."""
import pytest
from client import Client, Ended, chat, json_request, request
from harness import eventually, free_port, within
from standin import STALL, Gate, plain_response

QUIET = {"health_interval": 0, "models_learn": False, "policy": "round_robin"}


@pytest.mark.parametrize("token", [None, "wrong", "", "test-admin-tokenx", "test-admin-toke"])
@pytest.mark.parametrize("method, target", [("GET", "/status"), ("GET", "/backends"), ("POST", "/backends"),
                                            ("DELETE", "/backends/1")])
def test_every_path_needs_the_token(standin, warmpath, token, method, target):
    engine = standin()
    router = warmpath(engine, **QUIET)
    response = router.admin(method, target, token=token)
    assert response.status == 401
    assert len(router.backends()) == 1


def test_admin_is_not_on_the_data_listener(standin, warmpath):
    engine = standin()
    router = warmpath(engine, **QUIET)
    response = router.get("/backends", "Authorization: Bearer test-admin-token")
    assert response.json()["engine"] == "engine"


def test_status_reports_the_router_at_a_glance(standin, warmpath):
    engine = standin()
    engine.respond("/hold", STALL)
    router = warmpath(engine, **QUIET)
    assert isinstance(router.status()["version"], str) and router.status()["uptime_s"] >= 0
    eventually(router.is_idle, router.status)
    client = router.connect()
    client.send(request("GET", "/hold"))
    eventually(lambda: engine.open == 1, "it runs")
    assert (router.status()["in_flight"], router.status()["connections"]) == (1, 1)


def test_backends_are_listed_with_state_load_and_models(standin, warmpath):
    a, b = standin("a", models=["m1"]), standin("b", models=["m2"])
    a.respond("/hold", STALL)
    router = warmpath(config=f"""
policy: round_robin
backends:
  - url: {a.url}
    weight: 3
  - url: {b.url}
""")
    # At its start the router waits for the lists only for a second.
    eventually(lambda: all(router.backend(engine)["models"] == engine.models for engine in (a, b)), "models are known")
    rows = router.admin("GET", "/backends").json()["backends"]
    assert [row["url"] for row in rows] == [a.url, b.url]
    assert [row["weight"] for row in rows] == [3, 1]
    assert [row["models"] for row in rows] == [["m1"], ["m2"]]
    assert [row["address"] for row in rows] == [f"127.0.0.1:{a.port}", f"127.0.0.1:{b.port}"]
    assert {row["state"] for row in rows} == {"up"} and {row["pool"] for row in rows} == {"default"}
    assert len({row["id"] for row in rows}) == 2
    client = router.connect()
    client.send(json_request("/hold", {"model": "m1"}))
    eventually(lambda: router.backend(a)["in_flight"] == 1, "it is counted")
    assert router.backend(b)["in_flight"] == 0
    for _ in range(3):
        router.post("/v1/embeddings", {"model": "m2", "input": "x"})
    eventually(lambda: router.backend(b)["requests"] == 3, "they are counted")


def test_an_added_backend_takes_requests(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, workers=1, **QUIET)
    response = router.admin("POST", "/backends", {"url": b.url, "weight": 2})
    assert response.status == 201
    made = response.json()
    assert (made["url"], made["weight"], made["in_flight"]) == (b.url, 2, 0)
    assert router.backend(b)["id"] == made["id"]
    eventually(lambda: router.get("/x").json()["engine"] == "b", "b is asked")


def test_a_router_may_start_empty(standin, warmpath):
    engine = standin()
    router = warmpath(**QUIET)
    response = router.get("/x")
    assert response.status == 503 and response.error()
    assert router.admin("POST", "/backends", {"url": engine.url}).status == 201
    eventually(lambda: router.get("/x").status == 200, "the backend is asked")


def test_a_fleet_without_backends_knows_no_model_to_be_missing(standin, warmpath):
    engine = standin(models=["m1"])
    router = warmpath(models_interval="100ms", health_interval="100ms")

    def ask():
        return router.post("/v1/embeddings", {"model": "m1", "input": "x"})

    for _ in range(2):
        response = eventually(lambda: (found := ask()).status != 200 and found, "the backend is gone")
        assert (response.status, response.error()["code"]) == (503, "no_backend"), response
        assert response.error()["message"] == "No usable backend: the fleet is empty"
        assert response.header("retry-after") == "1"
        assert router.get("/v1/models/m1").status == 503
        added = router.admin("POST", "/backends", {"url": engine.url}).json()
        eventually(lambda: ask().status == 200 and router.backend(engine)["models"] == ["m1"], "it has its models")
        assert router.admin("DELETE", f"/backends/{added['id']}").status == 204


def test_an_added_backend_may_name_its_models(standin, warmpath):
    a, b = standin("a", models=["m1"]), standin("b", models=["m1"])
    router = warmpath(a)
    assert router.admin("POST", "/backends", {"url": b.url, "models": ["m9"]}).status == 201

    def served_by_b():
        response = router.post("/v1/embeddings", {"model": "m9", "input": "x"})
        return response.status == 200 and response.header("x-warmpath-backend") == b.url

    eventually(served_by_b, "m9 is served")


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"{}", b'{"url": 5}', b'{"url": "ftp://x"}', b'{"url": "http://127.0.0.1:99999"}',
    b'{"url": "http://127.0.0.1:1", "weight": 0}', b'{"url": "http://127.0.0.1:1", "weight": -1}',
    b'{"url": "http://127.0.0.1:1", "weight": "heavy"}', b'{"url": "http://127.0.0.1:1", "colour": "red"}',
    b'{"url": "http://127.0.0.1:1", "pool": "no-such-pool"}', b'{"url": "http://127.0.0.1:1", "models": "m"}'],
    ids=repr)
def test_an_invalid_backend_is_refused(standin, warmpath, body):
    router = warmpath(standin(), **QUIET)
    with Client(("127.0.0.1", router.admin_port), within(5)) as client:
        client.send(request("POST", "/backends", "Authorization: Bearer test-admin-token", body=body))
        response = client.read_response()
    assert 400 <= response.status < 500 and response.status != 401
    assert response.error()["message"]
    assert len(router.backends()) == 1


def test_the_same_backend_cannot_be_added_twice(standin, warmpath):
    engine = standin()
    router = warmpath(engine, **QUIET)
    response = router.admin("POST", "/backends", {"url": engine.url})
    assert response.status in (400, 409) and response.error()
    assert len(router.backends()) == 1


def test_a_removed_backend_finishes_its_requests(standin, warmpath):
    a, b = standin("a"), standin("b")
    gates = {"a": Gate(), "b": Gate()}
    for engine in (a, b):
        engine.respond("/slow", gates[engine.name], plain_response(200, engine.name.encode()))
    router = warmpath(a, b, workers=1, **QUIET)
    clients = [router.connect() for _ in range(2)]
    for client in clients:
        client.send(request("GET", "/slow"))
    eventually(lambda: a.open == 1 and b.open == 1, "both run")
    response = router.admin("DELETE", f"/backends/{router.backend(a)['id']}")
    assert response.status == 204 and response.body == b""
    assert {router.get("/x").json()["engine"] for _ in range(6)} == {"b"}
    for gate in gates.values():
        gate.open()
    assert {client.read_response().body for client in clients} == {b"a", b"b"}
    eventually(lambda: a.url not in router.backends(), "a is gone")


def test_a_removed_backend_can_be_added_again(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, workers=1, **QUIET)
    for _ in range(5):
        assert router.admin("DELETE", f"/backends/{router.backend(b)['id']}").status == 204
        eventually(lambda: b.url not in router.backends(), "b is gone")
        assert router.admin("POST", "/backends", {"url": b.url}).status == 201
        eventually(lambda: router.get("/x").json()["engine"] == "b", "b is asked")


def test_a_drained_backend_gets_no_requests_until_it_is_ready(standin, warmpath):
    a, b = standin("a"), standin("b")
    gate = Gate()
    a.respond("/slow", gate, plain_response(200, b"done"))
    router = warmpath(a, b, workers=1, **QUIET)
    number = router.backend(a)["id"]
    with router.connect() as client:
        for sent in (1, 2):  # one of two goes to a
            other = router.connect()
            other.send(request("GET", "/slow"))
            eventually(lambda sent=sent: a.open + len(b.requests) == sent, "it is sent")
            if a.open:
                break
        assert a.open == 1
        assert router.admin("POST", f"/backends/{number}/drain").status in (200, 204)
        assert router.backend(a)["state"] == "draining"
        assert {router.get("/x").json()["engine"] for _ in range(6)} == {"b"}
        gate.open()
        assert other.read_response().body == b"done"
        client.send(request("GET", "/x"))
        assert client.read_response().json()["engine"] == "b"
    assert router.admin("POST", f"/backends/{number}/ready").status in (200, 204)
    router.wait_state(a, "up")
    assert {router.get("/x").json()["engine"] for _ in range(6)} == {"a", "b"}


def test_a_drained_backend_is_not_brought_back_by_probes(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, health_interval="50ms", health_rise=1)
    router.admin("POST", f"/backends/{router.backend(a)['id']}/drain")
    seen = len(a.probes)
    eventually(lambda: len(a.probes) >= seen + 3 or len(b.probes) >= seen + 10, "some more probes")
    assert router.backend(a)["state"] == "draining"


def test_with_every_backend_draining_the_response_is_503(standin, warmpath):
    a = standin("a")
    router = warmpath(a, **QUIET)
    router.admin("POST", f"/backends/{router.backend(a)['id']}/drain")
    response = router.get("/x")
    assert response.status == 503 and response.error()


def test_a_weight_can_be_changed(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, workers=1, **{**QUIET, "policy": "weighted_round_robin"})
    response = router.admin("PATCH", f"/backends/{router.backend(a)['id']}", {"weight": 3})
    assert response.status == 200 and response.json()["weight"] == 3
    assert router.backend(a)["weight"] == 3
    names = [router.get("/x").json()["engine"] for _ in range(44)][4:]
    assert (names.count("a"), names.count("b")) == (30, 10)
    for body in ({"weight": 0}, {"weight": 1.5}, {"height": 3}, {}):
        assert router.admin("PATCH", f"/backends/{router.backend(a)['id']}", body).status in (400, 422)
    assert router.backend(a)["weight"] == 3


@pytest.mark.parametrize("method, target, status", [
    ("DELETE", "/backends/999", 404), ("POST", "/backends/999/drain", 404), ("PATCH", "/backends/999", 404),
    ("DELETE", "/backends/x", 404), ("GET", "/nothing", 404), ("PUT", "/backends", 405), ("DELETE", "/status", 405),
    ("POST", "/backends/1/explode", 404)])
def test_unknown_paths_and_backends_are_404(standin, warmpath, method, target, status):
    router = warmpath(standin(), **QUIET)
    response = router.admin(method, target, {"weight": 1} if method in ("PATCH", "POST", "PUT") else None)
    assert response.status == status and response.error()
    assert len(router.backends()) == 1


def test_backends_change_under_load_without_a_failed_request(standin, warmpath):
    fixed, extra = standin("fixed"), standin("extra")
    router = warmpath(fixed, **QUIET)
    clients = [router.connect() for _ in range(8)]
    for _ in range(15):
        made = router.admin("POST", "/backends", {"url": extra.url}).json()
        for client in clients:
            client.send(json_request("/v1/chat/completions", chat(stream=True, events=5), "X-Standin-Gap: 0.002"))
        assert router.admin("DELETE", f"/backends/{made['id']}").status == 204
        for client in clients:
            response = client.read_response()
            assert response.status == 200 and response.complete
        eventually(lambda: extra.url not in router.backends(), "it is gone")
    # The last byte may be read before the worker has released its exchange.
    eventually(lambda: router.status()["in_flight"] == 0, "all are counted out")


def test_slots_for_backends_are_limited(standin, warmpath):
    a, b, c = (standin(name) for name in "abc")
    router = warmpath(a, limits_backends=2, **QUIET)
    assert router.admin("POST", "/backends", {"url": b.url}).status == 201
    refused = router.admin("POST", "/backends", {"url": c.url})
    assert refused.status >= 400 and refused.error()
    assert set(router.backends()) == {a.url, b.url}
    assert router.admin("DELETE", f"/backends/{router.backend(b)['id']}").status == 204
    eventually(lambda: router.admin("POST", "/backends", {"url": c.url}).status == 201, "the slot is free again")


def test_the_token_may_be_in_a_file(standin, warmpath, tmp_path):
    (tmp_path / "token").write_text("test-admin-token\n")
    router = warmpath(standin(), admin_token=None, admin_token_file=tmp_path / "token", **QUIET)
    assert len(router.backends()) == 1
    assert router.admin("GET", "/status", token="other").status == 401


def test_a_dead_backend_can_be_added_and_removed(standin, warmpath):
    engine = standin()
    router = warmpath(engine, **QUIET)
    made = router.admin("POST", "/backends", {"url": f"http://127.0.0.1:{free_port()}"}).json()
    for _ in range(4):
        assert router.get("/x").status == 200
    assert router.admin("DELETE", f"/backends/{made['id']}").status == 204


# The API itself.


def test_admin_serves_again_and_refuses_malformed_requests(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    authorized = "Authorization: Bearer test-admin-token"
    with Client(("127.0.0.1", router.admin_port), within(5)) as client:
        for _ in range(5):
            client.send(request("GET", "/status", authorized))
            response = client.read_response()
            assert response.status == 200
            if response.header("connection") == "close":
                break
    for nonsense in (b"garbage\r\n\r\n", request("POST", "/backends", authorized, "Content-Length: 5",
                                                   "Transfer-Encoding: chunked")):
        with Client(("127.0.0.1", router.admin_port), within(5)) as client:
            client.send(nonsense)
            assert client.read_response().status == 400
    with Client(("127.0.0.1", router.admin_port), within(5)) as client:
        try:
            client.send(request("POST", "/backends", authorized, body=b" " * 50_000_000))
            status = client.read_response().status
        except (Ended, OSError):
            status = 413
        assert status == 413


def test_slow_admin_clients_do_not_disturb_others(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, health_interval="100ms", health_fall=1, health_rise=1)
    slow = [Client(("127.0.0.1", router.admin_port), within(5)) for _ in range(20)]
    for client in slow:
        client.send(b"GET /status HTT")
    a.health_status = 503
    router.wait_state(a, "down")
    assert {router.get("/x").json()["engine"] for _ in range(4)} == {"b"}
    for client in slow:
        client.reset()
    router.wait_state(b, "up")
