"""Data-parallel ranks: one server, several caches, each of them a target of its own."""
import collections
import json
import re
import signal
import subprocess

import pytest
from client import chat
from harness import eventually, within
from standin import plain_response

RANK = "x-data-parallel-rank"
QUIET = "health: {interval: 0}\nmodels: {learn: false}\nload: {scrape: false}\n"


def config(*rows, policy="round_robin", more=QUIET):
    lines = "".join(f"  - {row}\n" for row in rows)
    return f"policy: {policy}\n{more}backends:\n{lines}"


def row(engine, ranks, **fields):
    """A backend as one line of the file."""
    return json.dumps({"url": engine.url, "ranks": ranks, **fields})


def ranks_of(engine):
    """The rank header of each of its requests; header() checks that it occurs once."""
    return [request.header(RANK) for request in engine.requests]


def rank_of_response(response):
    return re.fullmatch(r"http://.*#rank=(\d+)", response.header("x-warmpath-backend"))[1]


def test_requests_are_spread_over_ranks_and_each_names_its_own(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(row(a, 4), b.url), workers=1)
    responses = [router.get("/x") for _ in range(20)]
    assert collections.Counter(ranks_of(a)) == {"0": 4, "1": 4, "2": 4, "3": 4}
    assert ranks_of(b) == [None] * 4
    told = [rank_of_response(response) for response in responses if response.json()["engine"] == "a"]
    assert told == ranks_of(a), "the response names its rank"


def test_a_clients_own_rank_is_replaced_where_we_choose_and_passed_on_where_not(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(row(a, 2), b.url), workers=1)
    for _ in range(6):
        assert router.get("/x", "X-DATA-Parallel-rank: 7").status == 200
    assert sorted(ranks_of(a)) == ["0", "0", "1", "1"]
    assert ranks_of(b) == ["7", "7"]


@pytest.mark.parametrize("policy", ["warm", "consistent_hash"])
def test_a_session_stays_at_its_rank(standin, warmpath, policy):
    engine = standin("a")
    router = warmpath(config=config(row(engine, 4), policy=policy))
    for session in ("one", "two", "three", "four", "five", "six"):
        before = len(engine.requests)
        for _ in range(6):
            router.post("/v1/chat/completions", chat(), f"X-Session-Id: {session}")
        assert len(set(ranks_of(engine)[before:])) == 1, session
    assert len(set(ranks_of(engine))) > 1, "sessions are told apart"


def test_a_prefix_stays_at_the_rank_that_computed_it(standin, warmpath):
    engine = standin("a")
    router = warmpath(config=config(row(engine, 4), policy="warm"))
    homes = {}
    for turn in range(4):
        for name in ("red", "green", "blue"):
            text = f"{name} " * 2000 + "".join(f"and so on, {number}. " for number in range(turn))
            body = chat(messages=[{"role": "user", "content": text}])
            rank = rank_of_response(router.post("/v1/chat/completions", body))
            assert homes.setdefault(name, rank) == rank, (turn, name)


def test_ranks_are_listed_and_leave_together(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(row(a, 3), b.url))
    assert set(router.backends()) == {f"{a.url}#rank={number}" for number in range(3)} | {b.url}
    for number in range(3):
        backend = router.backends()[f"{a.url}#rank={number}"]
        assert (backend["rank"], backend["ranks"], backend["address"]) == (number, 3, f"127.0.0.1:{a.port}")
    assert "rank" not in router.backends()[b.url]
    middle = router.backends()[f"{a.url}#rank=1"]["id"]
    assert router.admin("DELETE", f"/backends/{middle}").status == 204
    eventually(lambda: set(router.backends()) == {b.url}, "all ranks are gone")


def test_ranks_can_be_added_and_changed_while_it_runs(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(config=config(a.url))
    added = router.admin("POST", "/backends", {"url": b.url, "ranks": 2})
    assert added.status == 201 and added.json()["url"] == f"{b.url}#rank=0"
    refused = router.admin("POST", "/backends", {"url": "http://127.0.0.1:1", "ranks": 2, "events": "ipc:///x"})
    assert refused.status == 422 and "ipc:// has no ports" in refused.json()["error"]["message"]
    for _ in range(12):
        assert router.get("/x").status == 200
    assert set(ranks_of(b)) == {"0", "1"}
    router.write_config(config(row(a, 2)))
    router.signal(signal.SIGHUP)
    wanted = {f"{engine.url}#rank={number}" for engine in (a, b) for number in range(2)}
    eventually(lambda: set(router.backends()) == wanted, "the line has two ranks now")


def test_one_probe_covers_all_ranks(standin, warmpath):
    engine = standin("a")
    router = warmpath(config=config(
        row(engine, 8), more="health: {interval: 100ms, fall: 1}\nmodels: {interval: 1h}\nload: {scrape: false}\n"))
    names = [f"{engine.url}#rank={number}" for number in range(8)]

    def all_are(state):
        backends = router.backends()
        return all(backends[name]["state"] == state for name in names)

    eventually(lambda: all(router.backends()[name]["models"] == ["test-model"] for name in names), "models are known")
    assert sum(probe.path == "/v1/models" for probe in engine.probes) == 1
    engine.health_status = 503
    eventually(lambda: all_are("down"), "all are down")
    engine.health_status = 200
    eventually(lambda: all_are("up"), "all are up")
    probes = [probe.arrived_at for probe in engine.probes if probe.path == "/health"]
    # The first may have arrived late.
    fastest = (probes[-1] - probes[0] + within(0.1)) / 0.09 + 2
    assert len(probes) <= fastest, "they are asked for as one"


def test_each_rank_has_its_own_load(standin, warmpath):
    engine = standin("a")
    page = "".join(f'vllm:cache_config_info{{block_size="16",engine="{number}",num_gpu_blocks="{number}01"}} 1.0\n'
                   for number in range(1, 4))
    engine.respond("/metrics", plain_response(200, page.encode()))
    router = warmpath(config=config(
        row(engine, 4), more="health: {interval: 0}\nmodels: {learn: false}\nload: {interval: 100ms}\n"))

    def reported():
        return [router.backends()[f"{engine.url}#rank={number}"]["load"]["cache_tokens"] for number in range(4)]

    eventually(lambda: reported() == [None, 1600, 3200, 4800], "each has the size of its own cache")


def test_a_dead_server_costs_a_request_one_try(standin, warmpath):
    dead, well = standin("dead", start=False), standin("well")
    router = warmpath(config=config(
        row(dead, 8), well.url, more=QUIET.replace("{interval: 0}", "{interval: 0, eject_failures: 0}")))
    for _ in range(9):
        assert router.get("/x").json()["engine"] == "well"
    tries = sum(backend["requests"] for url, backend in router.backends().items() if url != well.url)
    assert 0 < tries <= 9, tries


BAD = {
    "ranks that are none": ("- {url: http://127.0.0.1:1, ranks: 0}", "backends.ranks: 0 is too small"),
    "too many": ("- {url: http://127.0.0.1:1, ranks: 65}", "backends.ranks: 65 is too large"),
    "ports that overlap": (
        "- {url: http://127.0.0.1:1, ranks: 8, events: 'tcp://*:5557', events_replay: 'tcp://*:5558'}",
        "with 8 ranks its ports, 5558 to 5565, overlap with those of events, 5557 to 5564"),
    "no ports": ("- {url: http://127.0.0.1:1, ranks: 2, events: 'ipc:///tmp/kv'}", "ipc:// has no ports"),
    "ports that end": ("- {url: http://127.0.0.1:1, ranks: 9, events: 'tcp://*:65530'}", "go beyond 65535"),
    "no port": ("- {url: http://127.0.0.1:1, events: 'tcp://*'}", "the port is missing"),
    "no scheme": ("- {url: http://127.0.0.1:1, events: '*:5557'}", "an endpoint starts with tcp:// or ipc://"),
}


@pytest.mark.parametrize("case", BAD)
def test_invalid_ranks_are_refused_with_line_and_reason(binary, tmp_path, case):
    line, reason = BAD[case]
    path = tmp_path / "bad.yaml"
    path.write_text(f"policy: warm\nbackends:\n  - http://127.0.0.1:2\n  {line}\n")
    done = subprocess.run([binary, "check", str(path)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(10))
    assert done.returncode == 2
    assert re.match(re.escape(str(path)) + r":4:\d+: ", done.stderr), done.stderr
    assert reason in done.stderr
