"""Scraping the metrics of engines."""
import signal

from harness import eventually
from standin import STALL, json_response, plain_response

PAGE = plain_response(200, b"vllm:num_requests_running 1.0\nvllm:num_requests_waiting 0.0\n")


def test_engines_are_scraped_repeatedly_and_scrapes_do_not_count_as_requests(standin, warmpath):
    a = standin("a")
    a.respond("/metrics", PAGE)
    router = warmpath(a, load_interval="100ms")
    eventually(lambda: len(a.scrapes) >= 5, "it is asked")
    assert {seen.target for seen in a.scrapes} == {"/metrics"}
    assert router.backend(a)["requests"] == 0 and router.backend(a)["failures"] == 0
    assert a.requests == []


def test_an_engine_that_never_responds_to_scrapes_still_serves(standin, warmpath):
    a, b = standin("a"), standin("b")
    a.respond("/metrics", STALL)
    b.respond("/metrics", PAGE)
    router = warmpath(a, b, load_interval="100ms", policy="round_robin")
    eventually(lambda: len(b.scrapes) >= 5 and len(a.scrapes) == 1, "the other is asked")
    assert {router.get("/x").json()["engine"] for _ in range(4)} == {"a", "b"}
    assert router.backend(a)["state"] == "up"


def test_a_page_of_steps_leads_to_the_other_path(standin, warmpath):
    a = standin("a")
    a.respond("/metrics", json_response(200, []))
    a.respond("/prometheus/metrics", plain_response(200, b"trtllm_num_requests_running 1.0\n"))
    warmpath(a, load_interval="100ms")
    eventually(lambda: sum(seen.path == "/prometheus/metrics" for seen in a.scrapes) >= 3, "it is kept to")
    assert sum(seen.path == "/metrics" for seen in a.scrapes) == 1


def test_a_reload_turns_scraping_on(standin, warmpath):
    a = standin("a")
    a.respond("/metrics", PAGE)
    text = f"backends: ['{a.url}']\nload: {{interval: 100ms, scrape: %s}}\n"
    router = warmpath(config=text % "false")
    for _ in range(20):
        assert router.get("/x").status == 200
    assert a.scrapes == []
    router.write_config(text % "true")
    router.signal(signal.SIGHUP)
    eventually(lambda: len(a.scrapes) >= 3, "it is asked")
