"""The dashboard in a real browser.  The claims are in test/browser/dashboard.mjs; here are the
routers that they are made about.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

import pytest
from drive import drive
from harness import TOKEN, eventually, free_port, within
from workloads import groups

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BROWSER = ROOT / "test/browser"
# The folder for pictures, for docs/images; unset: no pictures.
SCREENSHOTS = os.environ.get("SCREENSHOTS")

pytestmark = pytest.mark.timeout(within(600 if SCREENSHOTS else 60))


def claim(name, url, token=TOKEN, **deeds):
    """Runs one claim.  A line `> word` of its output calls the action of that name."""
    command = ["node", str(BROWSER / "dashboard.mjs"), name, url, token]
    environment = {**os.environ, "SLOW_FACTOR": str(within(1))}
    said = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment) as process:
        try:
            for line in process.stdout:
                said.append(line)
                if line.startswith("> "):
                    deeds[line[2:].strip()]()
                    process.stdin.write("done\n")
                    process.stdin.flush()
            status = process.wait(within(20))
        finally:
            process.kill()
    print("".join(said))
    assert status == 0, "".join(said)


class Site:
    """A router in front of engines that cache, and the address of its dashboard."""

    def __init__(self, router):
        self.router = router
        self.url = f"http://127.0.0.1:{router.admin_port}"

    def send(self, requests, seed):
        workload = groups(seed, count=4, requests=requests, shared=600, own=60, stream_options={"include_usage": True})
        results = drive(self.router.url, workload, lanes=2)
        assert all(result.is_good for result in results), results

    def overview(self):
        return self.router.admin("GET", "/overview").json()

    def claim(self, name, **deeds):
        claim(name, self.url, **deeds)


@pytest.fixture
def busy(caching, warmpath):
    """A router in front of three engines, with past requests."""
    site = Site(warmpath(*caching(3), policy="warm", savings_gpu_hour_cents=250))
    site.send(24, seed=1)
    eventually(lambda: site.overview()["totals"]["requests"] == 24, "all are counted")
    eventually(lambda: site.overview()["recent"]["hit_rate"], "caches have been of use")
    return site


@pytest.fixture
def mock():
    """Makes listeners with made-up figures, for rare situations: mock("--backends", 1000)."""
    with contextlib.ExitStack() as stack:
        def make(*words):
            port = free_port()
            command = [sys.executable, str(BROWSER / "mock_admin.py"), "--port", str(port), "--token", TOKEN, *map(str, words)]
            process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
            stack.callback(process.kill)
            assert process.stdout.readline().startswith(b"ready")
            return f"http://127.0.0.1:{port}"

        yield make


def test_the_modules_of_the_page_pass_their_tests():
    done = subprocess.run(["node", "--test", str(BROWSER / "modules.mjs")], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=within(30))
    assert done.returncode == 0, done.stdout


def test_the_page_is_small():
    """Its own files; the charts' come beside them."""
    assert sum(path.stat().st_size for path in (ROOT / "src/web").iterdir()) < 95_000


@pytest.mark.parametrize("name", [
    "figures_are_those_of_the_router",
    "hottest_prefixes_are_shown_by_hash",
    "a_router_without_a_cluster_shows_no_other_routers",
    "without_a_stream_it_asks_again_and_again",
    "a_backend_is_drained_and_made_ready",
    "a_question_right_after_another_gets_its_own_answer",
    "a_weight_is_changed",
    "a_refused_action_says_why",
    "the_token_is_asked_for_and_stays_in_the_tab",
    "a_link_brings_the_token_and_does_not_show_it",
    "nothing_comes_from_another_host",
    "it_fits_a_phone_and_a_desk_in_dark_and_light",
    "fingers_can_hit_what_they_should_on_a_phone",
    "text_is_easy_to_read_in_dark_and_light",
    "colours_follow_the_system_or_the_reader",
    "nothing_moves_for_those_who_asked_for_that",
    "it_is_used_with_the_keyboard_alone",
    "what_is_awaited_is_drawn_as_such",
    "a_decision_tells_why",
    "a_decision_is_found_by_its_request_id",
])
def test_claims_hold_on_a_router_with_past_requests(busy, name):
    busy.claim(name)


@pytest.mark.parametrize("name", ["figures_move_by_the_stream_alone", "decisions_are_filtered_and_held",
                                  "lines_are_drawn_and_tell_their_figures"])
def test_claims_hold_on_a_router_under_load(busy, name):
    busy.claim(name, request=lambda: busy.send(3, seed=2))


def test_a_router_that_is_gone_is_missed_and_found_again(busy):
    router = busy.router

    def start():
        router.finished = False
        router.start(admin_token=TOKEN, policy="warm")

    def stop():
        router.kill()
        router.finished = True

    busy.claim("a_router_that_is_gone_is_missed_and_found_again", stop=stop, start=start)


def test_without_requests_the_page_says_so(standin, warmpath):
    Site(warmpath(standin())).claim("without_requests_it_says_so")


def test_an_empty_fleet_shows_how_to_add_a_backend(warmpath):
    Site(warmpath()).claim("a_fleet_of_nobody_says_how_to_begin")


def test_a_thousand_backends_are_shown_without_delay(mock):
    claim("a_thousand_backends_are_shown_without_delay", mock("--backends", 1000))


def test_only_memory_that_is_full_looks_bad(mock):
    claim("only_memory_that_is_full_looks_bad", mock("--backends", 40))


def test_other_routers_are_shown_with_their_state(mock):
    claim("other_routers_are_shown_with_their_state", mock("--routers", 3))


def test_a_store_that_does_not_obey_is_named(mock):
    claim("a_store_that_does_not_obey_is_named", mock("--routers", 2, "--no-store"))


def test_made_up_figures_have_the_shape_of_real_ones(mock, busy):
    """Otherwise claims about a thousand backends would be void."""
    def ask(url, target):
        request = urllib.request.Request(url + target, headers={"authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=within(5)) as response:
            return json.load(response)

    def shape(value):
        """Nested names; for a list those of its first item."""
        if isinstance(value, dict):
            return {key: shape(one) for key, one in sorted(value.items())}
        return [shape(value[0])] if isinstance(value, list) and value else None

    def is_complete():
        overview = busy.overview()
        return overview["hottest"] and overview["hottest"][0]["holders"] and overview["series"]["time_ms"]

    eventually(is_complete, "all of it is there", 15)
    made_up = mock()
    for target in ("/overview", "/decisions?limit=1"):
        eventually(lambda target=target: ask(made_up, "/decisions")["decisions"], "there are some")
        assert shape(ask(made_up, target)) == shape(ask(busy.url, target))


if SCREENSHOTS:
    def test_pictures_under_load(binary, warmpath):
        """Eight simulated engines, and agents that call tools, for some minutes."""
        model = "codellama-13b"
        quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with contextlib.ExitStack() as stack:
            def start(*words, **more):
                process = stack.enter_context(subprocess.Popen([binary, *map(str, words)], **quiet, **more))
                stack.callback(process.kill)
                return process

            engines = start("engine", "--count", 8, "--port", 0, "--model", model, stdout=subprocess.PIPE, text=True)
            urls = [engines.stdout.readline().partition(": ")[0] for _ in range(8)]
            router = warmpath(*urls, workers=1, policy="warm", savings_gpu_hour_cents=250)
            load = start("load", "--url", router.url, "--model", model, "--workload", "agent", "--users", 40,
                         "--requests", 100000, "--warm-up", 0, stdout=subprocess.DEVNULL)
            time.sleep(float(os.environ.get("SCREENSHOTS_AFTER", 180)))
            Site(router).claim("screenshots")
            load.kill()
            load.wait()
            eventually(router.is_idle, "clients are gone")
