"""Streams: each part at once, back-pressure, and either side leaving."""
import json
import time

import pytest
from client import chat, json_request, request
from harness import eventually, is_sanitized, within
from standin import CLOSE, LAST_CHUNK, RESET, SSE_HEAD, STALL, Gate, chunk, event, head

STREAM = json_request("/v1/chat/completions", chat(stream=True))


def events_behind(gates, engine):
    """Steps of a chat response with a gate between every two events."""
    rest = iter(gates)
    return lambda seen: [next(rest) if step == 1 else step for step in engine.event_steps(
        seen, seen.json(), len(gates) + 1, gap=1)]


def test_events_arrive_one_by_one(standin, warmpath):
    engine = standin("a")
    router = warmpath(engine)
    delays = []
    for _ in range(3):
        gates = [Gate() for _ in range(4)]
        engine.respond("/v1/chat/completions", events_behind(gates, engine))
        with router.connect() as client:
            client.send(STREAM)
            response = client.read_head()
            for gate in gates:
                assert client.read_chunk(response)
                gate.open()  # the next event is sent when this one has arrived
            client.read_body(response)
        assert response.status == 200 and response.complete
        assert response.header("content-type") == "text/event-stream"
        assert response.events()[-1] == "[DONE]" and len(response.events()) == 6
        words = [json.loads(data)["choices"][0]["delta"]["content"] for data in response.events()[:-1]]
        assert "".join(words) == "a-0 a-1 a-2 a-3 a-4 "
        sent = engine.requests[-1].sent_at[1:]  # without the head
        came = [when for when, piece in response.pieces for _ in range(piece.count(b"\n\n"))]
        assert len(came) == len(sent), (sent, response.pieces)
        delays.append(max(there - here for here, there in zip(sent, came)))
    # A router that holds events back does so in every try.
    assert min(delays) < within(0.1), delays


def test_the_first_part_is_there_before_the_second_is_sent(standin, warmpath):
    engine = standin()
    gates = [Gate() for _ in range(3)]
    engine.respond("/x", SSE_HEAD, gates[0], chunk(b"data: 1\n\n"), gates[1], chunk(b"data: 2"), gates[2],
                  chunk(b"\n\n") + LAST_CHUNK)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        response = client.read_head()  # the head does not wait for a body
        gates[0].open()
        assert client.read_chunk(response) and response.body == b"data: 1\n\n"
        gates[1].open()
        assert client.read_chunk(response) and response.body == b"data: 1\n\ndata: 2"
        gates[2].open()
        client.read_body(response)
    assert response.complete and response.body == b"data: 1\n\ndata: 2\n\n"


@pytest.mark.parametrize("lines", [
    ("Content-Type: application/x-ndjson", "Transfer-Encoding: chunked"), ("Content-Length: 30",), ()],
    ids=["chunked", "sized", "close-delimited"])
def test_every_framing_is_passed_on_as_it_comes(standin, warmpath, lines):
    engine = standin()
    frame = chunk if len(lines) == 2 else bytes
    gates = [Gate() for _ in range(3)]
    parts = [step for gate in gates for step in (gate, frame(b"0123456789"))]
    engine.respond("/x", head(200, *lines), *parts, LAST_CHUNK if len(lines) == 2 else CLOSE)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        assert response.status == 200
        for gate in gates:
            gate.open()
            if response.all("transfer-encoding"):
                assert client.read_chunk(response)
            else:
                client.read_sized(response, 10)
        if response.all("transfer-encoding"):
            client.read_body(response)
    assert response.body == b"0123456789" * 3


def test_half_a_chunk_is_passed_on_before_its_rest(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), b"a\r\n01234", gate, b"56789\r\n" + LAST_CHUNK)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        while b"01234" not in client.buffer:
            client.receive()
        gate.open()
        client.read_body(response)
    assert response.complete and response.body == b"0123456789"


def test_a_stream_to_an_old_client_is_passed_on_as_it_comes(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(b"data: 1\n\n"), gate, chunk(b"data: 2\n\n") + LAST_CHUNK)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n")
        response = client.read_head()
        client.read_sized(response, 9)
        gate.open()
        client.read_to_end(response)
    assert response.body == b"data: 1\n\ndata: 2\n\n"


def test_a_hundred_streams_at_once_do_not_mix(standin, warmpath):
    engine = standin("a")
    router = warmpath(engine)
    clients = []
    for number in range(100):
        engine.respond(f"/{number}", SSE_HEAD, *(step for part in range(5) for step in
                                                (chunk(event(b"%d-%d" % (number, part))), 0.05)), LAST_CHUNK)
        clients.append(router.connect())
        clients[-1].send(request("GET", f"/{number}"))
    for number, client in enumerate(clients):
        assert client.read_response().events() == [f"{number}-{part}" for part in range(5)]


# The backend leaves in the middle.


def response_cut(router, gate, data=b"", ask=request("GET", "/x")):
    """The response to a client that opens the gate when it has received its head and this data."""
    with router.connect() as client:
        client.send(ask)
        response = client.read_head()
        while data not in client.buffer:
            client.receive()
        gate.open()
        client.read_body(response)
    return response


def error_event(response):
    """The event the router added at the end of a broken stream."""
    error = json.loads(response.events()[-1])["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["param"] is None
    assert error["message"] and error["type"]
    return error


@pytest.mark.parametrize("end", [
    (RESET,), (CLOSE,), (b"50\r\n", CLOSE), (b"50\r\ndata: {\"half", CLOSE), (b"50\r\ndata: {\"half", RESET),
    (b"zz\r\n", STALL)],
    ids=["reset", "close", "close mid-chunk", "close mid-event", "reset mid-event", "bad chunk"])
def test_a_broken_event_stream_ends_with_an_error_event_and_no_last_chunk(standin, warmpath, end):
    engine = standin()
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), chunk(event(b"2")), gate, *end)
    router = warmpath(engine)
    response = response_cut(router, gate, event(b"2"))
    assert response.status == 200
    assert not response.complete, "the client must see that the stream was cut"
    assert response.events()[:2] == ["1", "2"]
    error_event(response)
    assert "[DONE]" not in response.events()


def test_an_event_stream_that_breaks_right_after_its_head_has_the_error_event_too(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", SSE_HEAD, gate, RESET)
    router = warmpath(engine)
    response = response_cut(router, gate)
    assert response.status == 200 and not response.complete
    assert len(response.events()) == 1
    error_event(response)


def test_a_broken_stream_that_is_not_of_events_gets_nothing_added(standin, warmpath):
    engine = standin()
    gates = [Gate(), Gate()]
    engine.respond("/chunked", head(200, "Content-Type: application/json", "Transfer-Encoding: chunked"),
                  chunk(b"[1, "), gates[0], RESET)
    engine.respond("/sized", head(200, "Content-Type: text/event-stream", "Content-Length: 100"), b"data: 1\n\n",
                  gates[1], CLOSE)
    router = warmpath(engine)
    chunked = response_cut(router, gates[0], b"[1, ", request("GET", "/chunked"))
    sized = response_cut(router, gates[1], b"data: 1\n\n", request("GET", "/sized"))
    assert (chunked.status, chunked.body, chunked.complete) == (200, b"[1, ", False)
    assert (sized.status, sized.body, sized.complete) == (200, b"data: 1\n\n", False)


def test_an_old_client_sees_a_broken_stream_as_a_reset_or_an_error_event(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, RESET)
    router = warmpath(engine)
    response = response_cut(router, gate, event(b"1"), b"GET /x HTTP/1.0\r\nHost: a\r\n\r\n")
    assert response.body.startswith(b"data: 1\n\n")
    assert not response.complete or "error" in json.loads(response.events()[-1])


def test_a_complete_stream_without_done_is_passed_untouched(standin, warmpath):
    engine = standin()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), LAST_CHUNK)
    router = warmpath(engine)
    response = router.get("/x")
    assert response.complete and response.body == event(b"1")


def test_comments_and_unusual_events_are_passed_untouched(standin, warmpath):
    engine = standin()
    body = b":\n\nevent: ping\nid: 7\nretry: 10\ndata\n\n\r\ndata: a\r\ndata: b\r\n\r\n"
    engine.respond("/x", SSE_HEAD, *(chunk(body[at:at + 3]) for at in range(0, len(body), 3)), LAST_CHUNK)
    router = warmpath(engine)
    response = router.get("/x")
    assert response.complete and response.body == body


# The client leaves.

LEAVE = {"close": lambda client: client.close(), "reset": lambda client: client.reset()}


@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("steps", [
    (STALL,), (SSE_HEAD, STALL), (SSE_HEAD, chunk(event(b"1")), STALL),
    (SSE_HEAD, *[step for _ in range(400) for step in (chunk(event(b"1")), 0.02)])],
    ids=["before the head", "after the head", "while the backend is silent", "while it streams"])
def test_a_client_that_leaves_ends_the_backends_work(standin, warmpath, leave, steps):
    engine = standin()
    engine.respond("/x", *steps)
    router = warmpath(engine)
    client = router.connect()
    client.send(json_request("/x", chat(stream=True)))
    seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
    if steps[0] is SSE_HEAD:
        response = client.read_head()
        if len(steps) > 2:
            client.read_chunk(response)
    time.sleep(0.1)  # let it stream, or be silent, for a while
    left_at = time.monotonic()
    LEAVE[leave](client)
    assert seen.gone.wait(within(2)), "the backend never saw its client leave"
    assert seen.gone_at - left_at < within(1)
    eventually(lambda: router.in_flight() == 0, "nothing in flight")


def test_a_client_that_leaves_within_its_body_reaches_no_backend(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    client = router.connect()
    client.send(request("POST", "/x", "Content-Length: 1000") + b"half")
    eventually(lambda: router.status()["in_flight"] == 1, "the router has the head")
    client.close()
    eventually(lambda: router.status()["in_flight"] == 0, "the request has ended")
    assert router.get("/y").status == 200
    assert [seen.target for seen in engine.requests] == ["/y"]


def test_a_leaving_client_does_not_disturb_its_neighbours(standin, warmpath):
    engine = standin("a")
    gate = Gate()

    def events(_):
        while not gate.is_open:
            yield chunk(event(b"more"))
            yield 0.02

    engine.respond("/v1/chat/completions", SSE_HEAD, events, chunk(event(b"[DONE]")) + LAST_CHUNK)
    router = warmpath(engine, workers=1)
    stays = [router.connect() for _ in range(10)]
    leaves = [router.connect() for _ in range(10)]
    for client in (*stays, *leaves):
        client.send(STREAM)
    for client in (*stays, *leaves):
        client.read_head()

    def gone():
        return sum(1 for seen in engine.requests if seen.gone_at)

    for client in leaves:
        client.reset()
    eventually(lambda: gone() == 10, "those that left are gone")
    gate.open()
    for client in stays:
        while b"[DONE]" not in client.buffer:
            client.receive()
    assert gone() == 10


def test_a_client_that_finished_sending_counts_as_gone(standin, warmpath):
    engine = standin()
    engine.respond("/x", STALL)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
        client.half_close()
        assert seen.gone.wait(within(5))


def test_with_half_close_a_client_that_finished_sending_gets_its_response(standin, warmpath):
    engine = standin()
    engine.respond("/x", 0.3, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    router = warmpath(engine, half_close=True)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        client.half_close()
        assert client.read_response().body == b"ok"


# Back-pressure.


def test_a_client_that_does_not_read_stops_the_backend(standin, warmpath):
    engine = standin()
    piece = chunk(b"x" * 65536)
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), *[piece] * 1600, LAST_CHUNK)
    router = warmpath(engine)
    assert router.get("/warm-up").status == 200
    before = router.memory()
    with router.connect(receive_buffer=16384) as client:
        client.send(request("GET", "/x"))
        seen = eventually(lambda: engine.targets()[1:] and engine.requests[1], "the request arrives")

        def is_stuck():
            size = seen.sent_size
            time.sleep(0.5)
            return 0 < size == seen.sent_size

        eventually(is_stuck, "the backend can send no more", 10)
        assert seen.sent_size < 30_000_000, "of 100 MB, all must wait but what kernels buffer"
        grown = router.memory() - before
        assert grown < 8_000_000 * (4 if is_sanitized() else 1), f"the router grew by {grown} bytes"
        assert router.get("/meanwhile").status == 200
        response = client.read_response()
        assert response.complete and len(response.body) == 1600 * 65536
    eventually(lambda: seen.responded_at, "the stand-in finished")


def test_a_slow_reader_does_not_slow_others(standin, warmpath):
    engine = standin()
    engine.respond("/big", head(200, "Transfer-Encoding: chunked"), *[chunk(b"x" * 65536)] * 500, LAST_CHUNK)
    router = warmpath(engine, workers=1)
    with router.connect(receive_buffer=16384) as lazy:
        lazy.send(request("GET", "/big"))
        eventually(lambda: "/big" in engine.targets(), "the request arrives")
        begun = time.monotonic()
        for number in range(50):
            assert router.get(f"/{number}").status == 200
        assert time.monotonic() - begun < within(2)


def test_a_slow_reader_that_leaves_frees_the_backend(standin, warmpath):
    engine = standin()
    engine.respond("/big", head(200, "Transfer-Encoding: chunked"), *[chunk(b"x" * 65536)] * 500, LAST_CHUNK)
    router = warmpath(engine)
    lazy = router.connect(receive_buffer=16384)
    lazy.send(request("GET", "/big"))
    seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
    time.sleep(0.3)
    lazy.reset()
    assert seen.gone.wait(within(5))


def test_a_client_that_leaves_while_its_body_waits_for_the_backend_is_noticed(standin, warmpath):
    engine = standin()
    engine.early.add("/x")
    engine.respond("/x", STALL)
    engine.slow_reader = True  # with `early`: takes the head and never the body
    router = warmpath(engine, workers=1)
    client = router.connect()
    client.send(request("POST", "/x", body=b"x" * 8_000_000))
    eventually(lambda: engine.requests, "the request arrives")
    assert router.in_flight() == 1
    assert router.get("/y").status == 200  # other clients do not wait
    client.close()
    eventually(lambda: router.in_flight() == 0, "nothing in flight")
