"""A backend that hangs keeps its connections and passes its probes, but gets no more requests."""
import contextlib
import time

import pytest
from client import chat, json_request
from harness import eventually, within
from standin import LAST_CHUNK, SSE_HEAD, STALL, Gate, chunk, event, json_response

CHAT = "/v1/chat/completions"
QUIET = {"models_learn": False, "health_interval": "200ms"}
WORD = chunk(event({"choices": [{"index": 0, "delta": {"content": "word"}}]}))
WHOLE = json_response(200, {"choices": [{"index": 0, "message": {"role": "assistant", "content": "word"}}]})
HANGS = {
    "before the head": lambda gate: (gate, SSE_HEAD, WORD, LAST_CHUNK),
    "behind the head": lambda gate: (SSE_HEAD, gate, WORD, LAST_CHUNK),
    "behind a token": lambda gate: (SSE_HEAD, WORD, gate, WORD, LAST_CHUNK),
}


def ask_and_wait(router, stack, body):
    """Sends a request whose response nobody waits for."""
    connection = stack.enter_context(router.connect(timeout=within(30)))
    connection.send(json_request(CHAT, body))
    return connection


@pytest.mark.parametrize("policy", ["warm", "round_robin", "least_requests"])
@pytest.mark.parametrize("place", HANGS)
def test_a_backend_whose_streams_hang_gets_no_more_until_one_moves(standin, warmpath, place, policy):
    bad, *others = [standin(name) for name in "abcd"]
    gate = Gate()
    router = warmpath(bad, *others, policy=policy, health_stall_time="2s", **QUIET)
    for _ in range(16):
        assert router.post(CHAT, chat(stream=True)).status == 200
    bad.respond(CHAT, *HANGS[place](gate))
    with contextlib.ExitStack() as stack:
        waiting = [ask_and_wait(router, stack, chat(stream=True, n_of=number)) for number in range(24)]
        eventually(lambda: len(bad.requests) > 0 and router.backend(bad)["state"] == "stalled", "it is stalled", within(8))
        drawn = len(bad.requests)
        for number in range(20):
            assert router.post(CHAT, chat(stream=True, n_of=number)).status == 200
        assert len(bad.requests) == drawn, "it got more requests"
        gate.open()
        assert all(connection.read_response().status == 200 for connection in waiting)
    eventually(lambda: router.backend(bad)["state"] == "up", "it is back")
    assert router.stderr().count("stalled: no output for") == 1
    eventually(lambda: router.stderr().count("stalled no more") == 1, "the log says so")


def test_streams_that_begin_do_not_hide_that_all_of_them_hang(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond(CHAT, SSE_HEAD, WORD, STALL)
    router = warmpath(bad, good, policy="round_robin", **QUIET)
    with contextlib.ExitStack() as stack:
        def is_stalled():
            ask_and_wait(router, stack, chat(stream=True))
            return router.backend(bad)["state"] == "stalled"

        eventually(is_stalled, "it is stalled, though every request brings a first token", within(8))
        drawn = len(bad.requests)
        assert all(router.post(CHAT, chat(stream=True)).status == 200 for _ in range(20))
        assert len(bad.requests) == drawn


def test_whole_responses_that_do_not_come_take_a_backend_out(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    gate = Gate()
    bad.respond(CHAT, gate, WHOLE)
    router = warmpath(bad, good, policy="round_robin", health_stall_time="2s", **QUIET)
    with contextlib.ExitStack() as stack:
        waiting = [ask_and_wait(router, stack, chat()) for _ in range(4)]
        eventually(lambda: router.backend(bad)["state"] == "stalled", "it is stalled", within(8))
        drawn = len(bad.requests)
        assert all(router.post(CHAT, chat()).status == 200 for _ in range(10))
        assert len(bad.requests) == drawn
        gate.open()
        assert all(connection.read_response().status == 200 for connection in waiting)
    eventually(lambda: router.backend(bad)["state"] == "up", "it is back")


def test_when_its_clients_have_left_a_stalled_backend_gets_one_request_at_a_time(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond(CHAT, Gate())
    router = warmpath(bad, good, policy="round_robin", health_stall_time="2s", **QUIET)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            ask_and_wait(router, stack, chat(stream=True))
        eventually(lambda: router.backend(bad)["state"] == "stalled", "it is stalled", within(8))
        drawn = len(bad.requests)
    eventually(lambda: router.backend(bad)["in_flight"] == 0, "its clients have left")
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            ask_and_wait(router, stack, chat(stream=True))
        eventually(lambda: len(good.requests) >= 9, "the others arrive")
        assert len(bad.requests) == drawn + 1


def test_a_client_that_does_not_read_leaves_its_backend_in(standin, warmpath):
    engine, other = standin("a"), standin("b")
    for one in (engine, other):
        one.respond(CHAT, SSE_HEAD, WORD, *([chunk(event({"choices": [{"index": 0, "delta": {"content": "w" * 60000}}]}))] * 300),
                    LAST_CHUNK)
    router = warmpath(engine, other, policy="round_robin", health_stall_time="2s", **QUIET)
    with contextlib.ExitStack() as stack:
        lazy = [ask_and_wait(router, stack, chat(stream=True)) for _ in range(2)]
        for connection in lazy:
            connection.read_head()
        time.sleep(3)
        assert {router.backend(one)["state"] for one in (engine, other)} == {"up"}
        assert "stalled" not in router.stderr()


def test_a_fleet_that_hangs_altogether_is_still_tried(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond(CHAT, gate, WHOLE)
    router = warmpath(engine, health_stall_time="2s", **QUIET)
    with contextlib.ExitStack() as stack:
        waiting = ask_and_wait(router, stack, chat())
        eventually(lambda: router.backend(engine)["state"] == "stalled", "it is stalled", within(8))
        another = ask_and_wait(router, stack, chat())
        eventually(lambda: len(engine.requests) == 2, "the second request arrives")
        gate.open()
        assert (waiting.read_response().status, another.read_response().status) == (200, 200)
