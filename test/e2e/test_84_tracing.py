"""Traces: the headers that engines get, and the spans that a collector gets."""
import random
import re
import signal
import time

import pytest
from client import chat, json_request
from collector import Collector
from harness import eventually, free_port, within
from standin import RESET, json_response

PATH = "/v1/chat/completions"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
QUIET = {"health_interval": 0, "models_learn": False, "load_scrape": False}
STAGES = ["parse", "tokenize", "match", "decide", "queue"]
EVENTS = ["request_complete", *STAGES, "sent", "answer_head", "first_token", "end"]


@pytest.fixture
def collector():
    """Makes collectors; errors that they find fail the test."""
    made = []

    def make(start=True, **options):
        made.append(Collector(free_port(), **options))
        return made[-1].start() if start else made[-1]

    yield make
    for one in made:
        one.stop()
    for one in made:
        assert one.faults == []


def ask(router, *lines, path=PATH, **fields):
    response = router.post(path, chat(**fields), *lines)
    assert response.status == 200, response
    return response


def asked(engine):
    return engine.requests[-1]


def spans_of(collector, count):
    """All spans, once there are that many; one too many is noticed if it arrived in time."""
    eventually(lambda: len(collector.spans) >= count or collector.faults,
               lambda: f"{count} spans, and not {len(collector.spans)}", 20)
    assert collector.faults == [] and len(collector.spans) == count
    return collector.spans


def metric(router, name):
    text = router.admin("GET", "/metrics").body.decode()
    return float(re.search(rf"^{name}(?:{{[^}}]*}})? ([0-9.e+]+)$", text, re.MULTILINE)[1])


# Headers.

@pytest.mark.parametrize("traceparent", [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00",
                                         f"cc-{TRACE}-{PARENT}-01-more", "whatever it is"])
def test_without_a_collector_traces_pass_as_they_are(standin, warmpath, traceparent):
    engine = standin("a")
    router = warmpath(engine, **QUIET)
    ask(router, f"traceparent: {traceparent}", "tracestate: a=1,b=2")
    assert asked(engine).all("traceparent") == [traceparent]
    assert asked(engine).all("tracestate") == ["a=1,b=2"]
    ask(router)
    assert asked(engine).all("traceparent") == []


def test_a_collector_that_a_reload_names_begins_no_traces_before_the_next_start(standin, warmpath, collector):
    engine, named = standin("a"), collector()
    router = warmpath(engine, config="tracing: {every: 1}\n", **QUIET)
    router.write_config(f"tracing: {{endpoint: 'http://127.0.0.1:{named.port}'}}\n")
    router.signal(signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in router.stderr(), router.stderr)
    assert "take effect at the next start" in router.stderr()
    ask(router)
    assert asked(engine).all("traceparent") == []  # its parent would be a span that is never sent


def test_our_span_is_a_child_of_the_client_and_the_engine_gets_it_as_parent(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, tracing_service="front door", **QUIET)
    response = ask(router, f"traceparent: 00-{TRACE}-{PARENT}-01", "tracestate: a=1,b=2")
    span, = spans_of(traces, 1)
    assert (span.trace, span.parent) == (TRACE, PARENT)
    assert asked(engine).all("traceparent") == [f"00-{TRACE}-{span.id}-01"]
    assert asked(engine).all("tracestate") == ["a=1,b=2"]
    assert span.id != PARENT
    assert span.attributes["warmpath.request_id"] == response.header("x-request-id")
    assert traces.posts[0].path == "/v1/traces"
    assert traces.posts[0].resource["service.name"] == "front door"
    assert traces.posts[0].resource["service.version"] == traces.posts[0].scope["version"]


def test_an_unsampled_trace_is_forwarded_and_not_exported(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    ask(router, f"traceparent: 00-{TRACE}-{PARENT}-00")
    trace, _, flags = TRACEPARENT.fullmatch(asked(engine).header("traceparent")).groups()
    assert (trace, flags) == (TRACE, "00")
    ask(router, f"traceparent: 00-{'1' * 32}-{PARENT}-01")
    span, = spans_of(traces, 1)
    assert span.trace == "1" * 32


def test_a_request_without_a_trace_begins_one(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    ask(router, "tracestate: a=1")
    span, = spans_of(traces, 1)
    assert span.parent is None
    assert asked(engine).header("traceparent") == f"00-{span.trace}-{span.id}-01"
    assert asked(engine).all("tracestate") == [], "it belongs to a trace that is not ours"


@pytest.mark.parametrize("lines", [
    [f"traceparent: 00-{TRACE.upper()}-{PARENT}-01"],
    [f"traceparent: 00-{'0' * 32}-{PARENT}-01"],
    [f"traceparent: 00-{TRACE}-{'0' * 16}-01"],
    [f"traceparent: ff-{TRACE}-{PARENT}-01"],
    [f"traceparent: 00-{TRACE}-{PARENT}-01-more"],
    [f"traceparent: 00-{TRACE}-{PARENT}-01", f"traceparent: 00-{TRACE}-{PARENT}-01"],
])
def test_an_invalid_traceparent_is_replaced(standin, warmpath, collector, lines):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    ask(router, *lines)
    span, = spans_of(traces, 1)
    assert span.parent is None and span.trace != TRACE
    assert asked(engine).header("traceparent") == f"00-{span.trace}-{span.id}-01"


def test_one_in_every_n_requests_begins_a_trace(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, tracing_every=4, **QUIET)
    count = 400
    with router.connect() as connection:
        for _ in range(count):
            connection.send(json_request(PATH, chat()))
            assert connection.read_response("POST").status == 200
    begun = sum(1 for request in engine.requests if request.all("traceparent"))
    assert 0.15 * count < begun < 0.36 * count  # six standard deviations
    assert {span.parent for span in spans_of(traces, begun)} == {None}
    ask(router, f"traceparent: 00-{TRACE}-{PARENT}-01")  # the caller has decided already
    assert spans_of(traces, begun + 1)[-1].trace == TRACE


# Spans.

def test_every_request_has_one_span_in_few_posts(standin, warmpath, collector):
    engines, traces = [standin("a"), standin("b")], collector()
    router = warmpath(*engines, tracing_endpoint=traces.url, **QUIET)
    count = 600
    begin = time.monotonic()
    with router.connect() as connection:
        for number in range(count):
            connection.send(json_request(PATH, chat(), f"x-request-id: r{number}"))
            assert connection.read_response("POST").status == 200
    spans = spans_of(traces, count)
    assert {span.attributes["warmpath.request_id"] for span in spans} == {f"r{number}" for number in range(count)}
    assert len({span.id for span in spans}) == len({span.trace for span in spans}) == count
    seconds = traces.posts[-1].arrived_at - begin
    assert len(traces.posts) <= count / 512 + seconds + 1
    for engine in engines:
        ours = {span.id for span in spans if span.attributes["warmpath.backend"] == engine.url}
        assert ours == {TRACEPARENT.fullmatch(request.header("traceparent"))[2] for request in engine.requests}
    eventually(lambda: metric(router, "warmpath_spans_exported_total") == count, "all spans are counted")
    assert metric(router, "warmpath_spans_dropped_total") == 0


def test_a_span_has_the_stages_in_order_and_the_decision(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, policy="warm", **QUIET)
    ask(router, "x-standin-delay: 0.05", "x-standin-gap: 0.02", stream=True)
    span, = spans_of(traces, 1)
    names = [event.name for event in span.events]
    assert names == [name for name in EVENTS if name in names]
    assert {"request_complete", "parse", "decide", "sent", "answer_head", "first_token", "end"} <= set(names)
    for event in span.events:
        assert event.attributes.keys() == ({"warmpath.duration_ns"} if event.name in STAGES else set()), event.name
    assert span.event("answer_head").time - span.event("sent").time > 45e6
    assert span.event("end").time == span.end
    attributes = span.attributes
    assert span.name == attributes["gen_ai.operation.name"] == "chat" and not span.is_error
    assert attributes["url.path"] == PATH and attributes["http.response.status_code"] == 200
    assert attributes["gen_ai.request.model"] == "test-model"
    assert attributes["warmpath.backend"] == engine.url
    assert (attributes["server.address"], attributes["server.port"]) == ("127.0.0.1", engine.port)
    assert attributes["warmpath.policy"] == "warm" and attributes["warmpath.outcome"] == "ok"
    assert attributes["warmpath.attempts"] == 1 and attributes["warmpath.streamed"] is True
    assert attributes["warmpath.candidates"] == 1 and attributes["warmpath.by_events"] is False
    assert attributes["gen_ai.usage.input_tokens"] > 0


def test_a_request_that_was_sent_twice_is_one_span(standin, warmpath, collector):
    bad, good, traces = standin("bad"), standin("good"), collector()
    bad.respond(PATH, RESET)
    router = warmpath(bad, good, tracing_endpoint=traces.url, policy="round_robin", workers=1, **QUIET)
    for number in range(2):  # one of them, or each, comes to the bad one first
        ask(router, f"traceparent: 00-{TRACE}-{PARENT}-01", f"x-request-id: r{number}")
    spans = {span.attributes["warmpath.request_id"]: span for span in spans_of(traces, 2)}
    asked_of = {engine: {request.header("x-request-id"): request.header("traceparent") for request in engine.requests}
                for engine in (bad, good)}
    assert asked_of[bad] and asked_of[good].keys() == spans.keys()
    for name, span in spans.items():
        assert span.attributes["warmpath.attempts"] == (2 if name in asked_of[bad] else 1)
        assert span.attributes["warmpath.backend"] == good.url and not span.is_error
        assert asked_of[good][name] == asked_of[bad].get(name, asked_of[good][name]) == f"00-{TRACE}-{span.id}-01"


def test_failures_are_errors_and_refusals_of_requests_are_not(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, retry_attempts=1, **QUIET)
    for status in (500, 400, 429):
        engine.respond_once(PATH, json_response(status, {}))
        assert router.post(PATH, chat(), f"x-request-id: s{status}").status == status
    engine.stop()
    assert router.post(PATH, chat(), "x-request-id: s502").status in (502, 503)
    found = {span.attributes["warmpath.request_id"]: span for span in spans_of(traces, 4)}
    assert {name: span.is_error for name, span in found.items()} == {
        "s500": True, "s400": False, "s429": False, "s502": True}
    assert found["s500"].attributes["error.type"] == "500"
    assert found["s400"].attributes["warmpath.outcome"] == "rejected"
    assert found["s502"].attributes["error.type"] == found["s502"].attributes["warmpath.problem"]


def test_no_text_of_prompts_or_responses_is_in_a_span(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    rng = random.Random(84)
    secrets = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(40)]
    body = {**chat(), "messages": [{"role": "system", "content": " ".join(secrets[:20])},
                                   {"role": "user", "content": " ".join(secrets[20:38])}], "user": secrets[38]}
    response = router.post(f"{PATH}?key={secrets[39]}", body, "Authorization: Bearer " + secrets[38])
    assert response.status == 200
    said = response.json()["choices"][0]["message"]["content"]
    spans_of(traces, 1)
    text = traces.posts[0].body.decode()
    assert [secret for secret in secrets if secret in text] == []
    assert said and said not in text


def test_an_invalid_model_name_does_not_spoil_its_batch(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    for model in ("é" * 90, "a\"\\\n\x01\u2028", "\U0001f600" * 70):
        router.post(PATH, chat(model=model))
    spans_of(traces, 3)


# Collectors that fail.

def test_a_path_of_the_endpoint_is_used_as_it_is(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url + "/otlp/here", **QUIET)
    ask(router)
    spans_of(traces, 1)
    assert traces.posts[0].path == "/otlp/here"


def test_a_dead_collector_costs_spans_and_no_request(standin, warmpath, collector):
    engine, traces = standin("a"), collector(start=False)
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    for _ in range(5):
        ask(router)
    eventually(lambda: metric(router, "warmpath_spans_dropped_total") == 5, "what is lost is counted", 10)
    ask(router)
    eventually(lambda: metric(router, "warmpath_spans_dropped_total") == 6, "this as well", 10)
    traces.start()
    ask(router, "x-request-id: after")
    span, = spans_of(traces, 1)
    assert span.attributes["warmpath.request_id"] == "after"
    eventually(lambda: "accepts spans again" in router.stderr(), "its return is said")
    assert router.stderr().count("does not accept spans") == 1, "its silence is said once"


def test_a_collector_that_hangs_costs_spans_and_no_request(standin, warmpath, collector):
    for _ in range(3):
        begun = time.monotonic()
        engine, traces = standin("a"), collector(status=None)
        router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
        ask(router)
        eventually(lambda: traces.asked == 1, "the collector has a post")
        slowest = 0
        with router.connect() as connection:
            for _ in range(600):  # more than the other batch holds
                begin = time.monotonic()
                connection.send(json_request(PATH, chat()))
                assert connection.read_response("POST").status == 200
                slowest = max(slowest, time.monotonic() - begin)
        if time.monotonic() - begun < 9:
            break  # otherwise the ten seconds of the post may be over: once more
    assert slowest < within(5), "no request waits the ten seconds of a post"
    eventually(lambda: metric(router, "warmpath_spans_dropped_total") == 600 - 512, "what found no room is counted")
    assert traces.asked == 1
    # The post is dropped after ten seconds, and not sent again.
    eventually(lambda: metric(router, "warmpath_spans_dropped_total") == 600 - 512 + 1, "the post has an end", 15)
    eventually(lambda: traces.asked == 2, "the next one is tried")


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_collector_gets_a_batch_once_more(standin, warmpath, collector, status):
    engine, traces = standin("a"), collector(at_first=[status])
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    ask(router)
    spans_of(traces, 1)
    assert traces.asked == 2 and metric(router, "warmpath_spans_dropped_total") == 0


def test_remaining_spans_are_sent_at_exit(standin, warmpath, collector):
    engine, traces = standin("a"), collector()
    router = warmpath(engine, tracing_endpoint=traces.url, **QUIET)
    ask(router)
    router.signal(signal.SIGTERM)
    assert router.wait_exit(10) == 0
    spans_of(traces, 1)
