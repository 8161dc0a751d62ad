"""`warmpath top`: the terminal shows the router's figures, and is restored at the end.

The terminal is a pseudo-terminal; pyte, an independent library, turns its bytes into a screen.
"""
import contextlib
import copy
import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
import urllib.parse

import pyte
import pytest
from harness import SANITIZER, TOKEN, eventually, free_port, within
from test_71_engine import Fleet

CLEAR = b"\x1b[2J"
ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l"
FRAME_END = b"\x1b[?2026l"
LEAVE = b"\x1b[?2026l\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
NOW = 1_763_204_044_000


def backend(number, **members):
    return {"id": number, "url": f"http://10.0.{number // 250}.{number % 250 + 1}:8000", "pool": "default", "state": "up",
            "weight": 1, "draining": False, "in_flight": number % 50, "queued_tokens": number * 100, "requests": 10,
            "failures": 0, "requests_per_s": 1.5, "hit_rate": 0.5, "ttft_p50_ms": 90.0, "ttft_p95_ms": 1200.0,
            "kv_usage": 0.25, "prefill_tokens_per_s": None, "events": "none", "models": ["m"], **members}


def overview(*backends):
    times = [NOW - 5000 * i for i in range(20, 0, -1)]
    return {
        "version": "0.1.0", "now_ms": NOW, "uptime_s": 3725, "policy": "warm",
        "price": {"gpu_hour": 2.5, "currency": "$", "gpus": 1},
        "totals": {"requests": 1234, "failures": 5, "retries": 1, "in_flight": 7, "connections": 9,
                   "queued_tokens": 4321, "prompt_tokens": 99, "cached_tokens": 50, "told_prompt_tokens": 99,
                   "output_tokens": 10, "saved_s": 100.0, "round_robin_saved_s": 40.0, "saved_money": 0.07,
                   "over_round_robin_money": 0.04, "lost_receipts": 0},
        "recent": {"window_s": 60, "requests_per_s": 41.2, "failures_per_s": 0.25, "output_tokens_per_s": 1.0,
                   "prompt_tokens_per_s": 1.0, "hit_rate": 0.724, "round_robin_hit_rate": 0.31,
                   "ttft_ms": {"p50": 120.0, "p95": 480.0, "p99": 900.0},
                   "round_robin_ttft_ms": {"p50": 310.0, "p95": 1204.0, "p99": None}},
        "backends": list(backends),
        "series": {"step_s": 5, "time_ms": times, "requests_per_s": [1.0] * 20, "failures_per_s": [0.0] * 20,
                   "hit_rate": [i / 20 for i in range(20)], "round_robin_hit_rate": [None] * 20,
                   "ttft_p50_ms": [100.0] * 20, "ttft_p95_ms": [200.0] * 20,
                   "round_robin_ttft_p50_ms": [200.0] * 20, "round_robin_ttft_p95_ms": [400.0] * 20,
                   "saved_s": [1.0] * 20, "round_robin_saved_s": [0.5] * 20},
        "hottest": [{"prefix": "00c0ffee00c0ffee", "tokens": 4096, "requests": 900.0, "share": 0.4, "holder_count": 2,
                     "holders": [{"id": 0, "url": "http://10.0.0.1:8000"}, {"id": 1, "url": "http://10.0.0.2:8000"}]}],
    }


def decision(serial, **members):
    return {"serial": serial, "id": f"r-{serial}", "time_ms": NOW - 1000, "model": "llama", "path": "/v1/completions",
            "policy": "warm", "backend": {"id": 0, "url": "http://10.0.0.1:8000"}, "outcome": "ok", "status": 200,
            "problem": None, "attempts": 1, "streamed": False, "prompt_tokens": 1200, "expected_tokens": 1024,
            "cached_tokens": 1040, "ttft_ms": 118.0, "why": f"Sentence number {serial}.", **members}


class Admin:
    """The admin API of a made-up router; tests change its figures and make it hang."""

    def __init__(self, document, decisions=()):
        self.document = document
        self.decisions = list(decisions)
        self.port = free_port()
        self.targets = []
        self.may_respond = threading.Event()
        self.may_respond.set()
        self.server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        admin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                admin.targets.append(self.path)
                admin.may_respond.wait()
                status, value = admin.respond(self.path, self.headers.get("Authorization"))
                body = json.dumps(value).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def stop(self):
        self.may_respond.set()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def respond(self, target, authorization):
        if authorization != f"Bearer {TOKEN}":
            return 401, {"error": {"message": "The token is missing or wrong.", "code": "unauthorized"}}
        url = urllib.parse.urlsplit(target)
        since = int(dict(urllib.parse.parse_qsl(url.query)).get("since", -1))
        if url.path == "/overview":
            document = copy.deepcopy(self.document)
            series = document["series"]
            kept = [i for i, moment in enumerate(series["time_ms"]) if moment > since]
            for name, values in series.items():
                if isinstance(values, list):
                    series[name] = [values[i] for i in kept]
            return 200, document
        assert url.path == "/decisions", target
        new = [row for row in self.decisions if row["serial"] > since]
        return 200, {"serial": max((row["serial"] for row in self.decisions), default=0), "decisions": new}

    def polls(self):
        return sum(target.startswith("/overview") for target in self.targets)


class Terminal:
    """One `warmpath top` on a pseudo-terminal, and its screen."""

    def __init__(self, binary, admin, width=80, height=24, *words, token=TOKEN, environment=None):
        self.master, self.slave = pty.openpty()
        self.resize_pty(width, height)
        self.before = termios.tcgetattr(self.slave)
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.lock = threading.Lock()
        command = [binary, "top", "--admin", admin if isinstance(admin, str) else admin.url, "--token", token,
                   "--interval", "100ms", *words]
        names = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "NO_COLOR"))}
        self.process = subprocess.Popen(
            command, stdin=self.slave, stdout=self.slave, stderr=subprocess.PIPE, start_new_session=True,
            env={**names, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(environment or {})},
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0))
        self.is_closing = False
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while not self.is_closing:
            if select.select([self.master], [], [], 0.05)[0]:
                with self.lock, contextlib.suppress(OSError):
                    data = os.read(self.master, 65536)
                    self.raw += data
                    self.stream.feed(data)

    def resize_pty(self, width, height):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        with self.lock:
            self.screen.resize(height, width)
            self.resize_pty(width, height)

    def rows(self):
        with self.lock:
            return [row.rstrip() for row in self.screen.display]

    def text(self):
        return "\n".join(self.rows())

    def sees(self, text, seconds=5.0):
        eventually(lambda: text in self.text(), lambda: f"{text!r} is on the screen:\n{self.text()}", seconds)
        return self

    def lacks(self, text):
        eventually(lambda: text not in self.text(), lambda: f"{text!r} is gone:\n{self.text()}")

    def settle(self, admin):
        """Waits until all that the command wrote about the admin's figures is on the screen."""
        polls = admin.polls()
        # The second one is asked after the response to the first was painted.
        eventually(lambda: admin.polls() >= polls + 2, "it asks again")
        eventually(self.has_whole_frame, lambda: repr(self.raw[-100:]))
        return self

    def has_whole_frame(self):
        with self.lock:
            return self.raw.endswith(FRAME_END) and not select.select([self.master], [], [], 0)[0]

    def type(self, text):
        os.write(self.master, text.encode())

    def row_of(self, text):
        row, = (row for row in self.rows() if row.startswith(text))
        return row

    def look_of(self, word):
        """The colour of the first character of a word."""
        with self.lock:
            for y, row in enumerate(self.screen.display):
                if word in row:
                    return self.screen.buffer[y][row.index(word)].fg
        raise AssertionError(f"{word} is not on the screen")

    def finish(self, code=0):
        status = self.process.wait(within(5))
        words = self.process.stderr.read().decode()
        assert not SANITIZER.search(words), words
        assert status == code, (status, words)
        eventually(lambda: self.raw.endswith(LEAVE) or ENTER not in self.raw, lambda: repr(self.raw[-100:]))
        assert termios.tcgetattr(self.slave) == self.before
        return words

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        self.is_closing = True
        self.reader.join()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def admin():
    made = []

    def make(*backends, decisions=()):
        made.append(Admin(overview(*backends), decisions).start())
        return made[-1]

    yield make
    for one in made:
        one.stop()


@pytest.fixture
def terminal(binary):
    made = []

    def make(router, *arguments, **options):
        made.append(Terminal(binary, router, *arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def once(binary):
    def run(router, *words, code=0, token=TOKEN, **environment):
        command = [binary, "top", "--admin", router if isinstance(router, str) else router.url, "--token", token, *words]
        names = {"LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"], **environment}
        done = subprocess.run(command, capture_output=True, env=names, timeout=within(10))
        assert not SANITIZER.search(done.stderr.decode()), done
        assert done.returncode == code, done
        return done

    return run


def test_the_screen_shows_the_figures_of_the_document(admin, terminal):
    router = admin(backend(0, in_flight=12, queued_tokens=3456, hit_rate=0.75, ttft_p50_ms=85.2, ttft_p95_ms=1234.0,
                           kv_usage=0.5, weight=3, requests_per_s=12.34),
                   backend(1, state="ejected", hit_rate=None, ttft_p50_ms=None, ttft_p95_ms=None, kv_usage=None),
                   backend(2, draining=True), decisions=[decision(2, outcome="failed", cached_tokens=None), decision(1)])
    screen = terminal(router, 80, 26).sees("FLEET 3").sees("Sentence number 1.").settle(router)
    head, hit, p50, p95, _, ours, theirs, *_ = screen.rows()
    assert head.startswith("warmpath 0.1.0  policy warm  up 1h 2m  7 in flight") and head.endswith("live")
    assert hit.split() == "hit rate 72.4% round-robin ~31.0% requests/s 41.2 failures/s 0.25".split()
    assert p50.split() == "TTFT p50 120ms round-robin ~310ms saved 100.0 GPU s $0.07".split()
    assert p95.split() == "TTFT p95 480ms round-robin ~1.20s over round-robin 60.0 GPU s $0.04".split()
    assert re.fullmatch(r"warm +▁▁▂▂▂▃▃▃▄▄▅▅▅▆▆▆▇▇▇█ +warm +▅{20}", ours), ours
    assert re.fullmatch(r"round-robin +round-robin +█{20}", theirs), theirs
    assert screen.row_of("10.0.0.1:8000").split()[1:] == "up 12 3,456 75% 85ms 1.23s 50% 3 12.3".split()
    assert screen.row_of("10.0.0.2:8000").split()[1:] == "ejected 1 100 – – – – 1 1.50".split()
    assert screen.row_of("10.0.0.3:8000").split()[1] == "draining"
    assert screen.row_of("00c0ffee").split()[1:] == "4,096 900 40% 2 10.0.0.1:8000 10.0.0.2:8000".split()
    facts = [row.split() for row in screen.rows() if "llama" in row]
    assert facts == ["1s failed 10.0.0.1:8000 ~1,024/1,200 118ms llama".split(),
                     "1s ok 10.0.0.1:8000 1,040/1,200 118ms llama".split()]
    assert screen.rows()[-1].startswith("q quit")
    assert [screen.look_of(word) for word in ("up   ", "ejected", "draining")] == ["green", "red", "brown"]


def test_other_routers_of_a_cluster_have_a_panel(admin, terminal):
    router = admin(backend(0), decisions=[decision(1)])
    screen = terminal(router, 80, 30).sees("Sentence number 1.").settle(router)
    assert "ROUTERS" not in screen.text()
    peers = [{"router": "01", "name": "host-1/4711", "address": "10.0.1.1:7946", "there": True, "why": None, "heard_ms": 12,
              "in_flight": 5, "complete": True},
             {"router": "02", "name": "host-2/4711", "address": None, "there": True, "why": None, "heard_ms": 130,
              "in_flight": 6, "complete": False},
             {"router": None, "name": None, "address": "10.0.1.3:7946", "there": False, "why": "Connection refused",
              "heard_ms": None}]
    router.document["cluster"] = {"kind": "mesh", "up": True, "why": None, "joining": False, "peers": peers}
    screen.sees("OTHER ROUTERS 3").settle(router)
    assert screen.row_of("host-1/4711").split()[1:] == "there 5 12ms".split()
    assert screen.row_of("host-2/4711").split()[1:] == "behind 6 130ms".split()
    assert screen.row_of("10.0.1.3:7946").split()[1:] == "away Connection refused".split()
    assert [screen.look_of(word) for word in ("there", "behind", "away")] == ["green", "brown", "red"]
    router.document["cluster"].update(kind="redis", up=False, why="no reply in time", peers=[])
    screen.sees("nothing is shared, the store does not obey: no reply in time").sees("none yet")
    screen.type("5")
    screen.lacks("ROUTERS")


def test_a_new_document_rewrites_only_what_differs(admin, terminal):
    router = admin(backend(0), backend(1), decisions=[decision(1)])
    screen = terminal(router).sees("72.4%").sees("Sentence number 1.").settle(router)
    start = len(screen.raw)
    router.document["recent"]["hit_rate"] = 0.719
    screen.sees("71.9%").settle(router)
    assert len(screen.raw) - start < 100, screen.raw[start:]
    for serial in range(2, 7):
        router.document["backends"][0]["in_flight"] = 100 + serial
        router.decisions.insert(0, decision(serial))
        screen.sees(f"Sentence number {serial}.").sees(f" {100 + serial} ")
    assert screen.raw.count(CLEAR) == 1, "once, at the start"
    assert any("since=5" in target for target in router.targets), "only what is new is asked for"
    assert any(f"/overview?since={NOW - 5000}" == target for target in router.targets)


def test_an_unchanged_screen_writes_nothing(admin, terminal):
    router = admin(backend(0), backend(1), decisions=[decision(1)])
    screen = terminal(router).sees("Sentence number 1.").settle(router)
    start, polls = len(screen.raw), router.polls()
    eventually(lambda: router.polls() >= polls + 5, "it asks again")
    screen.settle(router)
    assert screen.raw[start:] == b""


@pytest.mark.parametrize("width, height", [(120, 40), (40, 10), (200, 60), (81, 25), (20, 3)])
def test_after_a_change_of_size_the_screen_is_that_of_a_fresh_start(admin, terminal, width, height):
    # Alike, and each counts the polls of its own terminal.
    router, other = (admin(*(backend(i) for i in range(100)), decisions=[decision(i) for i in range(9, 0, -1)])
                     for _ in range(2))
    fresh = terminal(other, width, height).sees("live").settle(other)
    screen = terminal(router).sees("Sentence number 9.").settle(router)
    screen.resize(width, height)
    eventually(lambda: screen.rows() == fresh.rows(), lambda: f"{screen.text()}\n--- is not\n{fresh.text()}")
    screen.resize(80, 24)
    # Once for each size; twice where a refresh noticed it before the signal came.
    eventually(lambda: screen.raw.count(CLEAR) >= 3, "it is painted anew")
    screen.sees("Sentence number 9.").sees("q quit").settle(router)
    clears = screen.raw.count(CLEAR)
    assert clears <= 5
    polls = router.polls()
    eventually(lambda: router.polls() > polls + 3, "it asks again")
    assert screen.settle(router).raw.count(CLEAR) == clears


def test_a_thousand_backends_are_scrolled_and_sorted(admin, terminal):
    router = admin(*(backend(i) for i in range(1000)))
    screen = terminal(router, 100, 30).sees("FLEET 1-").sees("of 1,000, as configured")
    screen.sees("10.0.0.1:8000  ")
    screen.type("\x1b[F")
    screen.sees("10.0.3.250:8000").lacks("10.0.0.1:8000  ")
    screen.type("\x1b[H\x1b[B")
    screen.sees("FLEET 2-")
    screen.type("ss")
    screen.sees("by in flight").sees("10.0.0.50:8000").sees("FLEET 1-")
    screen.type("\x1b[6~")
    screen.lacks("10.0.0.50:8000")
    screen.type("134")
    screen.lacks("HOTTEST")
    screen.lacks("hit rate,")
    eventually(lambda: sum(row.startswith("10.0.") for row in screen.rows()) == 26, screen.text)
    assert screen.raw.count(CLEAR) == 1


def test_keys_react_at_once_while_the_router_hangs(admin, terminal):
    router = admin(backend(0))
    screen = terminal(router).sees("live")
    router.may_respond.clear()
    polls = router.polls()
    eventually(lambda: router.polls() > polls, "a question is open")
    for key, text in (("?", "paint all anew"), ("?", "FLEET"), ("s", "by state"), ("d", "DECISIONS")):
        start = time.monotonic()
        screen.type(key)
        screen.sees(text)
        assert time.monotonic() - start < within(3), "the question is open for five seconds"
    screen.sees("router unreachable since ", 10)
    router.may_respond.set()
    screen.sees("live", 10)
    screen.type("q")
    screen.finish()


def test_a_router_that_dies_is_missed_and_found_again(admin, terminal):
    router = admin(backend(0), decisions=[decision(50)])
    screen = terminal(router, 140, 24).sees("live").sees("Sentence number 50.")
    begun = time.monotonic()
    screen.settle(router)  # with a response after that moment
    router.stop()

    def unreachable():
        found = re.search(r"router unreachable since (\d+) s, trying", screen.text())
        return found and found[1]

    first = int(eventually(unreachable, screen.text))
    assert first <= time.monotonic() - begun
    screen.sees("Connection refused").sees("10.0.0.1:8000")
    last = int(eventually(lambda: (seconds := unreachable()) and int(seconds) > first and seconds, screen.text))
    assert last <= time.monotonic() - begun
    # Another router, whose numbers start at 0.
    router.decisions = [decision(2)]
    router.document["uptime_s"] = 1
    router.start()
    screen.sees("live").sees("up 1s").sees("Sentence number 2.").lacks("Sentence number 50.")
    assert screen.raw.count(CLEAR) == 1


def test_a_router_that_is_not_there_yet_is_waited_for(terminal):
    router = Admin(overview(backend(0)))
    screen = terminal(router).sees("router unreachable since").sees("Connection refused")
    try:
        router.start()
        screen.sees("live").sees("10.0.0.1:8000")
    finally:
        router.stop()


@pytest.mark.parametrize("way", ["q", "\x03", signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_terminal_is_restored_at_exit(admin, terminal, way):
    screen = terminal(admin(backend(0))).sees("live")
    assert screen.raw.startswith(ENTER) and termios.tcgetattr(screen.slave) != screen.before
    if isinstance(way, str):
        screen.type(way)
    else:
        screen.process.send_signal(way)
    assert screen.finish() == ""


def test_a_suspend_restores_the_terminal_until_it_resumes(admin, terminal):
    screen = terminal(admin(backend(0))).sees("live")
    screen.type("\x1a")
    _, status = os.waitpid(screen.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    eventually(lambda: screen.raw.endswith(LEAVE), "the screen is left")
    assert termios.tcgetattr(screen.slave) == screen.before
    os.write(screen.slave, b"\x1b[2J\x1b[Hwhat a shell wrote")
    screen.sees("what a shell wrote")
    screen.process.send_signal(signal.SIGCONT)
    screen.lacks("what a shell wrote")
    screen.sees("live").sees("10.0.0.1:8000")
    screen.type("q")
    screen.finish()


def test_a_pause_freezes_the_screen(admin, terminal):
    router = admin(backend(0))
    screen = terminal(router).sees("72.4%")
    screen.type("p")
    screen.sees("paused")
    router.document["recent"]["hit_rate"] = 0.5
    polls = router.polls()
    time.sleep(0.5)  # five intervals in which nothing may happen
    assert router.polls() <= polls + 1 and "72.4%" in screen.text()
    screen.type("p")
    screen.sees("50.0%").sees("live")


def test_names_cannot_move_the_cursor_and_wide_ones_are_cut_safely(admin, terminal):
    router = admin(backend(0, url="http://漢字漢字漢字漢字漢字漢字:8000"), backend(1, state="\x1b[31mup\x07"),
                   decisions=[decision(1, model="模型" * 10, why="e\u0301 \u202e \x1b]0;title\x07 \u200d 😀 end")])
    screen = terminal(router).sees("FLEET 2").sees("😀").settle(router)
    assert re.search(r"漢.*…漢字:8000 +up +0", screen.text().replace("\0", "")), screen.text()
    assert "?[31mup?" in screen.text() and "e? ? ?]0;title? ? 😀 end" in re.sub("😀 +end", "😀 end", screen.text())
    assert b"\x1b]" not in screen.raw and b"\x07" not in screen.raw and b"\x1b[31mup" not in screen.raw
    # Columns behind wide names keep their place.
    with screen.lock:
        rows = [screen.screen.buffer[y] for y in range(24)]
    heads = [y for y, row in enumerate(screen.rows()) if row.startswith("BACKEND")]
    states = ["".join(rows[heads[0] + i][x].data for x in range(18, 20)) for i in (0, 1)]
    assert states == ["ST", "up"]


def test_no_color_turns_colors_off(admin, terminal):
    router = admin(backend(0), backend(1, state="down"))
    screen = terminal(router, environment={"NO_COLOR": "1"}).sees("live").sees("down")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", screen.raw)
    assert screen.look_of("down") == "default"


def test_without_utf8_nothing_but_ascii_is_written(admin, terminal):
    screen = terminal(admin(backend(0)), environment={"LC_ALL": "C"}).sees("live").sees("-- FLEET 1")
    assert max(screen.raw) < 0x80


def test_a_pipe_gets_one_plain_screen(admin, once):
    router = admin(*(backend(i) for i in range(50)), decisions=[decision(1)])
    for words in ((), ("--once",)):
        done = once(router, *words, COLUMNS="100")
        lines = done.stdout.decode().splitlines()
        assert lines[0].startswith("warmpath 0.1.0  policy warm") and lines[0].endswith("live")
        assert sum(line.startswith("10.0.0.") for line in lines) == 50, "all of them"
        assert any("Sentence number 1." in line for line in lines)
        assert b"\x1b" not in done.stdout and max(map(len, lines)) <= 100 and done.stderr == b""


def test_errors_are_explained(admin, once, terminal):
    router = admin(backend(0))
    refused = once(router, "--once", token="wrong", code=1)
    assert b"the router responds with 401: The token is missing or wrong." in refused.stderr and refused.stdout == b""
    assert b"Connection refused" in once(f"http://127.0.0.1:{free_port()}", "--once", code=1).stderr
    assert b"--interval" in once(router, "--interval", "1ms", code=2).stderr
    assert b"--admin" in once("nowhere", code=2).stderr
    screen = terminal(router, token="wrong")
    assert "the router responds with 401: The token is missing or wrong." in screen.finish(1)


def ok_rows(screen):
    return [row for row in screen.rows() if "codellama-13b" in row and " ok " in row]


def test_the_screen_of_a_running_router_is_complete(binary, tmp_path, warmpath, terminal):
    fleet = Fleet(binary, tmp_path / "engines.stderr", 2, model="codellama-13b", speed=20)
    try:
        router = warmpath(fleet.url(0), fleet.url(1), policy="warm", savings_gpu_hour_cents=250)
        for index in range(2):
            eventually(lambda index=index: router.backend(fleet.url(index))["state"] == "up", router.backends)
        for _ in range(5):
            body = {"model": "codellama-13b", "prompt": "say hello " * 500, "max_tokens": 2}
            assert router.post("/v1/completions", body).status == 200

        def ended():
            rows = router.admin("GET", "/decisions?limit=100").json()["decisions"]
            return len(rows) == 5 and all(row["outcome"] != "running" for row in rows) and rows

        decisions = eventually(ended, "all decisions have ended")
        screen = terminal(f"http://127.0.0.1:{router.admin_port}", 200, 40).sees("live").sees("FLEET 2")
        screen.sees(" 5 requests").sees("DECISIONS 5")
        document = router.admin("GET", "/overview").json()
        hit_rate = document["recent"]["hit_rate"]
        assert hit_rate > 0.5, document["recent"]
        screen.sees(f"hit rate   {100 * hit_rate:.1f}%")
        eventually(lambda: len(ok_rows(screen)) == 5, screen.text)
        for row in document["backends"]:
            cells = screen.row_of(row["url"].removeprefix("http://")).split()
            assert cells[1] == row["state"] == "up" and cells[8] == str(row["weight"]), (cells, row)
        for line, decision_ in zip(ok_rows(screen), decisions, strict=True):
            facts = line.split()
            assert facts[2] == decision_["backend"]["url"].removeprefix("http://")
            assert facts[3] == f"{decision_['cached_tokens']:,}/{decision_['prompt_tokens']:,}"
        screen.type("d")
        screen.sees(decisions[0]["why"][:100])
        screen.type("d")
        assert router.admin("POST", f"/backends/{document['backends'][1]['id']}/drain").status == 200
        screen.sees("draining")
        router.signal(signal.SIGTERM)
        assert router.wait_exit() == 0
        screen.sees("router unreachable since")
        screen.type("q")
        screen.finish()
    finally:
        fleet.stop()
