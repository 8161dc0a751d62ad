"""The page for Prometheus."""
import re
import subprocess

import pytest
from client import Client, chat, request
from harness import eventually, free_port, within
from standin import CLOSE, plain_response

QUIET = {"health_interval": 0, "models_learn": False, "policy": "round_robin"}
SAMPLE = re.compile(r"^([a-z_]+)(?:\{(.*)\})? ([0-9.]+)$")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')


def parse(page):
    """(name, labels) -> value; every line must be valid, and every series unique."""
    found = {}
    for line in page.decode().splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        key = name, frozenset(LABEL.findall(labels or ""))
        assert key not in found, line
        found[key] = float(value)
    return found


def metrics_of(router):
    response = router.admin("GET", "/metrics")
    assert response.status == 200, response
    return parse(response.body)


def value(found, name, **labels):
    """The sum over all series that have these labels."""
    wanted = set(labels.items())
    return sum(number for (key, has), number in found.items() if key == name and wanted <= has)


def get(port, target):
    with Client(("127.0.0.1", port), within(5)) as connection:
        connection.send(request("GET", target, "Connection: close"))
        return connection.read_response("GET")


def wait_models(router, *engines):
    """Until the router knows the models of the engines: only then are others refused."""
    eventually(lambda: all(router.backend(engine)["models"] == engine.models for engine in engines), router.backends)


def promtool(page):
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, timeout=within(20))
    return done.returncode, (done.stdout + done.stderr).decode()


def test_promtool_accepts_the_page_of_a_router_at_work(standin, warmpath):
    a, b = standin("a"), standin("b")
    router = warmpath(a, b)
    wait_models(router, a, b)
    for number in range(6):
        assert router.post("/v1/chat/completions", chat(stream=number % 2 == 0)).status == 200
    assert router.post("/v1/chat/completions", chat(model='no "such" model')).status == 404
    response = router.admin("GET", "/metrics")
    assert response.header("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    assert promtool(response.body) == (0, "")
    assert promtool(b"warmpath_x_total{a=} 1\n")[0] != 0  # it does look


def test_requests_are_counted_exactly_once(standin, warmpath):
    a, b = standin("a"), standin("b")
    b.respond("/bad", plain_response(500, b"no"))
    a.respond("/bad", plain_response(500, b"no"))
    router = warmpath(a, b, policy="round_robin", retry_attempts=1)
    wait_models(router, a, b)
    for _ in range(10):
        router.post("/v1/chat/completions", chat(stream=True, events=4))
    for _ in range(3):
        router.post("/v1/chat/completions", chat())
    router.post("/bad", chat())
    router.post("/v1/chat/completions", chat(model="unheard-of"))
    found = eventually(lambda: (now := metrics_of(router)) and value(now, "warmpath_requests_total") == 15 and now,
                       lambda: metrics_of(router))
    labels = {"model": "test-model", "policy": "round_robin"}
    assert value(found, "warmpath_requests_total", outcome="ok", **labels) == 13
    assert value(found, "warmpath_requests_total", outcome="failed", **labels) == 1
    assert value(found, "warmpath_requests_total", outcome="refused", backend="none") == 1
    for engine in (a, b):
        assert value(found, "warmpath_requests_total", backend=engine.url) == len(engine.requests) > 0
    assert value(found, "warmpath_requests_received_total") == 15
    assert value(found, "warmpath_problems_total") == value(found, "warmpath_problems_total",
                                                            code="model_not_found") == 1
    # Only streams have a visible first token; failed requests have no duration.
    assert value(found, "warmpath_time_to_first_token_seconds_count", model="test-model") == 10
    assert value(found, "warmpath_time_to_first_token_seconds_bucket", model="test-model", le="+Inf") == 10
    assert value(found, "warmpath_backend_time_to_first_token_seconds_count") == 10
    assert value(found, "warmpath_request_duration_seconds_count", model="test-model") == 13
    assert value(found, "warmpath_output_tokens_total") >= 10 * 4
    assert value(found, "warmpath_routing_stage_seconds_count", stage="decide") >= 14
    assert value(found, "warmpath_upstream_connections_opened_total") >= 2
    assert value(found, "warmpath_upstream_connections_reused_total") >= 1


def test_poison_requests_are_counted(standin, warmpath):
    engines = [standin(str(number)) for number in range(3)]
    for engine in engines:
        engine.respond("/v1/chat/completions", CLOSE)
    router = warmpath(*engines, health_eject_failures=0, **QUIET)
    for _ in range(4):
        assert router.post("/v1/chat/completions", chat()).status == 502
    found = metrics_of(router)
    assert value(found, "warmpath_poison_requests_total") == 4
    assert value(found, "warmpath_retries_total") == 1


def test_buckets_never_fall(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    for _ in range(5):
        router.post("/v1/chat/completions", chat(stream=True))
    page = router.admin("GET", "/metrics").body.decode()
    series = {}
    for name, labels, count in re.findall(r"^(\w+_bucket)\{(.*)\} (\d+)$", page, re.MULTILINE):
        *others, bound = LABEL.findall(labels)
        series.setdefault((name, *others), []).append((float(bound[1]), int(count)))
    assert len(series) >= 5
    for rows in series.values():
        assert rows == sorted(rows) and [count for _, count in rows] == sorted(count for _, count in rows)


def test_backends_and_the_process_have_metrics(standin, warmpath):
    a, b = standin("a"), standin("b", start=False)
    router = warmpath(a, b, health_interval="100ms")
    router.wait_state(a, "up")
    router.wait_state(b, "down")
    router.admin("POST", f"/backends/{router.backend(a)['id']}/drain")
    found = metrics_of(router)
    assert value(found, "warmpath_backend_up", backend=a.url) == 1
    assert value(found, "warmpath_backend_up", backend=b.url) == 0
    assert value(found, "warmpath_backend_probe_up", backend=b.url) == 0
    assert value(found, "warmpath_backend_draining", backend=a.url) == 1
    assert value(found, "warmpath_backend_info", backend=a.url, pool="default") == 1
    assert value(found, "warmpath_workers") == 2
    # Probes open and close descriptors meanwhile.
    eventually(lambda: value(metrics_of(router), "process_open_fds") == pytest.approx(router.descriptors(), abs=3),
               lambda: f"{router.descriptors()} descriptors in {metrics_of(router)}")
    assert value(found, "process_resident_memory_bytes") == pytest.approx(router.memory(), rel=0.5)


def test_the_admin_api_needs_its_token(standin, warmpath):
    engine = standin()
    router = warmpath(engine, **QUIET)
    assert router.admin("GET", "/metrics", token=None).status == 401
    assert router.admin("GET", "/metrics", token="wrong").status == 401


def test_metrics_listen_needs_no_token_and_serves_nothing_else(standin, warmpath):
    engine = standin()
    port = free_port()
    router = warmpath(engine, metrics_listen=f"127.0.0.1:{port}", **QUIET)
    router.get("/x")
    response = get(port, "/metrics")
    assert response.status == 200 and value(parse(response.body), "warmpath_workers") == 2
    for target in ("/status", "/backends", "/health", "/", "/metrics/x"):
        assert get(port, target).status == 404
    assert promtool(response.body) == (0, "")


def test_metrics_need_no_admin_api(standin, binary, tmp_path):
    engine = standin()
    port, metrics_port = free_port(), free_port()
    with open(tmp_path / "stderr", "wb") as stderr:
        process = subprocess.Popen([binary, "serve", "--listen", f"127.0.0.1:{port}", "--backend", engine.url,
                                    "--metrics-listen", f"127.0.0.1:{metrics_port}"], stderr=stderr)
    try:
        page = eventually(lambda: response_of(metrics_port), "it responds", 10)
        assert value(parse(page), "warmpath_backend_info", backend=engine.url) == 1
    finally:
        process.terminate()
        assert process.wait(within(10)) == 0


def response_of(port):
    try:
        return get(port, "/metrics").body
    except ConnectionRefusedError:
        return None


def test_nothing_is_counted_with_metrics_off(standin, warmpath):
    engine = standin()
    router = warmpath(engine, metrics_enabled=False, **QUIET)
    assert router.post("/v1/chat/completions", chat(stream=True)).status == 200
    response = router.admin("GET", "/metrics")
    found = parse(response.body)
    assert not any(name.startswith(("warmpath_requests_total", "warmpath_time_", "warmpath_cached"))
                   for name, _ in found)
    assert value(found, "warmpath_requests_received_total") == 1
    assert promtool(response.body) == (0, "")


def test_a_router_of_a_cluster_counts_what_it_shares(standin, warmpath):
    engine = standin()
    port = free_port()
    keys = {"cluster_secret": "a-secret-of-all-routers", "policy": "warm", "health_interval": 0, "models_learn": False}
    first = warmpath(engine, cluster_listen=f"127.0.0.1:{port}", **keys)
    second = warmpath(engine, cluster_listen=f"127.0.0.1:{free_port()}", cluster_peers=f"127.0.0.1:{port}", **keys)
    long = [{"role": "user", "content": "All the rules of the house. " * 200}]
    first.post("/v1/chat/completions", chat(stream=True, messages=long))

    def shows(router, name, least=1):
        return value(metrics_of(router), f"warmpath_cluster_{name}") >= least

    for router in (first, second):
        for name in ("up", "peers", "batches_sent_total", "batches_received_total", "bytes_sent_total", "bytes_received_total",
                     "snapshots_taken_total", "snapshots_given_total", "memory_bytes"):
            eventually(lambda router=router, name=name: shows(router, name), lambda router=router: metrics_of(router), 10)
        overview = router.admin("GET", "/overview").json()["cluster"]
        assert overview.keys() == router.status()["cluster"].keys() and len(overview["peers"]) == 1
        page = router.admin("GET", "/metrics").body
        assert value(parse(page), "warmpath_cluster_peer_silence_seconds") < 2
        assert promtool(page) == (0, "")
    assert shows(first, "notes_total")
    assert value(metrics_of(first), "warmpath_cluster_malformed_frames_total") == 0


def test_a_router_alone_has_no_values_of_a_cluster(standin, warmpath):
    found = metrics_of(warmpath(standin(), **QUIET))
    assert not any(name.startswith("warmpath_cluster_") for name, _ in found)
