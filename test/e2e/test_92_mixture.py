"""Everything at once: many clients and misbehaving backends; afterwards all resources are free."""
import random
import time

import pytest
from client import Ended, chat, json_request, request
from harness import eventually, is_sanitized, within
from standin import CLOSE, LAST_CHUNK, RESET, SSE_HEAD, chunk, event, head, json_response, plain_response

BEHAVIOURS = [
    [plain_response(200, b"ok")],
    [0.05, plain_response(200, b"late")],
    [plain_response(200, b"ok"), CLOSE],
    [plain_response(200, b"ok", "Connection: close"), CLOSE],
    [head(200, "Transfer-Encoding: chunked"), chunk(b"a" * 5000), 0.02, chunk(b"b"), LAST_CHUNK],
    [SSE_HEAD, *[step for _ in range(5) for step in (chunk(event(b"1")), 0.01)], LAST_CHUNK],
    [head(200), b"until the end", CLOSE],
    [head(103, "Link: <x>"), plain_response(200, b"ok")],
    [plain_response(200, bytes(300_000))],
    [json_response(429, {}, "Retry-After: 1")],
    [json_response(503, {})],
    [json_response(500, {})],
    [RESET],
    [CLOSE],
    [b"garbage\r\n\r\n", CLOSE],
    [b"HTTP/1.1 200 OK\r\nConte", RESET],
    [SSE_HEAD, chunk(event(b"1")), 0.02, RESET],
    [SSE_HEAD, b"50\r\nhalf", CLOSE],
    [head(200, "Content-Length: 100"), b"half", RESET],
    [plain_response(200, b"ok") + b"and more than that"],
]


def behave(engine, seed):
    """Each request gets one of the responses at random."""
    rng = random.Random(seed)
    engine.respond("/mix", lambda _: rng.choice(BEHAVIOURS))


def step(lane, responses):
    """Sends a random request on the lane's connection, or reads the response to the last."""
    rng, client = lane["rng"], lane["client"]
    if lane["waiting"]:
        lane["waiting"] = False
        if rng.random() < 0.1:
            rng.choice([client.close, client.reset])()
            lane["client"] = None
            return
        response = client.read_response()
        responses.append(response.status)
        if not response.complete or response.header("connection") == "close":
            client.close()
            lane["client"] = None
        return
    kind = rng.randrange(4)
    body = bytes(rng.randrange(40_000))
    if kind == 0:
        client.send(request("GET", "/mix"))
    elif kind == 1:
        client.send(request("POST", "/mix", body=body))
    elif kind == 2:
        client.send(request("POST", "/mix", "Transfer-Encoding: chunked")
                    + (chunk(body) if body else b"") + LAST_CHUNK)
    else:
        client.send(json_request("/mix", chat(stream=True)))
    lane["waiting"] = True


@pytest.mark.timeout(120)
@pytest.mark.parametrize("workers", [1, 3])
def test_nothing_is_left_behind(standin, warmpath, workers):
    engines = [standin(name) for name in "abc"]
    for number, engine in enumerate(engines):
        behave(engine, number)
    router = warmpath(*engines, workers=workers, policy="least_requests", health_eject_time="50ms",
                      health_eject_time_max="100ms", timeouts_backend_keepalive="500ms")
    assert router.get("/first").status == 200
    # The last worker may open its descriptors after the first one serves.
    eventually(lambda: "listening on" in router.stderr(), "all workers run")
    descriptors = router.descriptors()
    lanes = [{"rng": random.Random(number), "client": None, "waiting": False} for number in range(40)]
    responses = []
    begun = time.monotonic()
    while len(responses) < 1500:
        assert time.monotonic() - begun < within(60)
        for lane in lanes:
            lane["client"] = lane["client"] or router.connect()
            try:
                step(lane, responses)
            except (Ended, OSError) as error:
                raise AssertionError(f"a request got no response: {error!r}") from error
    for lane in lanes:
        if lane["client"]:
            lane["client"].close()
    assert set(responses) <= {200, 429, 500, 502, 503}, sorted(set(responses))
    assert responses.count(200) > len(responses) / 2
    eventually(lambda: router.in_flight() == 0, "nothing in flight")
    eventually(lambda: router.status()["connections"] == 0, "no connections")
    eventually(lambda: all(engine.open == 0 for engine in engines), "stand-ins are idle")
    eventually(lambda: router.descriptors() <= descriptors + 4, "descriptors are closed", 5)
    states = [row["state"] for row in router.backends().values()]
    assert set(states) <= {"up", "ejected", "half_open"}


def test_memory_does_not_grow_with_requests(standin, warmpath):
    engine = standin()
    router = warmpath(engine, workers=1)

    def load(count):
        with router.connect() as client:
            for number in range(count):
                client.send(request("POST", "/x", body=bytes(number % 30_000)))
                assert client.read_response().status == 200
        for _ in range(count // 10):
            assert router.get("/x").status == 200

    load(3000)  # memory of fixed size (receipt rings, the last decisions) is full by then
    before = router.memory()
    load(2000)
    grown = router.memory() - before
    assert grown < (200_000_000 if is_sanitized() else 1_000_000), f"{grown} bytes"


def test_a_flood_of_closing_connections_is_survived(standin, warmpath):
    router = warmpath(standin())
    assert router.get("/x").status == 200
    descriptors = router.descriptors()
    for number in range(600):
        client = router.connect()
        if number % 3:
            client.send(b"GET /x HTTP/1.1\r\nHost"[: number % 20])
        (client.reset if number % 2 else client.close)()
        router.clients.pop()
    assert router.get("/x").status == 200
    eventually(lambda: router.descriptors() <= descriptors + 4, "descriptors are closed")
