"""Decisions of single requests, and their stream: GET /decisions, /explain?id=, /overview, /stream.
"""
import json
import signal
import time
import urllib.parse

import pytest
from client import Client, Ended, chat, request
from harness import TOKEN, eventually, within
from standin import RESET
from test_69_explain import BODY, PATH, WORDS, explain, simulated  # noqa: F401: fixtures

QUIET = {"health_interval": 0, "models_learn": False}
STREAMS_MAX = 16


class Watcher:
    """One GET /stream."""

    def __init__(self, router, **options):
        self.client = Client(("127.0.0.1", router.admin_port), within(10), **options)
        router.clients.append(self.client)
        self.client.send(request("GET", "/stream", f"Authorization: Bearer {TOKEN}"))

    def head(self):
        return self.client.read_head()

    def event(self):
        """The next event: its name and its document.  Comments are passed over."""
        while True:
            text = self.client.take_through(b"\n\n").decode()
            if text.startswith(":"):
                continue
            name, data = text.strip("\n").split("\n")
            assert name.startswith("event: ") and data.startswith("data: "), text
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))

    def next(self, wanted):
        while True:
            name, document = self.event()
            if name == wanted:
                return document

    def has_missed_some(self):
        """Whether the next few rounds skip a second."""
        last = self.next("overview")["now_ms"]
        for _ in range(3):
            now = self.next("overview")["now_ms"]
            if now - last > 2000:
                return True
            last = now
        return False

    def close(self):
        self.client.close()


def send(router, identity, **more):
    response = router.post(PATH, {**BODY, **more}, f"X-Request-Id: {identity}", "X-Warmpath-Decision: 1")
    assert response.status == 200, response
    assert response.header("x-request-id") == identity
    return response


def decision_of(router, identity):
    """As soon as it has ended."""
    def kept():
        response = router.admin("GET", f"/decisions/{urllib.parse.quote(identity, safe='')}")
        return response.status == 200 and response.json()["outcome"] != "running" and response.json()
    return eventually(kept, lambda: str(router.admin("GET", "/decisions").json()))


def fields(header):
    return dict(part.split("=", 1) for part in header.split("; "))


def test_a_decision_agrees_with_the_header_and_with_the_engine(simulated, warmpath):
    urls = simulated(2)
    router = warmpath(*urls, policy="warm", **QUIET)
    first = send(router, "first").header("x-warmpath-backend")
    decision_of(router, "first")

    def matched():
        rows = router.admin("POST", f"/explain?path={PATH}", BODY).json()["backends"]
        return {row["url"]: row["matched_tokens"] for row in rows}[first]

    # The router learns from a response after its client has it.
    eventually(lambda: matched() > 1000, "the router knows where the prompt is cached")
    response = send(router, "second")
    told = fields(response.header("x-warmpath-decision"))
    usage = response.json()["usage"]
    kept = decision_of(router, "second")
    home = response.header("x-warmpath-backend")
    assert kept["id"] == "second" and kept["path"] == PATH and kept["model"] == BODY["model"]
    assert kept["backend"] == {"id": router.backend(home)["id"], "url": home}
    assert (kept["policy"], kept["outcome"], kept["status"], kept["problem"]) == ("warm", "ok", 200, None)
    assert kept["attempts"] == 1 and kept["streamed"] is False
    assert kept["candidates"] == int(told["candidates"]) == 2
    assert kept["running_requests"] == int(told["running_requests"])
    assert kept["expected_tokens"] == int(told["expected_tokens"]) > 1000
    assert kept["queued_tokens"] == int(told["queued_tokens"])
    assert kept["by_events"] is (told["by_events"] == "yes")
    assert kept["predicted_ms"] == pytest.approx(float(told["predicted_ms"]), abs=0.06)
    assert kept["cost"] == pytest.approx(float(told["cost"]), rel=0.01)
    assert kept["prompt_tokens"] == usage["prompt_tokens"]
    assert kept["cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"] > 1000
    assert kept["output_tokens"] == usage["completion_tokens"]
    assert kept["ttft_ms"] is None, "who does not stream has no first token to see"
    assert kept["total_ms"] > 0 and abs(kept["time_ms"] / 1000 - time.time()) < within(30)
    assert all(value >= 0 for value in kept["stages_us"].values())
    other, = set(urls) - {home}
    assert [rival["url"] for rival in kept["rivals"]] == [other]
    assert kept["rivals"][0]["expected_tokens"] == 0
    assert kept["why"].startswith(f"warm chose {home}, which is believed to hold "), kept["why"]
    assert kept["why"].count(".") == urls[0].count(".") + urls[1].count(".") + 1, "one sentence"
    assert f"the next best, {other}, holds none of them" in kept["why"], kept["why"]
    assert router.admin("GET", "/explain?id=second").json() == kept


def test_a_stream_of_tokens_shows_when_the_first_came(simulated, warmpath):
    router = warmpath(*simulated(1), policy="warm", **QUIET)
    # Half a second of tokens: even a delayed router sees them arrive one after the other.
    router.post(PATH, {**BODY, "stream": True, "max_tokens": 512}, "X-Request-Id: streamed")
    kept = decision_of(router, "streamed")
    assert kept["streamed"] is True
    assert 0 < kept["ttft_ms"] <= kept["total_ms"] and kept["tpot_ms"] > 0
    assert ", so warm chose " in kept["why"] or ": warm chose " in kept["why"], kept["why"]
    assert "candidate holds" in kept["why"], kept["why"]


def test_ids_are_spelt_as_in_any_url(standin, warmpath):
    router = warmpath(standin(), policy="round_robin", **QUIET)
    identity = "a/b?c=d%20&e"
    router.post("/v1/chat/completions", chat(), f"X-Request-Id: {identity}")
    kept = decision_of(router, identity)
    assert kept["id"] == identity
    assert kept["why"].startswith("round_robin chose ") and "without a look at the prompt" in kept["why"]
    assert kept["predicted_ms"] is None and kept["cost"] is None
    quoted = urllib.parse.quote(identity, safe="")
    assert router.admin("GET", f"/explain?id={quoted}").json() == kept


def test_an_unknown_decision_is_404_and_an_invalid_query_is_400(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    for target in ("/decisions/unheard-of", "/explain?id=unheard-of"):
        response = router.admin("GET", target)
        assert response.status == 404 and response.error()["code"] == "not_found"
        assert "no decision of that request id" in response.error()["message"]
    for target in ("/decisions?limit=many", "/decisions?limit=1001", "/decisions?since=-1", "/explain",
                   "/overview?since=yesterday", "/decisions/%zz"):
        response = router.admin("GET", target)
        assert response.status == 400 and response.error()["code"] == "bad_query", (target, response)
    assert router.admin("GET", "/decisions", token=None).status == 401
    assert router.admin("GET", "/stream", token="wrong").status == 401


def test_the_list_is_newest_first_and_goes_on_from_a_serial(standin, warmpath):
    router = warmpath(standin(), policy="round_robin", **QUIET)
    assert router.admin("GET", "/decisions").json() == {"serial": 0, "decisions": []}
    for number in range(5):
        router.post("/v1/chat/completions", chat(), f"X-Request-Id: r{number}")
    for number in range(5):  # those of different workers come in any order
        decision_of(router, f"r{number}")
    everything = router.admin("GET", "/decisions").json()
    serials = [row["serial"] for row in everything["decisions"]]
    assert serials == sorted(serials, reverse=True) and everything["serial"] == serials[0]
    assert {row["id"] for row in everything["decisions"]} == {f"r{number}" for number in range(5)}
    two = router.admin("GET", "/decisions?limit=2").json()["decisions"]
    assert two == everything["decisions"][:2]
    later = router.admin("GET", f"/decisions?since={serials[2]}").json()["decisions"]
    assert later == everything["decisions"][:2]
    assert router.admin("GET", f"/decisions?since={serials[0]}").json()["decisions"] == []


def test_a_refused_request_has_a_decision_without_a_backend(standin, warmpath):
    engine = standin(models=["m"])
    router = warmpath(engine, health_interval=0)
    eventually(lambda: router.backend(engine)["models"] == ["m"], "its models are known")
    response = router.post("/v1/chat/completions", chat(model="unheard-of"), "X-Request-Id: lost")
    assert response.status == 404, response
    kept = decision_of(router, "lost")
    assert (kept["outcome"], kept["status"], kept["problem"]) == ("refused", 404, "model_not_found")
    assert kept["backend"] is None and kept["rivals"] == []
    assert kept["why"] == "No backend was chosen: the router responded model_not_found."


def test_a_retry_is_part_of_the_sentence(standin, warmpath):
    bad, good = standin("bad"), standin("good")
    bad.respond("/v1/chat/completions", RESET)
    router = warmpath(bad, good, policy="round_robin", health_eject_failures=0, **QUIET)
    for number in range(4):
        router.post("/v1/chat/completions", chat(), f"X-Request-Id: r{number}")
    kept = [decision_of(router, f"r{number}") for number in range(4)]
    retried = [row for row in kept if row["attempts"] == 2]
    assert retried, kept
    assert all(row["why"].startswith(f"After 1 attempt elsewhere, round_robin chose {good.url}") for row in retried)


def test_the_overview_counts_what_was_sent(simulated, warmpath):
    router = warmpath(*simulated(2), policy="warm", savings_gpu_hour_cents=250, **QUIET)
    for number in range(6):
        send(router, f"r{number}")
    for number in range(6):
        decision_of(router, f"r{number}")
    page = router.admin("GET", "/overview").json()
    assert page["policy"] == "warm" and page["price"] == {"gpu_hour": 2.5, "currency": "$", "gpus": 1}
    assert page["totals"]["requests"] == 6 and page["totals"]["failures"] == 0
    assert page["totals"]["told_prompt_tokens"] >= page["totals"]["cached_tokens"] > 0
    assert page["totals"]["saved_s"] > 0
    assert page["totals"]["saved_money"] == pytest.approx(page["totals"]["saved_s"] * 2.5 / 3600, rel=1e-4)
    assert 0 < page["recent"]["hit_rate"] < 1
    assert [row["url"] for row in page["backends"]] == list(router.backends())
    assert sum(row["requests"] for row in page["backends"]) == 6
    assert page["hottest"] == [] or page["hottest"][0]["tokens"] > 0
    lengths = {len(line) for name, line in page["series"].items() if name != "step_s"}
    assert len(lengths) == 1, page["series"]
    assert router.admin("GET", f"/overview?since={page['now_ms'] + 60000}").json()["series"]["time_ms"] == []


def test_a_stream_begins_at_once_and_sends_decisions_as_they_come(standin, warmpath):
    router = warmpath(standin(), policy="round_robin", **QUIET)
    watcher = Watcher(router)
    head = watcher.head()
    assert head.status == 200 and head.header("content-type") == "text/event-stream"
    assert head.header("cache-control") == "no-store"
    assert not [name for name, _ in head.headers if name.lower().startswith("access-control")]
    first = watcher.next("overview")
    assert first["totals"]["requests"] == 0
    router.post("/v1/chat/completions", chat(), "X-Request-Id: seen")
    news = watcher.next("decisions")
    assert [row["id"] for row in news["decisions"]] == ["seen"]
    assert news["serial"] == news["decisions"][0]["serial"]
    second, third = watcher.next("overview"), watcher.next("overview")
    assert second["totals"]["requests"] == 1
    assert 0.5 < (third["now_ms"] - second["now_ms"]) / 1000 < within(3)
    assert not set(first["series"]["time_ms"]) & set(second["series"]["time_ms"])
    watcher.close()


def test_the_seventeenth_stream_is_refused_until_one_has_left(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    watchers = [Watcher(router) for _ in range(STREAMS_MAX)]
    assert all(watcher.head().status == 200 for watcher in watchers)
    refused = router.admin("GET", "/stream")
    assert refused.status == 503 and refused.error()["code"] == "router_overloaded"
    assert "too many streams" in refused.error()["message"]
    assert router.admin("GET", "/status").status == 200
    watchers[3].close()

    def admitted():
        watcher = Watcher(router)
        return watcher.head().status == 200 and watcher
    watchers.append(eventually(admitted, "there is room again"))
    for watcher in watchers[:3] + watchers[4:]:
        assert watcher.next("overview")["version"]
        watcher.close()


@pytest.mark.timeout(90)
def test_a_reader_that_stops_takes_no_memory_and_delays_no_one_else(standin, warmpath):
    router = warmpath(standin(), load_scrape=False, **QUIET)  # no descriptors but those of watchers
    # Rounds of more than a megabyte: a socket holds one or two of them, and no more.
    names = [f"m{number:0200d}" for number in range(250)]
    for port in range(1, 26):
        added = router.admin("POST", "/backends", {"url": f"http://127.0.0.1:{port}", "models": names})
        assert added.status == 201, added
    stuck = [Watcher(router, receive_buffer=4096) for _ in range(3)]
    reader = Watcher(router)
    assert reader.head().status == 200
    for _ in range(2):
        assert len(reader.next("overview")["backends"]) == 26
    before = router.memory()
    descriptors = router.descriptors()
    for _ in range(5):
        began = time.monotonic()
        reader.next("overview")
        assert time.monotonic() - began < within(10), "a stuck stream has 30 seconds, and nothing waits for it"
        assert router.admin("GET", "/status").status == 200
    # One round being made, and one in transit to the reader, come and go.
    assert router.memory() - before < 8 << 20, "rounds that were missed would have been fifteen megabytes and more"
    eventually(lambda: router.descriptors() <= descriptors, "no descriptor is left behind")
    for watcher in stuck:
        assert watcher.head().status == 200
        assert watcher.has_missed_some(), "rounds that it had no room for were not kept"
        watcher.close()
    reader.close()


def test_streams_do_not_hold_up_the_end(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    watcher = Watcher(router)
    assert watcher.head().status == 200
    watcher.next("overview")
    router.signal(signal.SIGTERM)
    assert router.wait_exit() == 0
    with pytest.raises(Ended):
        while True:
            watcher.event()


def test_the_command_shows_a_decision_with_its_rivals(simulated, warmpath, explain):
    urls = simulated(2)
    router = warmpath(*urls, policy="warm", **QUIET)
    home = send(router, "a b/c").header("x-warmpath-backend")
    kept = decision_of(router, "a b/c")
    page = explain(router, "--id", "a b/c").stdout
    assert page.startswith(kept["why"] + "\nIt ended as ok (200)"), page
    other, = set(urls) - {home}
    table = page.split("\n\n")[1].splitlines()
    assert table[1].split()[:2] == [">", home] and table[2].split()[0] == other, page
    assert json.loads(explain(router, "--id", "a b/c", "--json").stdout) == kept
    refused = explain(router, "--id", "unheard-of", code=1).stderr
    assert "the router responds with 404" in refused and "no decision of that request id is kept" in refused, refused
    assert "--body" in explain(router, "--id", "x", "--prompt", "y", code=2).stderr


def test_the_command_takes_a_file_by_its_name(simulated, warmpath, explain, tmp_path):
    router = warmpath(*simulated(1), policy="warm", **QUIET)
    body = tmp_path / "request.json"
    body.write_text(json.dumps({**BODY, "prompt": WORDS[:4000]}))
    page = explain(router, str(body), "--path", PATH).stdout
    assert page.startswith("The only candidate holds none of the "), page


def test_without_metrics_only_the_fleet_is_shown(standin, warmpath):
    router = warmpath(standin(), metrics_enabled=False, **QUIET)
    router.post("/v1/chat/completions", chat(), "X-Request-Id: gone")
    page = router.admin("GET", "/overview").json()
    assert page["totals"]["requests"] == 1 and page["totals"]["failures"] is None
    assert page["recent"]["hit_rate"] is None and len(page["backends"]) == 1
    assert page["series"]["time_ms"] == [] and page["hottest"] == []
    assert router.admin("GET", "/decisions").json() == {"serial": 0, "decisions": []}
    assert router.admin("GET", "/decisions/gone").status == 404
    watcher = Watcher(router)
    assert watcher.head().status == 200 and watcher.next("overview")["totals"]["requests"] == 1
    watcher.close()


def test_ids_and_names_that_are_not_utf8_leave_valid_json(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    ids = {"caf\xe9": "caf?", "L" * 300: "L" * 128}
    for name in ids:
        head = request("POST", "/v1/chat/completions", "Content-Type: application/json", f"X-Request-Id: {name}",
                       body=json.dumps({"model": "m" * 127 + "é", "messages": []}, ensure_ascii=False).encode())
        router.ask(head)
    page = eventually(lambda: len((page := router.admin("GET", "/decisions").json())["decisions"]) == 2 and page,
                      "two decisions")
    assert {row["id"] for row in page["decisions"]} == set(ids.values())
    assert {row["model"] for row in page["decisions"]} == {"m" * 127 + "?"}
    for spelt in ("caf%e9", "L" * 300):
        assert router.admin("GET", f"/decisions/{spelt}").json()["path"] == "/v1/chat/completions"


def test_pages_of_other_sites_get_no_permission(standin, warmpath):
    router = warmpath(standin(), **QUIET)
    with Client(("127.0.0.1", router.admin_port), within(5)) as connection:
        connection.send(request("OPTIONS", "/overview", "Origin: https://elsewhere.example",
                                "Access-Control-Request-Headers: authorization", "Connection: close"))
        response = connection.read_response("OPTIONS")
    assert response.status == 401
    assert not [name for name, _ in response.headers if name.lower().startswith("access-control")]
