"""How long the router waits for a backend."""
import json
import time

import pytest
from client import chat, json_request, request
from harness import eventually, within
from standin import LAST_CHUNK, SSE_HEAD, STALL, BlackHole, chunk, event, head, plain_response


def took(begun, low, high):
    return low <= time.monotonic() - begun < within(high)


def test_connecting_that_takes_too_long_is_504(warmpath):
    hole = BlackHole()
    # Probes would keep the router from listening for a second.
    router = warmpath(hole.url, timeouts_connect="300ms", retry_attempts=1, health_interval=0, models_learn=False)
    begun = time.monotonic()
    response = router.get("/x")
    assert response.status == 504 and response.error()
    assert took(begun, 0.25, 1.5)
    hole.stop()


def test_a_missing_first_byte_is_504_and_the_backend_connection_closes(standin, warmpath):
    engine = standin()
    engine.respond("/x", STALL)
    router = warmpath(engine, timeouts_first_byte="300ms", retry_attempts=1)
    begun = time.monotonic()
    response = router.post("/x", chat())
    assert response.status == 504 and response.error()
    assert took(begun, 0.25, 1.5)
    seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
    assert seen.gone.wait(within(5))


def test_half_a_head_is_not_a_response(standin, warmpath):
    engine = standin()
    engine.respond("/x", b"HTTP/1.1 200 OK\r\nContent-Le", STALL)
    router = warmpath(engine, timeouts_first_byte="300ms", timeouts_between_chunks="300ms", retry_attempts=1)
    response = router.get("/x")
    assert response.status == 504 and response.error()


def test_a_silence_in_a_stream_ends_it_with_an_error_event(standin, warmpath):
    engine = standin()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), STALL)
    router = warmpath(engine, timeouts_between_chunks="300ms")
    begun = time.monotonic()
    response = router.get("/x")
    assert took(begun, 0.25, 1.5)
    assert response.status == 200 and not response.complete
    assert response.events()[0] == "1"
    assert json.loads(response.events()[-1])["error"]["message"]
    assert engine.requests[0].gone.wait(within(5))


def test_a_silence_in_a_sized_body_cuts_it(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Content-Length: 100"), b"half", STALL)
    router = warmpath(engine, timeouts_between_chunks="300ms")
    response = router.get("/x")
    assert (response.status, response.body, response.complete) == (200, b"half", False)


def test_a_stream_lasts_as_long_as_it_sends_events(standin, warmpath):
    engine = standin()
    engine.respond("/x", SSE_HEAD, *[step for _ in range(18) for step in (0.05, chunk(b":\n\n"))], LAST_CHUNK)
    router = warmpath(engine, timeouts_between_chunks="600ms", timeouts_first_byte="600ms")
    response = router.get("/x")
    assert response.complete and response.body == b":\n\n" * 18


def test_a_client_that_reads_slowly_is_not_a_backend_that_is_silent(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), *[chunk(b"x" * 65536)] * 300, LAST_CHUNK)
    router = warmpath(engine, timeouts_between_chunks="500ms")
    with router.connect(receive_buffer=16384) as client:
        client.send(request("GET", "/x"))
        eventually(lambda: engine.requests, "the request arrives")
        time.sleep(1.0)
        response = client.read_response()
        assert response.complete and len(response.body) == 300 * 65536


@pytest.mark.parametrize("line, frame, end", [
    ("Transfer-Encoding: chunked", chunk, LAST_CHUNK), ("Content-Length: 32768000", bytes, b"")],
    ids=["chunked", "sized"])
def test_a_client_that_never_reads_is_given_up(standin, warmpath, line, frame, end):
    engine = standin()
    engine.respond("/x", head(200, line), *[frame(b"x" * 65536)] * 500, end)
    router = warmpath(engine, timeouts_unread="500ms")
    with router.connect(receive_buffer=16384) as client:
        client.send(request("GET", "/x"))
        seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
        assert seen.gone.wait(within(3)), "the backend was never freed"
        response = client.read_response()
        assert not response.complete
    assert router.backend(engine)["failures"] == 0  # it was not the backend's fault


def test_a_client_that_reads_now_and_then_is_not_given_up(standin, warmpath):
    """The kernel reports room only when a third of its buffer is free: the limit must be above
    that.
    """
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), *[chunk(b"x" * 65536)] * 400, LAST_CHUNK)
    router = warmpath(engine, timeouts_unread="1s")
    with router.connect(receive_buffer=16384) as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < 2:
            while len(response.pieces) * 65536 < passed * 3_000_000:  # however long the pauses
                assert client.read_chunk(response)
            time.sleep(0.005)
        client.read_body(response)
        assert response.complete and len(response.body) == 400 * 65536


def test_the_whole_request_has_a_limit_before_the_head(standin, warmpath):
    engine = standin()
    engine.respond("/x", STALL)
    router = warmpath(engine, timeouts_request="300ms")
    begun = time.monotonic()
    response = router.get("/x")
    assert response.status == 504 and response.error()
    assert took(begun, 0.25, 1.5)


def test_the_whole_request_has_a_limit_within_the_stream(standin, warmpath):
    engine = standin()
    engine.respond("/x", SSE_HEAD, *[step for _ in range(100) for step in (0.05, chunk(event(b"1")))], LAST_CHUNK)
    router = warmpath(engine, timeouts_request="500ms")
    begun = time.monotonic()
    response = router.get("/x")
    assert took(begun, 0.4, 2)
    assert response.status == 200 and not response.complete
    assert "error" in response.events()[-1]
    assert engine.requests[0].gone.wait(within(5))


def test_zero_means_no_limit(standin, warmpath):
    engine = standin()
    engine.respond("/x", 0.2, SSE_HEAD, 0.2, chunk(event(b"1")), LAST_CHUNK)
    router = warmpath(engine, timeouts_first_byte=0, timeouts_between_chunks=0, timeouts_request=0)
    assert router.get("/x").complete


def test_idle_backend_connections_are_closed_in_time(standin, warmpath):
    engine = standin()
    router = warmpath(engine, timeouts_backend_keepalive="300ms", health_interval=0, models_learn=False)
    assert router.get("/x").status == 200
    eventually(lambda: not engine.connections, "the idle connection is closed", 3)
    assert router.get("/x").status == 200


def test_a_slow_response_after_a_fast_one_is_not_cut_by_old_timers(standin, warmpath):
    engine = standin()
    engine.respond("/slow", 0.3, plain_response(200, b"slow"))
    router = warmpath(engine, timeouts_first_byte="1s", timeouts_request="1s", workers=1)
    with router.connect() as client:
        for _ in range(4):  # for longer than the timers run
            client.send(json_request("/v1/completions", chat()))
            assert client.read_response().status == 200
            client.send(request("GET", "/slow"))
            assert client.read_response().body == b"slow"
