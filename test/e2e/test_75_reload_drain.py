"""Changing and stopping a router that is at work."""
import signal
import socket
import time

import pytest
from client import Ended, chat, json_request, request
from harness import eventually, free_port, within
from standin import LAST_CHUNK, SSE_HEAD, STALL, Gate, chunk, event, plain_response


def config(*engines, more=""):
    rows = "".join(f"  - {engine.url}\n" for engine in engines)
    return f"policy: round_robin\nhealth: {{interval: 0}}\nmodels: {{learn: false}}\n{more}backends:\n{rows}"


def reload(router, text):
    router.write_config(text)
    router.signal(signal.SIGHUP)


def has_backends(router, *engines):
    return set(router.backends()) == {engine.url for engine in engines}


def responding(router, count=8):
    """The engines of some requests in a row."""
    return {router.get("/x").json()["engine"] for _ in range(count)}


# Reload.


def test_added_and_removed_backends_take_effect(standin, warmpath):
    a, b, c = (standin(name) for name in "abc")
    router = warmpath(config=config(a, b))
    assert responding(router) == {"a", "b"}
    reload(router, config(b, c))
    eventually(lambda: has_backends(router, b, c), "the new backends")
    # The admin API shows a change just before the workers have it.
    eventually(lambda: responding(router) == {"b", "c"}, "they get the requests")


def test_a_bad_file_changes_nothing(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(a))
    reload(router, config(b, more="colour: red\n"))
    eventually(lambda: "colour" in router.stderr(), "the error is logged")
    assert has_backends(router, a)
    assert router.get("/x").json()["engine"] == "a"
    reload(router, config(b))
    eventually(lambda: has_backends(router, b), "a good file works afterwards")


def test_a_missing_file_changes_nothing(standin, warmpath):
    a = standin("a")
    router = warmpath(config=config(a))
    router.config_path.unlink()
    router.signal(signal.SIGHUP)
    eventually(lambda: "the old configuration stays in force" in router.stderr(), "the error is logged")
    assert router.get("/x").json()["engine"] == "a"


def test_running_streams_are_never_cut(standin, warmpath):
    a, b = standin("a"), standin("b")
    gate = Gate()
    a.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, chunk(event(b"2")), LAST_CHUNK)
    router = warmpath(config=config(a))
    with router.connect() as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        assert response.status == 200 and client.read_chunk(response)
        reload(router, config(b))
        eventually(lambda: {router.get("/y").json()["engine"] for _ in range(4)} == {"b"}, "b has taken over")
        gate.open()
        client.read_body(response)
        assert response.complete and response.events() == ["1", "2"]
        client.send(request("GET", "/y"))
        assert client.read_response().json()["engine"] == "b"
    eventually(lambda: has_backends(router, b), "a is gone")


def test_weights_and_limits_follow_the_file(standin, warmpath):
    a, b = standin("a"), standin("b")
    text = """
policy: {policy}
health: {{interval: 0}}
models: {{learn: false}}
limits: {{uri_size: {uri}}}
backends:
  - {{url: "{a}", weight: {weight}}}
  - {{url: "{b}"}}
"""
    router = warmpath(workers=1, config=text.format(policy="round_robin", uri=300, a=a.url, b=b.url, weight=1))
    assert router.get("/" + "x" * 350).status == 414
    reload(router, text.format(policy="weighted_round_robin", uri=400, a=a.url, b=b.url, weight=3))
    eventually(lambda: router.backend(a)["weight"] == 3, "the new weight")
    eventually(lambda: router.get("/" + "x" * 350).status == 200, "the new limit")

    def shares():
        names = [router.get("/x").json()["engine"] for _ in range(40)]
        return names.count("a"), names.count("b")

    eventually(lambda: shares() == (30, 10), "requests follow the new weight")


def test_which_names_are_accepted_follows_the_file(standin, warmpath):
    engine = standin(models=["m"])
    text = "models: {{interval: 100ms, any_name: {any_name}}}\nbackends: [{url}]\n"
    router = warmpath(config=text.format(any_name="auto", url=engine.url))
    for any_name, status in [("auto", 404), ("on", 200), ("off", 404)]:
        reload(router, text.format(any_name=any_name, url=engine.url))
        eventually(lambda status=status: router.post("/v1/embeddings", {"model": "gpt-4", "input": "x"}).status == status,
                   any_name)


def test_the_statuses_that_are_retried_follow_the_file(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/x", plain_response(500, b""))
    router = warmpath(workers=1, config=config(a, b, more="retry: {on: [502]}\n"))

    def statuses():
        return {router.get("/x").status for _ in range(2)}

    assert statuses() == {200, 500}
    reload(router, config(a, b, more="retry: {on: [500, 502]}\n"))
    eventually(lambda: statuses() == {200}, "500 is retried")
    reload(router, config(a, b, more="retry: {on: [501]}\n"))
    eventually(lambda: 'retry.on: "501" is not a retryable status' in router.stderr(), "the error is logged")
    assert statuses() == {200}


def test_state_of_backends_that_stay_is_kept(standin, warmpath):
    a, b, c = (standin(name) for name in "abc")
    a.respond("/hold", STALL)
    b.respond("/hold", STALL)
    router = warmpath(config=config(a, b))
    for _ in range(2):
        router.connect().send(request("GET", "/hold"))
    eventually(lambda: router.in_flight() == 2, "two run")
    before = router.backend(a)
    router.admin("POST", f"/backends/{router.backend(b)['id']}/drain")
    reload(router, config(a, b, c))
    eventually(lambda: c.url in router.backends(), "c is there")
    after = router.backend(a)
    assert (after["id"], after["in_flight"]) == (before["id"], before["in_flight"])
    assert router.in_flight() == 2


def test_reloading_again_and_again_under_load(standin, warmpath):
    a, b, c = (standin(name) for name in "abc")
    router = warmpath(config=config(a, b))
    clients = [router.connect() for _ in range(8)]
    for number in range(12):
        for client in clients:
            client.send(json_request("/v1/chat/completions", chat(stream=True, events=5), "X-Standin-Gap: 0.005"))
        reload(router, config(a, c) if number % 2 == 0 else config(a, b))
        for client in clients:
            response = client.read_response()
            assert response.status == 200 and response.complete, response
    eventually(lambda: has_backends(router, a, b), "the last file is in force")


def test_descriptors_do_not_grow_with_reloads(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(a, b))

    def swap(*engines):
        reload(router, config(*engines))
        eventually(lambda: has_backends(router, *engines), "it is in force")
        assert router.get("/x").status == 200

    swap(a)
    swap(a, b)
    before = router.descriptors()
    for _ in range(5):
        swap(a)
        swap(a, b)
    eventually(lambda: router.descriptors() <= before + 6, "descriptors are closed")


# Stopping.


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_responses_finish(standin, warmpath, number):
    engine = standin()
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, chunk(event(b"2")), LAST_CHUNK)
    engine.respond("/y", gate, plain_response(200, b"done"))
    router = warmpath(engine)
    streaming, waiting = router.connect(), router.connect()
    streaming.send(request("GET", "/x"))
    waiting.send(request("GET", "/y"))
    response = streaming.read_head()
    assert streaming.read_chunk(response)
    eventually(lambda: engine.open == 2, "both run")
    router.signal(number)
    eventually(lambda: not accepts(router), "it no longer accepts")
    assert router.process.poll() is None
    gate.open()
    streaming.read_body(response)
    assert response.complete and response.events() == ["1", "2"]
    assert streaming.wait_closed()
    assert waiting.read_response().body == b"done"
    assert waiting.wait_closed()
    assert router.wait_exit(2) == 0


def accepts(router):
    with socket.socket() as sock:
        sock.settimeout(within(1))
        return sock.connect_ex(router.address) == 0


def test_an_idle_router_stops_at_once(standin, warmpath):
    router = warmpath(standin())
    idle = router.connect()
    idle.send(request("GET", "/x"))
    assert idle.read_response().status == 200
    silent = router.connect()
    begun = time.monotonic()
    router.signal(signal.SIGTERM)
    assert router.wait_exit(2) == 0
    assert time.monotonic() - begun < within(1)
    assert idle.wait_closed() and silent.wait_closed()


def test_draining_has_a_limit(standin, warmpath):
    engine = standin()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), STALL)
    router = warmpath(engine, timeouts_drain="500ms")
    client = router.connect()
    client.send(request("GET", "/x"))
    response = client.read_head()
    assert client.read_chunk(response)
    begun = time.monotonic()
    router.signal(signal.SIGTERM)
    client.read_body(response)
    assert not response.complete
    assert router.wait_exit(3) == 0
    assert 0.4 < time.monotonic() - begun < within(2)


def test_a_second_signal_ends_at_once(standin, warmpath):
    engine = standin()
    engine.respond("/x", STALL)
    router = warmpath(engine, timeouts_drain="60s")
    client = router.connect()
    client.send(request("GET", "/x"))
    eventually(lambda: engine.open == 1, "it runs")
    router.signal(signal.SIGTERM)
    eventually(lambda: not accepts(router), "it drains")
    begun = time.monotonic()
    router.signal(signal.SIGTERM)
    router.wait_exit(2)
    assert time.monotonic() - begun < within(1)
    assert engine.requests[0].gone.wait(within(1))


def test_a_request_that_is_being_sent_at_the_signal_gets_its_response(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    client = router.connect()
    client.send(request("POST", "/x", "Content-Length: 10") + b"12345")
    eventually(lambda: router.status()["in_flight"] == 1, "the head has arrived")
    router.signal(signal.SIGTERM)
    eventually(lambda: not accepts(router), "it drains")
    client.send(b"67890")
    try:
        response = client.read_response()
        assert response.status == 200 and response.json()["size"] == 10
        assert client.wait_closed()
    except Ended:
        pytest.fail("a request whose head had arrived was dropped")
    assert router.wait_exit(3) == 0


def test_many_streams_finish_while_draining(standin, warmpath):
    engine = standin()
    gate = Gate()
    rest = [step for number in range(1, 10) for step in (0.05, chunk(event(b"%d" % number)))]
    engine.respond("/v1/chat/completions", SSE_HEAD, chunk(event(b"0")), gate, *rest, chunk(event(b"[DONE]")), LAST_CHUNK)
    router = warmpath(engine)
    clients = [router.connect() for _ in range(50)]
    for client in clients:
        client.send(json_request("/v1/chat/completions", chat(stream=True)))
    eventually(lambda: engine.open == 50, "all run")
    router.signal(signal.SIGTERM)
    eventually(lambda: not accepts(router), "it drains")
    gate.open()
    for client in clients:
        response = client.read_response()
        assert response.complete and response.events()[-1] == "[DONE]"
    assert router.wait_exit(2) == 0


def test_the_port_is_free_for_a_successor_while_the_old_one_drains(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", gate, plain_response(200, b"old"))
    old = warmpath(engine)
    client = old.connect()
    client.send(request("GET", "/x"))
    eventually(lambda: engine.open == 1, "it runs")
    old.signal(signal.SIGTERM)
    eventually(lambda: not accepts(old), "it drains")
    new = warmpath(start=False)
    new.port = old.port
    new.admin_port = free_port()
    new.stderr_path = new.stderr_path.with_suffix(".new")
    new.start([engine])
    assert new.get("/y").status == 200
    gate.open()
    assert client.read_response().body == b"old"
    assert old.wait_exit(2) == 0
