"""`warmpath audit`: cache use of a fleet, by its metrics pages."""
import json
import os
import pty
import signal
import subprocess

import pytest
from certificates import Authority
from harness import SANITIZER, eventually, free_port, within
from standin import STALL, json_response, plain_response

BOUNDS = [0.01, 0.1, 0.5, 1.0, 5.0]


def series(name, value, **labels):
    inside = ",".join(f'{key}="{word}"' for key, word in labels.items())
    return f"{name}{{{inside}}} {value}\n"


def histogram(name, values, **labels):
    lines = [series(name + "_bucket", sum(value <= bound for value in values), le=bound, **labels)
             for bound in BOUNDS]
    lines.append(series(name + "_bucket", len(values), le="+Inf", **labels))
    lines.append(series(name + "_sum", sum(values), **labels))
    lines.append(series(name + "_count", len(values), **labels))
    return "".join(lines)


def vllm(requests=0, tokens=0, hits=0, seconds=0.0, ttfts=(), prefix="vllm:", cache="prefix_cache"):
    labels = {"engine": "0", "model_name": "m"}
    return ("# HELP vllm:prompt_tokens_total Number of prefill tokens processed.\n" +
            series(prefix + cache + "_queries_total", tokens, **labels) +
            series(prefix + cache + "_hits_total", hits, **labels) +
            series(prefix + "prompt_tokens_total", tokens, **labels) +
            series(prefix + "request_success_total", requests, finished_reason="stop", **labels) +
            series(prefix + "request_prefill_time_seconds_sum", seconds, **labels) +
            series(prefix + "request_prefill_kv_computed_tokens_sum", tokens - hits, **labels) +
            histogram(prefix + "time_to_first_token_seconds", ttfts, **labels))


def text(page):
    return plain_response(200, page.encode(), "Content-Type: text/plain; version=0.0.4")


def pages(engine, before, after):
    engine.respond_once("/metrics", text(before))
    engine.respond("/metrics", text(after))


def run(binary, *words, seconds=15):
    done = subprocess.run([binary, "audit", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(seconds))
    assert not SANITIZER.search(done.stderr), done.stderr
    return done


def audit(binary, tmp_path, engines, *words):
    """Exit status, output, and the JSON."""
    path = tmp_path / "audit.json"
    urls = ",".join(getattr(engine, "url", engine) for engine in engines)
    done = run(binary, "--backend", urls, "--interval", "200ms", "--json", str(path), *words)
    return done.returncode, done.stdout, json.loads(path.read_text())


def test_counts_cover_the_time_between_two_scrapes(binary, tmp_path, standin):
    a, b = standin("a"), standin("b")
    pages(a, vllm(100, 50000, 40000), vllm(300, 150000, 50000, 2.0, [0.3] * 200))
    pages(b, vllm(), vllm(100, 100000, 10000, 1.0, [0.3] * 100))
    status, words, found = audit(binary, tmp_path, [a, b], "--timeout", "3s")
    assert status == 0
    fleet = found["fleet"]
    assert fleet["requests"] == 300 and fleet["prompt_tokens"] == 200000 and fleet["hit_rate"] == 0.1
    assert [replica["hit_rate"] for replica in found["replicas"]] == [0.1, 0.1]
    assert 0.1 <= fleet["ttft_p50_s"] <= 0.5 and fleet["seconds"] > 0.1
    assert found["verdict"]["name"] == "much" and "verdict: much" in words
    # One cache would have hit 2 * 10%.  The 180,000 computed tokens share the whole time of the
    # replicas, since the engines claim more than that.
    waste = found["waste"]
    assert waste["achievable_hit_rate"] == pytest.approx(0.2) and waste["tokens"] == pytest.approx(20000)
    assert waste["seconds_per_token"] == pytest.approx(2 * fleet["seconds"] / 180000, rel=0.05)
    assert waste["share"] == pytest.approx(2 / 18, rel=0.05)
    assert waste["money"] == pytest.approx(waste["gpu_hours"] * 1.25)


def test_every_engine_is_understood(binary, tmp_path, standin):
    names = ("new", "old", "sglang", "steps", "trtllm", "llama")
    new, old, sglang, steps, trtllm, llama = engines = [standin(name) for name in names]
    pages(new, vllm(), vllm(10, 1000, 500))
    pages(old, vllm(cache="gpu_prefix_cache"), vllm(10, 1000, 500, cache="gpu_prefix_cache"))
    pages(sglang, "sglang:num_running_reqs 0\n",
          series("sglang:prompt_tokens_total", 1000, model_name="m") +
          series("sglang:cached_tokens_total", 300, cache_source="device") +
          series("sglang:cached_tokens_total", 200, cache_source="host") +
          series("sglang:num_requests_total", 10, model_name="m") +
          histogram("sglang:time_to_first_token_seconds", [0.05] * 10))
    sglang.respond("/v1/loads", json_response(200, {"loads": [{"total_prefill_uncached_tokens": 500,
                                                            "total_prefill_busy_us": 100000}]}))
    blocks = [{"kvCacheStats": {"reusedBlocks": 10, "missedBlocks": 10, "tokensPerBlock": 32}},
              {"kvCacheStats": {"reusedBlocks": 60, "missedBlocks": 60, "tokensPerBlock": 32}}]
    steps.respond_once("/metrics", json_response(200, blocks[:1]))
    steps.respond("/metrics", json_response(200, blocks[1:]))
    trtllm.respond("/metrics", json_response(200, []))
    trtllm.respond_once("/prometheus/metrics", text("trtllm_prompt_tokens_total 0\ntrtllm_kv_cache_hit_rate 0\n"))
    trtllm.respond("/prometheus/metrics", text(
        "trtllm_prompt_tokens_total 1000\ntrtllm_kv_cache_hit_rate 0.5\ntrtllm_request_success_total 10\n"))
    pages(llama, "llamacpp:prompt_tokens_total 0\nllamacpp:prompt_seconds_total 0\n",
          "llamacpp:prompt_tokens_total 400\nllamacpp:prompt_seconds_total 0.1\n")
    status, words, found = audit(binary, tmp_path, engines)
    assert status == 0
    kinds = [replica["engine"] for replica in found["replicas"]]
    assert kinds == ["vLLM", "vLLM", "SGLang", "TensorRT-LLM", "TensorRT-LLM", "llama.cpp"]
    assert [replica["hit_rate"] for replica in found["replicas"]] == [0.5] * 5 + [None]
    assert [replica["computed_tokens"] for replica in found["replicas"]] == [500, 500, 500, 1600, 500, 400]
    assert found["fleet"]["hit_rate"] == 0.5 and found["verdict"]["name"] == "some"
    assert "1 replicas do not count hits" in words
    assert found["replicas"][2]["ttft_p99_s"] <= 0.1


@pytest.mark.parametrize("policy, lowest, highest, verdict", [
    ("round_robin", 0.15, 0.25, "much"),
    ("warm", 0.7, 0.8, "some"),
])
def test_the_guess_is_right_where_placement_is_blind(binary, tmp_path, caching, warmpath, policy, lowest, highest,
                                                     verdict):
    """Nine documents with five questions each.  In turn, a document meets its first engine again
    only with the fifth question; one cache would hit from the second on: four times as often."""
    engines = caching(4, cache_blocks=4000, prefill_speed=1_000_000, step=0.0)
    router = warmpath(*engines, policy=policy, workers=1)
    for question in range(5):
        for document in range(9):
            text_of_it = f"Document {document}. " + f"{document} says {document * 7919}. " * 400
            response = router.post("/v1/chat/completions", {"model": "test-model", "max_tokens": 1, "messages": [
                {"role": "system", "content": text_of_it}, {"role": "user", "content": f"Question {question}?"}]})
            assert response.status == 200
    status, _, found = audit(binary, tmp_path, engines, "--since-start")
    truth = [engine.counters() for engine in engines]
    asked, cached = (sum(row[key] for row in truth) for key in ("prompt_tokens", "cached_tokens"))
    assert status == 0 and found["fleet"]["hit_rate"] == pytest.approx(cached / asked)
    assert lowest < found["fleet"]["hit_rate"] < highest and found["verdict"]["name"] == verdict
    assert 0.75 < found["waste"]["achievable_hit_rate"] <= 0.8


def test_a_replica_that_cannot_be_read_is_listed_and_the_others_count(binary, tmp_path, standin):
    good, silent, wrong, other = standin("good"), standin("silent"), standin("wrong"), standin("other")
    pages(good, vllm(), vllm(10, 1000, 900))
    silent.respond("/metrics", STALL)
    wrong.respond("/metrics", plain_response(503, b""))
    other.respond("/metrics", text("node_load1 0.5\n"))
    nobody = f"http://127.0.0.1:{free_port()}"
    status, words, found = audit(binary, tmp_path, [good, silent, wrong, other, nobody], "--timeout",
                                 f"{min(3000, within(1000)):.0f}ms")
    assert status == 0
    assert [replica["error"] for replica in found["replicas"]] == [
        None, "timed out", "it responded with status 503", "its page says nothing of prompts", "Connection refused"]
    assert "1 of 5 replicas" in words and "not read: timed out" in words
    assert found["verdict"]["name"] == "little"


def test_no_readable_replica_is_a_failure(binary, tmp_path):
    status, words, found = audit(binary, tmp_path, [f"http://127.0.0.1:{free_port()}"])
    assert status == 1 and found["fleet"]["read"] == 0


@pytest.mark.parametrize("verdict, rest", [
    ("idle", [dict(), dict()]),
    ("single", [dict(requests=9, tokens=1000), dict()]),
    ("little", [dict(requests=9, tokens=1000, hits=850)] * 2),
    ("much", [dict(requests=9, tokens=1000, hits=290)] * 2),
    ("some", [dict(requests=9, tokens=1000, hits=500, ttfts=[0.1] * 200)] * 2),
    ("thrashing", [dict(requests=100, tokens=1000, hits=500, ttfts=[0.1] * 95 + [4] * 5)] * 2),
])
def test_each_verdict_follows_its_rule(binary, tmp_path, standin, verdict, rest):
    engines = [standin(str(number)) for number in range(len(rest))]
    for engine, after in zip(engines, rest):
        pages(engine, vllm(), vllm(**after))
    status, words, found = audit(binary, tmp_path, engines)
    assert status == 0 and found["verdict"]["name"] == verdict
    assert f"verdict: {verdict}." in words and found["verdict"]["rule"] in words


def test_a_restart_is_noticed(binary, tmp_path, standin):
    a, b = standin("a"), standin("b")
    pages(a, vllm(1000, 100000, 5000), vllm(10, 1000, 100))
    pages(b, vllm(), vllm(10, 1000, 100))
    status, words, found = audit(binary, tmp_path, [a, b])
    assert status == 0 and "it has restarted" in words
    assert [replica["restarted"] for replica in found["replicas"]] == [True, False]
    assert found["fleet"]["requests"] == 20


def test_terms_of_the_estimate_are_the_users(binary, tmp_path, standin):
    a, b = standin("a"), standin("b")
    for engine in (a, b):
        pages(engine, vllm(), vllm(10, 40960, 4096))
    status, words, found = audit(binary, tmp_path, [a, b], "--achievable", "0.9", "--model", "codellama-13b",
                                 "--gpu-hour-price", "2", "--gpus-per-replica", "4")
    waste = found["waste"]
    assert waste["tokens"] == pytest.approx(0.8 * 81920) and not waste["achievable_is_guess"]
    assert 3e-5 < waste["seconds_per_token"] < 1e-4
    assert waste["gpu_hours"] == pytest.approx(waste["tokens"] * waste["seconds_per_token"] * 4 / 3600)
    assert waste["money"] == pytest.approx(2 * waste["gpu_hours"])
    assert "as you said" in words and "codellama-13b on one H200" in words


def test_since_start_covers_all_of_the_engines_counters(binary, tmp_path, standin):
    a, b = standin("a"), standin("b")
    for engine in (a, b):
        engine.respond("/metrics", text(vllm(10, 1000, 100, 0.5) + "process_start_time_seconds 1.7e9\n"))
    status, words, found = audit(binary, tmp_path, [a, b], "--since-start")
    assert status == 0 and found["fleet"]["requests"] == 20 and found["fleet"]["seconds"] > 1e6
    assert len(a.scrapes) == len(b.scrapes) == 1


def test_saved_pages_are_read_too(binary, tmp_path):
    files = []
    for number in range(2):
        files.append(str(tmp_path / f"page{number}"))
        with open(files[-1], "w") as file:
            file.write(vllm(10, 1000, 100, 0.5))
    done = run(binary, "--once", ",".join(files), "--once", str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert "10.0%" in done.stdout and "not read: No such file or directory" in done.stdout
    assert "a month" not in done.stdout, "the time is unknown"
    assert run(binary, "--once", str(tmp_path / "none")).returncode == 1


def test_live_rewrites_the_table_until_it_is_interrupted(binary, tmp_path, standin):
    a, b = standin("a"), standin("b")
    for engine in (a, b):
        for count in range(4):
            engine.respond_once("/metrics", text(vllm(10 * count, 1000 * count, 100 * count)))
        engine.respond("/metrics", text(vllm(30, 3000, 300)))
    path = tmp_path / "audit.json"
    primary, secondary = pty.openpty()
    process = subprocess.Popen([binary, "audit", "--backend", a.url, "--backend", b.url, "--live",
                                "--interval", "150ms", "--json", path], stdin=subprocess.DEVNULL,
                               stdout=secondary, stderr=subprocess.PIPE)
    os.close(secondary)
    try:
        eventually(lambda: len(a.scrapes) >= 6 and len(b.scrapes) >= 6, "it looks again and again")
        process.send_signal(signal.SIGINT)
        said = b""
        while True:
            try:
                some = os.read(primary, 65536)
            except OSError:  # the other end is gone
                break
            if not some:
                break
            said += some
        assert process.wait(within(5)) == 0
        assert not SANITIZER.search(process.stderr.read().decode())
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        os.close(primary)
    words = said.decode()
    assert words.count("\033[2J") >= 3 and "the last 0.15 s" in words and "since the audit began" in words
    found = json.loads(path.read_text())
    assert found["fleet"]["requests"] == 60 and found["fleet"]["hit_rate"] == 0.1


@pytest.mark.parametrize("words", [
    [], ["--backend", "gpu-1:8000"], ["--backend", "http://a:1,http://a:1"], ["--backend", "http://a:1", "--live",
     "--since-start"], ["--backend", "http://a:1", "--once", "f"], ["--backend", "http://a:1", "--achievable", "80"],
    ["--backend", "http://a:1", "--model", "gpt"], ["--backend", "http://a:1", "--interval", "0"],
    ["--backend", "http://a:1", "--path", "metrics"], ["--nonsense"],
])
def test_an_invalid_command_line_is_explained(binary, words):
    done = run(binary, *words)
    assert done.returncode == 2 and "warmpath audit: " in done.stderr and done.stdout == ""


def test_keys_and_paths_reach_the_replica(binary, tmp_path, standin):
    a = standin("a")
    a.respond("/stats", text(vllm(1, 10, 1)))
    status, words, found = audit(binary, tmp_path, [a], "--path", "/stats", "--api-key", "secret", "--since-start")
    assert status == 0 and a.requests[0].header("authorization") == "Bearer secret"
    assert "secret" not in words


@pytest.mark.parametrize("words, error", [
    (["--ca", "ca.pem"], None),
    (["--insecure"], None),
    ([], "certificate"),
    (["--ca", "none.pem"], "TLS could not be set up"),
])
def test_replicas_with_tls_are_read(binary, tmp_path, standin, words, error):
    authority = Authority(tmp_path)
    a = standin("a", tls=authority.server("engine", "IP:127.0.0.1"))
    a.respond("/metrics", text(vllm(1, 10, 1)))
    url = a.url.replace("http://", "https://")
    words = [str(tmp_path / word) if word.endswith(".pem") else word for word in words]
    status, _, found = audit(binary, tmp_path, [url], "--since-start", *words)
    said = found["replicas"][0]["error"]
    assert (status, said) == (0, None) if error is None else status == 1 and error in said


def test_a_name_is_as_many_replicas_as_it_has_addresses_and_may_have_none(binary, tmp_path, standin):
    a = standin("a")
    a.respond("/metrics", text(vllm(1, 10, 1)))
    port = a.url.rsplit(":", 1)[1]
    # Names under .onion are never resolved (RFC 7686), so the test needs no name server.
    status, _, found = audit(binary, tmp_path, [f"http://localhost:{port}", f"http://nobody.onion:{port}"],
                             "--since-start")
    assert status == 0
    known, unknown = found["replicas"][:-1], found["replicas"][-1]
    assert any(replica["error"] is None for replica in known), "one of its addresses is the stand-in's"
    assert unknown["replica"] == f"http://nobody.onion:{port}" and unknown["error"]
