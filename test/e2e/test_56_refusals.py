"""A backend that responds without output does not win by being idle."""
import collections
import itertools
import json
import pathlib
import re

import pytest
from client import chat, json_request
from harness import eventually, within
from standin import LAST_CHUNK, RESET, SSE_HEAD, Gate, chunk, event, head, json_response, plain_response

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAT = "/v1/chat/completions"
ERROR = {"error": {"message": "no", "type": "invalid_request_error"}}
BY_STATUS = {str(status): (json_response(status, ERROR),) for status in (400, 401, 404, 501)}
BY_STATUS["empty 200"] = (head(200, "Content-Length: 0"),)
BY_BODY = {
    "empty chunks": (head(200, "Transfer-Encoding: chunked"), LAST_CHUNK),
    "empty document": (json_response(200, {}),),
    "page": (plain_response(200, b"<html></html>", "Content-Type: text/html"),),
    "empty stream": (SSE_HEAD, LAST_CHUNK),
    "error stream": (SSE_HEAD, chunk(event(ERROR)), LAST_CHUNK),
    "role, then error": (SSE_HEAD, chunk(event({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})),
                         chunk(event(ERROR)), LAST_CHUNK),
}
BAD_COUNSEL = {
    "reset": (RESET,),
    "502": (json_response(502, {}),),
    "busy": (json_response(503, {}, "Retry-After: 1"),),
    "reset after a part of the head": (b"HTTP/1.1 2", RESET),
}
POLICIES = re.findall(r"^POLICY\((\w+)\)$", (ROOT / "src/policy/policies.def").read_text(), re.MULTILINE)
assert len(POLICIES) > 20
QUIET = {"health_interval": 0, "models_learn": False}


def prompts(count):
    return [chat(stream=True, messages=[{"role": "user", "content": f"{number} " * 200}]) for number in range(count)]


def has_output(response):
    return response.status == 200 and b'"content"' in response.body


def drive(router, bodies, hole):
    """How many requests the hole got, and how many clients got no output."""
    before = len(hole.requests)
    failed = sum(not has_output(router.post(CHAT, body)) for body in bodies)
    return len(hole.requests) - before, failed


@pytest.mark.parametrize("behaviour", BY_STATUS)
def test_a_black_hole_by_status_gets_almost_nothing_and_costs_one_request(standin, warmpath, behaviour):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_STATUS[behaviour])
    router = warmpath(hole, *others, **QUIET)
    drawn, failed = drive(router, prompts(60), hole)
    assert drawn <= 8 and failed <= 1, (drawn, failed)


@pytest.mark.parametrize("behaviour", BY_BODY)
def test_a_black_hole_by_body_gets_almost_nothing_and_costs_one_request(standin, warmpath, behaviour):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_BODY[behaviour])
    router = warmpath(hole, *others, policy="round_robin", **QUIET)
    drawn, failed = drive(router, prompts(60), hole)
    assert drawn <= 8 and failed <= 1, (drawn, failed)
    assert router.backend(hole)["refused_kinds"] == 1
    eventually(lambda: "ejected for /v1/chat/completions" in router.stderr(), "the ejection is logged")


@pytest.mark.parametrize("policy", POLICIES)
def test_no_policy_keeps_a_black_hole(standin, warmpath, policy):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_STATUS["400"])
    router = warmpath(hole, *others, policy=policy, **QUIET)
    drawn, failed = drive(router, prompts(30), hole)
    assert drawn <= 5 and failed <= 1, (drawn, failed)


def test_a_holder_of_a_hot_prefix_that_begins_to_refuse_loses_it(standin, warmpath):
    engines = [standin(name) for name in "abcd"]
    router = warmpath(*engines, **QUIET)
    body = chat(stream=True, messages=[{"role": "user", "content": "a long document " * 400}])
    for _ in range(4):
        assert has_output(router.post(CHAT, body))
    holder = max(engines, key=lambda engine: len(engine.requests))
    holder.respond(CHAT, *BY_STATUS["400"])
    drawn, failed = drive(router, [body] * 20, holder)
    assert failed <= 1 and drawn <= 5, (drawn, failed)


def test_bad_requests_of_a_client_eject_no_backend(standin, warmpath):
    engines = [standin(name) for name in "abcd"]

    def answer(request):
        return BY_STATUS["400"] if "bad" in json.dumps(request.json()) else GOOD

    for engine in engines:
        engine.respond(CHAT, answer)
    router = warmpath(*engines, policy="consistent_hash", **QUIET)
    bad, good = chat(user="bad", stream=True), prompts(40)
    statuses = collections.Counter()
    for body in good:
        for _ in range(5):
            statuses[router.post(CHAT, bad).status] += 1
        statuses[router.post(CHAT, {**body, "user": str(body)[:300]}).status] += 1
    assert statuses == {400: 200, 200: 40}, statuses
    assert "ejected" not in router.stderr()
    seen = sum(len(engine.requests) for engine in engines)
    assert seen <= 240 + 110, f"{seen} attempts for 240 requests: at most every second bad one is tried twice"


GOOD = (SSE_HEAD, chunk(event({"choices": [{"index": 0, "delta": {"content": "hello"}}]})),
        chunk(event(b"[DONE]")), LAST_CHUNK)


def test_a_backend_that_is_well_again_gets_its_share(standin, warmpath):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_STATUS["401"])
    router = warmpath(hole, *others, policy="round_robin", health_eject_time="200ms", **QUIET)
    drive(router, prompts(20), hole)
    hole.respond(CHAT, *GOOD)

    def is_back():
        drawn, failed = drive(router, prompts(8), hole)
        return drawn == 2 and failed == 0

    eventually(is_back, "it gets one request in four again")


def test_other_kinds_of_requests_still_reach_a_backend_that_refuses_one(standin, warmpath):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_STATUS["404"])
    router = warmpath(hole, *others, policy="round_robin", **QUIET)
    drive(router, prompts(20), hole)
    before = len(hole.requests)
    for _ in range(12):
        assert router.post("/v1/completions", {"model": "test-model", "prompt": "x"}).status == 200
    assert len(hole.requests) == before + 3


def test_without_retries_a_black_hole_is_ejected_by_comparison(standin, warmpath):
    hole, *others = [standin(name) for name in "abcd"]
    hole.respond(CHAT, *BY_STATUS["401"])
    router = warmpath(hole, *others, policy="round_robin", retry_attempts=1, **QUIET)
    drawn, _ = drive(router, prompts(60), hole)
    assert drawn <= 16, drawn


def test_without_retries_bad_requests_of_a_client_eject_no_backend(standin, warmpath):
    engines = [standin(name) for name in "abcd"]
    for engine in engines:
        engine.respond(CHAT, lambda request: BY_STATUS["400"] if "bad" in json.dumps(request.json()) else GOOD)
    router = warmpath(*engines, policy="consistent_hash", retry_attempts=1, **QUIET)
    for body in prompts(4):
        for _ in range(4):
            assert router.post(CHAT, {**body, "user": str(body)[:300]}).status == 200
        for _ in range(15):
            assert router.post(CHAT, chat(user="bad", stream=True)).status == 400
    assert "ejected" not in router.stderr()


def test_a_fleet_that_refuses_everything_ejects_nothing(standin, warmpath):
    engines = [standin(name) for name in "abcd"]
    for engine in engines:
        engine.respond(CHAT, *BY_STATUS["401"])
    router = warmpath(*engines, **QUIET)
    assert {router.post(CHAT, body).status for body in prompts(60)} == {401}
    assert "ejected" not in router.stderr()


def test_two_black_holes_do_not_vouch_for_each_other(standin, warmpath):
    first, second, *others = [standin(name) for name in "abcd"]
    first.respond(CHAT, *BY_STATUS["400"])
    second.respond(CHAT, *BY_STATUS["404"])
    router = warmpath(first, second, *others, policy="least_requests", **QUIET)
    failed = sum(not has_output(router.post(CHAT, body)) for body in prompts(60))
    assert failed <= 6 and len(first.requests) + len(second.requests) <= 16, (
        failed, len(first.requests), len(second.requests))


@pytest.mark.parametrize("behaviour", ("400", "error stream", "role, then error"))
def test_a_backend_that_refuses_every_second_request_costs_two(standin, warmpath, behaviour):
    half, *others = [standin(name) for name in "abcd"]
    responses = itertools.cycle(({**BY_STATUS, **BY_BODY}[behaviour], GOOD))
    half.respond(CHAT, lambda request: next(responses))
    router = warmpath(half, *others, policy="round_robin", **QUIET)
    drawn, failed = drive(router, prompts(60), half)
    assert drawn <= 20 and failed <= 2, (drawn, failed)


def test_a_suspect_that_only_sends_comments_keeps_its_client_waiting_for_seconds_at_most(standin, warmpath):
    engine = standin("a")
    engine.respond_once(CHAT, *BY_BODY["error stream"])
    router = warmpath(engine, **QUIET)
    router.post(CHAT, chat(stream=True))
    gate = Gate()
    engine.respond(CHAT, SSE_HEAD, chunk(b": wait\n\n"), gate, *GOOD[1:])
    with router.connect(timeout=within(10)) as client:
        client.send(json_request(CHAT, chat(stream=True)))
        response = client.read_head()
        assert client.read_chunk(response) and response.body == b": wait\n\n"
        gate.open()
        client.read_body(response)
    assert response.complete and has_output(response)


def test_a_backend_with_a_short_context_keeps_the_requests_that_fit_it(standin, warmpath):
    small, large = standin("a"), standin("b")
    small.respond(CHAT, lambda request: BY_STATUS["400"] if len(request.body) > 40000 else GOOD)
    router = warmpath(small, large, policy="round_robin", **QUIET)
    long = [chat(stream=True, messages=[{"role": "user", "content": f"{number} " * 20000}]) for number in range(20)]
    assert sum(not has_output(router.post(CHAT, body)) for body in long) <= 1
    assert router.backend(small)["refused_kinds"] == 1
    drawn, failed = drive(router, prompts(20), small)
    assert drawn == 10 and failed == 0, (drawn, failed)


@pytest.mark.parametrize("behaviour", BAD_COUNSEL)
def test_a_refusal_is_the_response_where_the_second_opinion_fails(standin, warmpath, behaviour):
    first, second = standin("a"), standin("b")
    first.respond(CHAT, *BY_STATUS["400"])

    def answer(request):
        is_second = any(other.body == request.body for other in first.requests)
        return BAD_COUNSEL[behaviour] if is_second else BY_STATUS["400"]

    second.respond(CHAT, answer)
    router = warmpath(first, second, policy="round_robin", **QUIET)
    responses = [router.post(CHAT, body) for body in prompts(8)]
    assert [(response.status, response.json()) for response in responses] == [(400, ERROR)] * 8
    asked = {request.body for request in first.requests} & {request.body for request in second.requests}
    assert asked, "a request went to both"
    assert max(collections.Counter(request.body for request in first.requests).values()) == 1


def test_a_refused_post_to_another_path_is_not_repeated(standin, warmpath):
    engines = [standin(name) for name in "ab"]
    for engine in engines:
        engine.respond("/load", *BY_STATUS["400"])
    router = warmpath(*engines, **QUIET)
    for _ in range(10):
        assert router.ask(json_request("/load", {})).status == 400
    assert sum(len(engine.requests) for engine in engines) == 10
