"""Sessions under `warm`: a hint to the backend with the history, which survives that backend and
never pins.
"""
import collections

import pytest
from client import chat, request
from harness import eventually
from standin import STALL

QUIET = {"health_interval": 0, "models_learn": False, "load_scrape": False, "policy": "warm"}


def home(router, *lines, **fields):
    """The backend of a prompt that is too short for a shared block."""
    return router.post("/v1/chat/completions", chat(**fields), *lines).header("x-warmpath-backend")


@pytest.mark.parametrize("lines, fields", [
    (["X-Session-Id: one"], {}),
    ([], {"session_id": "one"}),
    ([], {"session_params": {"session_id": "one"}}),
    ([], {"prompt_cache_key": "one"}),
    ([], {"user": "one"}),
], ids=["header", "session_id", "session_params", "prompt_cache_key", "user"])
def test_a_session_stays_while_its_backend_is_idle(standin, warmpath, lines, fields):
    router = warmpath(*(standin(name) for name in "abcd"), workers=2, **QUIET)
    assert len({home(router, *lines, **fields) for _ in range(12)}) == 1
    assert len({home(router) for _ in range(40)}) > 1, "others go anywhere"


def test_a_request_that_cannot_be_parsed_has_a_session_too(standin, warmpath):
    router = warmpath(*(standin(name) for name in "abcd"), **QUIET)
    seen = {router.get("/x", "X-Session-Id: two").json()["engine"] for _ in range(12)}
    assert len(seen) == 1, seen


def test_a_session_moves_once_when_its_backend_dies_and_stays_there(standin, warmpath):
    engines = {engine.url: engine for engine in (standin(name) for name in "abcd")}
    router = warmpath(*engines.values(), **QUIET)
    first = home(router, "X-Session-Id: three")
    engines[first].stop()
    moved = [home(router, "X-Session-Id: three") for _ in range(8)]
    assert len(set(moved)) == 1 and moved[0] != first, (first, moved)


def test_a_session_is_a_hint_and_not_a_pin(standin, warmpath):
    engines = [standin(name) for name in "abcd"]
    for engine in engines:
        engine.respond("/hold", STALL)
    router = warmpath(*engines, **QUIET)
    for number in range(16):
        router.connect().send(request("GET", "/hold", "X-Session-Id: four"))
        eventually(lambda: sum(engine.open for engine in engines) == number + 1, "one more is held")
    held = collections.Counter({engine.name: engine.open for engine in engines})
    assert max(held.values()) <= 8, held


def test_sessions_are_told_apart_exactly(standin, warmpath):
    """Names are compared whole: session-1 is a prefix of session-12."""
    router = warmpath(*(standin(name) for name in "abcdefgh"), **QUIET)
    homes = {home(router, f"X-Session-Id: session-{number}") for number in (1, 11, 12, 13, 14, 15, 16, 17, 18, 19)}
    assert len(homes) > 2, homes
