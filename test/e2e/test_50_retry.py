"""A request that fails before a byte of the response reached the client is retried elsewhere."""
import time

import pytest
from client import chat, request
from harness import eventually, free_port, within
from standin import CLOSE, RESET, SSE_HEAD, BlackHole, Gate, chunk, event, json_response, plain_response

FAILURES = {
    "reset": (RESET,), "close": (CLOSE,), "reset mid-head": (b"HTTP/1.1 200 OK\r\nContent-Le", RESET),
    "close mid-head": (b"HTTP/1.1 200 OK\r\nContent-Le", CLOSE)}
NO_EJECTION = {"health_eject_failures": 0, "health_interval": 0}


def test_a_refused_connection_is_tried_elsewhere(standin, warmpath):
    engine = standin()
    router = warmpath(f"http://127.0.0.1:{free_port()}", engine, policy="round_robin", **NO_EJECTION)
    for number in range(10):
        response = router.post("/x", {"n": number})
        assert response.status == 200
        assert response.header("x-warmpath-backend") == engine.url
    assert len(engine.requests) == 10


def test_a_connection_that_hangs_is_tried_elsewhere(standin, warmpath):
    hole, engine = BlackHole(), standin()
    # Asking for models would keep the router from listening for a second.
    router = warmpath(hole.url, engine, policy="round_robin", timeouts_connect="200ms", models_learn=False,
                      **NO_EJECTION)
    assert [router.get("/x").status for _ in range(4)] == [200] * 4
    hole.stop()


@pytest.mark.parametrize("failure", FAILURES)
def test_a_backend_that_leaves_before_its_head_is_replaced(standin, warmpath, failure):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", *FAILURES[failure])
    router = warmpath(bad, good, policy="round_robin", workers=1, **NO_EJECTION)
    body = b"a body that must arrive twice, whole" * 100
    for _ in range(4):
        response = router.ask(request("POST", "/x", "X-Request-Id: same", body=body))
        assert (response.status, response.json()["engine"]) == (200, "good")
    assert len(bad.requests) >= 1 and len(good.requests) == 4
    assert {seen.body for seen in (*bad.requests, *good.requests)} == {body}
    assert {seen.header("x-request-id") for seen in (*bad.requests, *good.requests)} == {"same"}


def test_a_large_body_is_sent_again_whole(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", RESET)
    router = warmpath(bad, good, policy="round_robin", workers=1, **NO_EJECTION)
    body = bytes(range(256)) * 8000
    for _ in range(2):
        assert router.ask(request("POST", "/x", body=body)).json()["engine"] == "good"
    assert all(seen.body == body for seen in good.requests)


def test_a_chunked_body_and_its_trailers_are_sent_again_whole(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", RESET)
    router = warmpath(bad, good, policy="round_robin", workers=1, **NO_EJECTION)
    whole = (request("POST", "/x", "Transfer-Encoding: chunked") + chunk(b"hello, ") + chunk(b"world")
             + b"0\r\nX-Sum: 1\r\n\r\n")
    for _ in range(2):
        assert router.ask(whole).json() == {"engine": "good", "method": "POST", "target": "/x", "size": 12}
    assert bad.requests
    for seen in bad.requests + good.requests:
        assert (seen.body, seen.trailers) == (b"hello, world", [("X-Sum", "1")])


def test_no_backend_is_tried_twice(standin, warmpath):
    engines = [standin(str(number)) for number in range(4)]
    for engine in engines:
        engine.respond("/x", *FAILURES["close mid-head"])
    router = warmpath(*engines, retry_attempts=10, **NO_EJECTION)
    response = router.get("/x")
    assert response.status == 502 and response.error()
    assert [len(engine.requests) for engine in engines] == [1, 1, 1, 1]


def test_attempts_are_bounded(standin, warmpath):
    engines = [standin(str(number)) for number in range(5)]
    for engine in engines:
        engine.respond("/x", *FAILURES["close mid-head"])
    router = warmpath(*engines, retry_attempts=3, **NO_EJECTION)
    assert router.get("/x").status == 502
    assert sum(len(engine.requests) for engine in engines) == 3


@pytest.mark.parametrize("end", [CLOSE, RESET])
@pytest.mark.parametrize("target", ["/x", "/v1/chat/completions"])
def test_a_request_that_ends_its_connection_without_a_byte_reaches_one_other_backend(standin, warmpath, end, target):
    engines = [standin(str(number)) for number in range(4)]
    for engine in engines:
        engine.respond(target, end)
    router = warmpath(*engines, retry_attempts=10, **NO_EJECTION)
    response = router.post(target, chat())
    assert response.status == 502 and response.error()["code"] == "bad_backend_answer"
    assert sorted(len(engine.requests) for engine in engines) == [0, 0, 1, 1]


def test_that_holds_for_kept_connections_which_are_replaced_once(standin, warmpath):
    engines = [standin(str(number)) for number in range(4)]
    router = warmpath(*engines, policy="round_robin", workers=1, retry_attempts=10, **NO_EJECTION)
    for _ in engines:
        assert router.post("/x", {"prompt": "harmless"}).status == 200
    for engine in engines:
        engine.respond("/x", CLOSE)
    response = router.post("/x", {"prompt": "poison"})
    assert response.status == 502 and response.error()["code"] == "bad_backend_answer"
    # A kept connection that closes may be a stale one: then the same engine is asked once more.
    assert sorted(len(engine.requests) for engine in engines) == [1, 1, 3, 3]


def dying(engine):
    """The script of an engine that a request kills: it takes no connection from then on."""
    def die(_):
        engine.server.close()
        engine.server = None
        return [CLOSE]
    return die


def test_an_engine_that_dies_of_a_request_on_a_kept_connection_counts(standin, warmpath):
    engines = [standin(str(number)) for number in range(4)]
    router = warmpath(*engines, policy="round_robin", workers=1, retry_attempts=10, **NO_EJECTION)
    for _ in engines:
        assert router.post("/x", {"prompt": "harmless"}).status == 200
    for engine in engines:
        engine.respond("/x", dying(engine))
    response = router.post("/x", {"prompt": "poison"})
    assert response.status == 502 and response.error()["code"] == "bad_backend_answer"
    assert [engine.server is None for engine in engines].count(True) == 2
    assert sum(len(engine.requests) for engine in engines) == 6


LONG = " ".join(f"word-{number}" for number in range(200))


@pytest.mark.parametrize("policy, text, same", [
    ("round_robin", "secret", "secret"),
    ("warm", "secret", "secret"),
    # With keys a prompt is its whole blocks: what follows them may differ.
    ("warm", LONG + " secret", LONG + " again")])
def test_a_prompt_that_two_engines_died_of_is_not_retried(standin, warmpath, policy, text, same):
    engines = [standin(str(number)) for number in range(5)]
    for engine in engines:
        engine.respond("/v1/chat/completions", CLOSE)
    router = warmpath(*engines, policy=policy, retry_attempts=10, **NO_EJECTION)

    def tries(words, request_id):
        before = [len(engine.requests) for engine in engines]
        body = chat(messages=[{"role": "user", "content": words}])
        response = router.post("/v1/chat/completions", body, f"X-Request-Id: {request_id}")
        assert response.status == 502 and response.error()["code"] == "bad_backend_answer"
        return [engine.url for engine, count in zip(engines, before, strict=True) if len(engine.requests) > count]

    dead = tries(text, "first")
    assert len(dead) == 2
    assert [len(tries(same, "later")) for _ in range(4)] == [1, 1, 1, 1]
    assert len(tries("another prompt", "other")) == 2
    lines = [line for line in router.stderr().splitlines() if "poison prompt" in line]
    assert [line for line in lines if "request first: poison prompt: " in line] == lines[:1]
    assert all(url in lines[0] for url in dead) and "later" not in "".join(lines)
    assert "secret" not in router.stderr() and "word" not in router.stderr()


def test_deaths_of_a_prompt_count_over_several_requests(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b, policy="round_robin", workers=1, retry_attempts=1, **NO_EJECTION)
    for engine in (a, b):
        engine.respond("/x", CLOSE)
    assert router.post("/x", {"prompt": "same"}).status == 502
    assert "poison prompt" not in router.stderr()
    for _ in range(3):
        assert router.post("/x", {"prompt": "same"}).status == 502
    assert a.requests and b.requests
    assert router.stderr().count("poison prompt") == 1


def test_a_response_shows_that_a_prompt_is_harmless(standin, warmpath):
    engines = [standin(str(number)) for number in range(3)]
    router = warmpath(*engines, **NO_EJECTION)

    def tries():
        before = sum(len(engine.requests) for engine in engines)
        response = router.post("/v1/chat/completions", chat())
        return response.status, sum(len(engine.requests) for engine in engines) - before

    for engine in engines:
        engine.respond("/v1/chat/completions", CLOSE)
    assert [tries() for _ in range(2)] == [(502, 2), (502, 1)]
    for engine in engines:
        engine.respond_once("/v1/chat/completions", json_response(200, {}, "Connection: close"), CLOSE)
    assert tries() == (200, 1)
    for engine in engines:
        engine.scripts_once.clear()
    assert [tries() for _ in range(3)] == [(502, 2)] * 3
    assert router.stderr().count("poison prompt") == 1


def test_a_request_is_not_retried_after_the_response_head(standin, warmpath):
    engines = [standin(str(number)) for number in range(2)]
    gates = {"/x": Gate(), "/y": Gate()}
    for engine in engines:
        engine.respond("/x", SSE_HEAD, gates["/x"], RESET)
        engine.respond("/y", SSE_HEAD, chunk(event(b"1")), gates["/y"], RESET)
    router = warmpath(*engines, **NO_EJECTION)
    for target, gate in gates.items():
        with router.connect() as client:
            client.send(request("GET", target))
            response = client.read_head()
            gate.open()
            client.read_body(response)
        assert response.status == 200 and not response.complete
    assert sum(len(engine.requests) for engine in engines) == 2


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_backend_is_replaced(standin, warmpath, status):
    busy, free = standin("busy"), standin("free")
    busy.respond("/x", json_response(status, {"error": "busy"}))
    router = warmpath(busy, free, policy="round_robin", workers=1)
    for _ in range(6):
        assert router.get("/x").json()["engine"] == "free"
    assert len(busy.requests) >= 1
    assert router.backend(busy)["state"] == "up"


@pytest.mark.parametrize("status", [429, 503])
def test_when_all_backends_are_busy_the_response_passes_unchanged(standin, warmpath, status):
    engines = [standin("0"), standin("1")]
    for engine in engines:
        engine.respond("/x", json_response(status, {"detail": "queue is full"}, "Retry-After: 7", "X-Queue: 99"))
    router = warmpath(*engines)
    response = router.get("/x")
    assert (response.status, response.json()) == (status, {"detail": "queue is full"})
    assert (response.header("retry-after"), response.header("x-queue")) == ("7", "99")
    assert [len(engine.requests) for engine in engines] == [1, 1]


@pytest.mark.parametrize("status", [502, 504])
def test_a_backend_that_reports_a_broken_engine_is_replaced(standin, warmpath, status):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", json_response(status, {"error": "no engine"}))
    router = warmpath(bad, good, policy="round_robin", workers=1, **NO_EJECTION)
    body = b"a body that must arrive twice, whole" * 100
    for _ in range(4):
        assert router.ask(request("POST", "/x", body=body)).json()["engine"] == "good"
    assert len(bad.requests) >= 1 and all(seen.body == body for seen in bad.requests + good.requests)
    # Retried or not, the response is a fault of the backend.
    assert router.backend(bad)["failures"] == len(bad.requests)


@pytest.mark.parametrize("status", [502, 504])
def test_when_all_engines_are_broken_the_last_response_passes_unchanged(standin, warmpath, status):
    engines = [standin(str(number)) for number in range(4)]
    for engine in engines:
        engine.respond("/x", json_response(status, {"says": engine.name}, "X-Why: broken"))
    router = warmpath(*engines, retry_attempts=3, **NO_EJECTION)
    response = router.get("/x")
    assert (response.status, response.header("x-why")) == (status, "broken")
    assert response.header("x-warmpath-backend") == engines[int(response.json()["says"])].url
    assert sum(len(engine.requests) for engine in engines) == 3


def test_a_status_is_not_retried_beyond_the_budget(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", json_response(502, {}))
    router = warmpath(bad, good, policy="round_robin", workers=1, retry_budget_percent=0, retry_budget_min=1,
                      retry_backoff=0, **NO_EJECTION)
    statuses = [router.get("/x").status for _ in range(8)]
    # Two retries are free, and one more every ten seconds.
    assert statuses.count(502) == len(bad.requests) - 2 > 0, statuses


def test_retried_statuses_eject_a_backend(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", json_response(502, {}))
    router = warmpath(bad, good, policy="round_robin", workers=1, health_eject_failures=2, health_eject_time="60s",
                      health_eject_time_max="60s", health_interval=0)
    for _ in range(6):
        assert router.get("/x").json()["engine"] == "good"
    assert len(bad.requests) == 2
    assert router.backend(bad)["state"] == "ejected"


@pytest.mark.parametrize("status", [400, 404, 413, 500, 501])
def test_other_responses_are_final(standin, warmpath, status):
    engines = [standin("0"), standin("1")]
    for engine in engines:
        engine.respond("/x", json_response(status, {"says": engine.name}))
    router = warmpath(*engines)
    response = router.get("/x")
    assert response.status == status
    assert sum(len(engine.requests) for engine in engines) == 1


def test_retry_on_says_which_statuses_are_retried(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    for status in (429, 500, 502, 503, 504):
        bad.respond(f"/{status}", json_response(status, {}))
    router = warmpath(bad, good, policy="round_robin", workers=1, retry_on=[500, 504], **NO_EJECTION)
    for status in (429, 500, 502, 503, 504):
        # One of two requests meets the bad one first, unless that has just asked for a pause.
        expected = {200} if status in (500, 504) else {200, status}
        assert {router.get(f"/{status}").status for _ in range(2)} == expected, status
        if status in (429, 503):
            assert router.get(f"/{status}").json()["engine"] == "good"  # it is still noted as busy
            eventually(lambda: router.backend(bad)["state"] == "up" and router.get("/free").json()["engine"] == "bad",
                       "the pause of a second is over")
            router.get("/free")  # the next one is the bad one's turn again


def test_without_statuses_every_response_is_final(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", json_response(503, {}))
    router = warmpath(workers=1, config=f"""
policy: round_robin
health: {{interval: 0}}
retry:
  on: []
backends: [{bad.url}, {good.url}]
""")
    assert {router.get("/x").status for _ in range(2)} == {200, 503}


def test_a_busy_backend_is_left_alone_as_long_as_it_asked(standin, warmpath):
    busy, free = standin("busy"), standin("free")
    busy.respond_once("/x", json_response(429, {}, "Retry-After: 2"))
    router = warmpath(busy, free, policy="round_robin", workers=1)

    def is_asked_again():
        assert router.get("/x").status == 200
        return len(busy.requests) > 1

    eventually(is_asked_again, "the busy backend gets requests again")
    assert busy.requests[1].arrived_at - busy.requests[0].arrived_at > 1.9


def test_the_only_backend_is_used_even_if_busy(standin, warmpath):
    engine = standin()
    engine.respond_once("/x", json_response(429, {}, "Retry-After: 60"))
    router = warmpath(engine)
    assert router.get("/x").status == 429
    assert router.get("/x").status == 200


def test_retries_have_a_budget(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", RESET)
    router = warmpath(bad, good, policy="round_robin", workers=1, retry_budget_percent=10, retry_budget_min=2,
                      retry_backoff=0, **NO_EJECTION)
    statuses = [router.get("/x").status for _ in range(60)]
    assert set(statuses) == {200, 502}
    # 30 of 60 fail at first; 2 retries are always free and 10 % of the requests may be retried.
    assert 18 <= statuses.count(502) <= 28, statuses.count(502)


def test_a_waiting_retry_is_dropped_when_the_client_leaves(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", RESET)
    good.respond("/x", RESET)
    router = warmpath(bad, good, retry_backoff="1s", **NO_EJECTION)

    def attempts():
        return len(bad.requests) + len(good.requests)

    for _ in range(5):  # the pause has a random length: the client may leave too late
        before = attempts()
        with router.connect() as client:
            client.send(request("GET", "/x"))
            eventually(lambda: attempts() > before, "the first attempt")
        time.sleep(1.2)
        if attempts() == before + 1:
            break
    assert attempts() == before + 1


def test_retries_do_not_wait_long(standin, warmpath):
    engine = standin()
    dead = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    router = warmpath(*dead, engine, **NO_EJECTION)
    begun = time.monotonic()
    for _ in range(5):
        assert router.post("/v1/chat/completions", chat()).status == 200
    assert time.monotonic() - begun < within(3)


def test_a_retry_may_use_a_new_connection_to_the_same_backend_when_the_old_one_was_stale(standin, warmpath):
    engine = standin()
    engine.respond_once("/x", plain_response(200, b"first"), CLOSE)
    router = warmpath(engine, retry_attempts=1, workers=1, **NO_EJECTION)
    with router.connect() as client:
        client.send(request("POST", "/x", body=b"abc"))
        assert client.read_response().body == b"first"
        client.send(request("POST", "/x", body=b"abc"))
        assert client.read_response().status == 200
    assert router.backend(engine)["failures"] == 0


def test_the_response_of_a_busy_engine_is_preferred_to_an_error(standin, warmpath):
    busy = standin()
    busy.respond("/x", json_response(429, {"busy": True}, "Retry-After: 7"))
    dead = f"http://127.0.0.1:{free_port()}"
    router = warmpath(busy, dead, health_interval="100ms", health_fall=1)
    eventually(lambda: router.backends()[dead]["state"] == "down", "the other is down")
    for _ in range(3):
        response = router.get("/x")
        assert response.status == 429 and response.header("retry-after") == "7"
