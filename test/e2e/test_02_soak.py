"""The soak test tells failures from troubles that its faults explain (test/soak/verdict.py)."""
import asyncio
import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "soak"))
import content  # noqa: E402
from crowd import ERROR_EVENT, Seen, Trouble, is_prefix  # noqa: E402
from faults import Hole  # noqa: E402
from soak_engine import HOLE_BODIES, SoakEngine  # noqa: E402
from verdict import HOLE_REFUSALS_MAX, Judge  # noqa: E402

ASK = content.Ask("s-1", content.CHAT, True, 5, 100, False)
A, B = "http://a", "http://b"


def judged(*troubles, journals=None, kills=(), holes=()):
    engines = [types.SimpleNamespace(url=url, lines=lambda events=events: [(1.0, what, ASK.id) for what in events])
               for url, events in (journals or {}).items()]
    chaos = types.SimpleNamespace(kills=kills, holes=holes, crowd=types.SimpleNamespace(troubles=troubles))
    judge = Judge(engines, chaos)
    judge.judge(troubles)
    return judge


def trouble(what, backend=None, detail=""):
    return Trouble(what, ASK, backend, 10.0, 12.0, detail)


@pytest.mark.parametrize("what", ["hung", "no connection", "no response", "status", "empty", "cut"])
def test_trouble_without_a_fault_is_a_failure(what):
    assert len(judged(trouble(what, A, "500 b''"), journals={A: ["in", "out"]}).failed) == 1


@pytest.mark.parametrize("journals, kills, is_allowed", [
    ({A: ["in", "death"], B: ["in", "death"]}, [], True),
    ({A: ["in", "death"], B: ["in", "bad"]}, [], True),
    ({A: ["in", "death"], B: ["in"]}, [(B, 11.0)], True),
    ({A: ["in", "death"], B: ["in"]}, [(B, 5.0)], False),
    ({A: ["in", "death"], B: ["in"]}, [], False),
    ({A: ["in", "bad"], B: ["in", "bad"]}, [], False),
    ({A: ["in", "out"]}, [(A, 11.0), (B, 11.0)], False),
])
def test_a_request_may_fail_when_two_engines_died_under_it(journals, kills, is_allowed):
    judge = judged(trouble("no response"), journals=journals, kills=kills)
    assert (judge.failed == []) == is_allowed, judge.failed


@pytest.mark.parametrize("journals, kills, is_allowed", [
    ({A: ["in", "cut"]}, [], True),
    ({A: ["in"]}, [(A, 11.0)], True),
    ({A: ["in"], B: ["in", "cut"]}, [(B, 11.0)], False),
])
def test_a_stream_may_be_cut_by_its_own_engine_alone(journals, kills, is_allowed):
    judge = judged(trouble("cut", A), journals=journals, kills=kills)
    assert (judge.failed == []) == is_allowed, judge.failed


@pytest.mark.parametrize("count, failed", [(HOLE_REFUSALS_MAX, 0), (HOLE_REFUSALS_MAX + 2, 2)])
def test_refusals_of_a_hole_are_allowed_up_to_a_number(count, failed):
    refusals = [trouble("empty", A, "complete: b''")] * count
    assert len(judged(*refusals, journals={A: ["in", "refused"]}, holes=[Hole(A, "empty 200", 9.0, 11.0)]).failed) == failed


def test_a_refusal_outside_of_a_hole_is_a_failure():
    refusal = trouble("empty", A, "complete: b''")
    assert judged(refusal, journals={A: ["in", "refused"]}, holes=[Hole(B, "empty 200", 9.0, 11.0)]).failed
    assert judged(refusal, journals={A: ["in"]}, holes=[Hole(A, "empty 200", 9.0, 11.0)]).failed


def test_an_altered_byte_is_never_allowed():
    assert judged(trouble("altered", A), journals={A: ["in", "cut"]}, kills=[(A, 11.0)]).altered
    assert judged(journals={A: ["in", "altered"]}).altered


def test_cut_bytes_are_a_prefix_with_or_without_the_error_event():
    _, body = content.expected(ASK)
    error = ERROR_EVENT + b': {"code": "bad_backend_answer"}}\n\n'
    for part in (b"", body[:100], body, body[:100] + b"\n\n" + error, error):
        assert is_prefix(bytearray(part), body)
    for part in (body[:50] + b"x", body + b"x", body[:50] + b"x" + error):
        assert not is_prefix(bytearray(part), body)


def test_the_engine_sends_the_bytes_that_the_client_expects():
    for ask in (ASK, ASK._replace(streamed=False), ASK._replace(path=content.COMPLETIONS)):
        reader = asyncio.run(read(b"".join(SoakEngine.pieces(ask))))
        assert reader.complete and (reader.response.status, reader.body) == content.expected(ask)
        assert content.expected(ask) != content.expected(ask._replace(id="s-2"))
    assert all(len(body) < 200 for body in HOLE_BODIES)


async def read(data):
    reader = asyncio.StreamReader(limit=1 << 17)
    reader.feed_data(data)
    reader.feed_eof()
    seen = Seen()
    await seen.read(reader)
    return seen
