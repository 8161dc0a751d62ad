"""predictions -- does the router know what engines have cached?  docs/benchmarks.md.

Simulated engines with KV events, in real time over sockets, at 70% of saturation and with full
caches that evict all the time.  For each request it compares the tokens that the router predicted
as cached with those that the engine had cached.  An engine is killed and restarted; events are
lost; and the same load without events shows the accuracy of belief alone.
"""
import bisect
import contextlib
import dataclasses
import json
import subprocess
import tempfile
import time
import urllib.request

from agree import TOKEN, Program, fetch, finish
from proxy import machine, number
from report import CannotMeasure
from servers import free_ports

MODEL = "codellama-13b"
LOAD = 0.7
NEEDED_SHARE = 0.99
NEEDED_ERROR = 0.01
NEEDED_BACK_S = 5
# Metric -> its target; during faults there are no targets.
NEEDED = {"equal_share": ("≥", NEEDED_SHARE), "error": ("≤", NEEDED_ERROR), "back_s": ("≤", NEEDED_BACK_S)}
FAULTY = ("drop", "restart", "no_events")
LOSS = 0.05
DOWN_S = 2
# The router has recovered if this many consecutive requests, and all later ones, are right.
BACK_WINDOW = 100


@dataclasses.dataclass(frozen=True)
class Plan:
    """Durations in seconds of the run, and the speed of engines relative to real ones."""
    speed: float
    warm_up: float  # until all caches are full
    steady: float
    compared: float  # the same, where there are no faults
    loss: float
    after: float  # a fault


FULL = Plan(speed=2, warm_up=25, steady=40, compared=40, loss=20, after=20)
QUICK = Plan(speed=6, warm_up=7, steady=4, compared=3, loss=3, after=6.5)


def saturating_rate(binary, directory):
    """Requests per second at 70% of saturation, at speed 1, as the lab finds it."""
    path = f"{directory}/sim.json"
    finish(binary, "sim", "--workload", "chat", "--policy", "warm", "--backends", "4", "--model", MODEL,
           "--load", str(LOAD), "--json", path, seconds=120)
    with open(path) as file:
        return json.load(file)["points"][0]["rate_per_s"]


class Engines:
    """Processes of their own, so that one can be killed."""

    def __init__(self, binary, directory, ports, plan, count, ranks=1):
        self.binary, self.directory, self.plan, self.ranks = binary, directory, plan, ranks
        self.ports = [next(ports) for _ in range(count)]
        self.events = [self.in_a_row(ports) for _ in range(count)]
        self.replays = [self.in_a_row(ports) for _ in range(count)]
        self.programs = [None] * count
        self.stack = contextlib.ExitStack()

    def in_a_row(self, ports):
        """The first of as many as there are ranks."""
        row = []
        while len(row) < self.ranks:
            port = next(ports)
            row = row + [port] if row and port == row[-1] + 1 else [port]
        return row[0]

    def url(self, index):
        return f"http://127.0.0.1:{self.ports[index]}"

    def start(self, index):
        program = self.programs[index] = Program(
            self.directory, self.binary, "engine", "--port", str(self.ports[index]), "--model", MODEL, "--speed",
            f"{self.plan.speed:g}", "--ranks", str(self.ranks), "--kv-events-port", str(self.events[index]),
            "--kv-replay-port", str(self.replays[index]), "--seed", str(index))
        program.wait_for(lambda: self.url(index) in program.said(), "listening")

    def kill(self, index):
        self.programs[index].process.kill()
        self.programs[index].process.wait()

    def lose(self, share):
        for index in range(len(self.ports)):
            body = json.dumps({"events_loss": share}).encode()
            with urllib.request.urlopen(urllib.request.Request(self.url(index) + "/sim/faults", body), timeout=10):
                pass

    def rows(self, with_events):
        for index, url in enumerate(map(self.url, range(len(self.ports)))):
            yield f"  - url: {url}"
            if self.ranks > 1:
                yield f"    ranks: {self.ranks}"
            if with_events:
                yield f"    events: tcp://127.0.0.1:{self.events[index]}"
                yield f"    events_replay: tcp://127.0.0.1:{self.replays[index]}"

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for index in range(len(self.ports)):
                self.start(index)
                stack.callback(self.end, index)
            self.stack = stack.pop_all()
        return self

    def end(self, index):
        self.programs[index].__exit__(None)

    def __exit__(self, *problem):
        self.stack.__exit__(*problem)


class Site:
    """Engines, a router, and one run of load whose time counts from its first request."""

    def __init__(self, binary, directory, ports, engines, with_events):
        self.binary, self.directory, self.engines = binary, directory, engines
        self.address, self.admin = (f"127.0.0.1:{next(ports)}" for _ in range(2))
        config = f"{directory}/router-{time.monotonic_ns()}.yaml"
        with open(config, "w") as file:
            file.write("\n".join(["backends:", *engines.rows(with_events)]) + "\n")
        self.router = Program(directory, binary, "serve", "--config", config, "--workers", "1", "--policy", "warm",
                              "--log-level", "warn", "--listen", self.address, "--admin-listen", self.admin,
                              "--admin-token", TOKEN)

    def __enter__(self):
        self.router.wait_for(self.is_ready, "ready")
        return self

    def __exit__(self, *problem):
        self.router.__exit__(*problem)

    def backends(self):
        return json.loads(fetch(f"http://{self.admin}/backends"))["backends"]

    def is_ready(self):
        try:
            return all(backend["state"] == "up" and backend["load"]["cache_tokens"] for backend in self.backends())
        except OSError:
            return False

    def told(self, what):
        return sum(backend["events"].get("told", {}).get(what, 0) for backend in self.backends())

    def run(self, rate, seconds, script):
        """Load for so long; `script` is a list of (second, name, what to do).  Returns the Run."""
        self.log = f"{self.directory}/load-{time.monotonic_ns()}.jsonl"
        words = ["load", "--url", f"http://{self.address}", "--model", MODEL, "--workload", "chat", "--api", "ids",
                 "--rate", f"{rate:g}", "--duration", f"{seconds:g}s", "--seed", "1", "--quiet", "--json", "-",
                 "--log", self.log]
        # Time is taken by the calendar, which the load names when it begins.
        done = {}
        with subprocess.Popen([str(self.binary), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              text=True) as load:
            began = time.time()
            try:
                for second, name, act in script:
                    time.sleep(max(0, began + second - time.time()))
                    act()
                    done[name] = time.time()
                text, _ = load.communicate(timeout=seconds + 60)
            finally:
                load.kill()
        if load.returncode != 0:
            raise CannotMeasure(f"load ended with {load.returncode}")
        summary = json.loads(text)
        with open(self.log) as lines:
            requests = [Request(json.loads(line)) for line in lines]
        return Run(requests, {name: at - summary["started_at_ms"] / 1000 for name, at in done.items()}, summary)


class Request:
    def __init__(self, line):
        self.line = line
        self.failed = line["error"] is not None
        self.sent_s = (line["sent_ms"] or 0) / 1000
        self.backend = line["backend"]
        # word=value; word=value
        decision = dict(word.split("=", 1) for word in (line["decision"] or "").split("; ") if "=" in word)
        self.expected = int(decision["expected_tokens"]) if "expected_tokens" in decision else None
        self.is_by_events = decision.get("by_events") == "yes"
        self.found = line["cached_tokens"]
        self.prompt = line["prompt_tokens"]

    def is_numbered(self):
        return not self.failed and self.expected is not None and self.found is not None

    def is_equal(self):
        return self.expected == self.found


class Sample:
    """Some of a run's requests."""

    def __init__(self, requests):
        self.requests = requests
        if not requests:
            raise CannotMeasure("no request was sent")

    def equal_share(self):
        return sum(map(Request.is_equal, self.requests)) / len(self.requests)

    def error(self):
        """Tokens that were wrong, over those found: per request in the mean of either."""
        return self.sum(lambda request: abs(request.expected - request.found)) / self.sum(lambda request: request.found)

    def over(self):
        return self.sum(lambda r: max(0, r.expected - r.found)) / self.sum(lambda r: r.found)

    def under(self):
        return self.sum(lambda r: max(0, r.found - r.expected)) / self.sum(lambda r: r.found)

    def events_share(self):
        """Of the requests whose backend's events were live."""
        return self.sum(lambda r: r.is_by_events) / len(self.requests)

    def hit_rate(self):
        return self.sum(lambda r: r.found) / self.sum(lambda r: r.prompt)

    def sum(self, value):
        return sum(map(value, self.requests))


class Run:
    def __init__(self, requests, times, summary):
        self.times, self.summary = times, summary
        self.failed = sum(request.failed for request in requests)
        self.requests = sorted(filter(Request.is_numbered, requests), key=lambda request: request.sent_s)
        self.sent = [request.sent_s for request in self.requests]

    def between(self, begin_s, end_s=float("inf"), backend=None):
        first, last = bisect.bisect_left(self.sent, begin_s), bisect.bisect_left(self.sent, end_s)
        return Sample([request for request in self.requests[first:last] if backend in (None, request.backend)])

    def back_s(self, since_s, until_s=float("inf")):
        """Seconds from a moment until the router has recovered: from then on the next hundred
        requests, and all later ones, are equal often enough.
        """
        first, last = bisect.bisect_left(self.sent, since_s), bisect.bisect_left(self.sent, until_s)
        wrong, back = 0, None
        flags = [not request.is_equal() for request in self.requests[first:last]]
        for at in range(len(flags) - 1, -1, -1):
            wrong += flags[at]
            window = flags[at:at + BACK_WINDOW]
            if wrong <= (1 - NEEDED_SHARE) * (len(flags) - at) and sum(window) <= (1 - NEEDED_SHARE) * len(window):
                back = at
        if back is None:
            return self.sent[last - 1] - since_s  # not yet
        return 0.0 if back == 0 else self.sent[first + back] - since_s


METRICS = ("equal_share", "error", "over", "under", "hit_rate", "events_share")


def tell(report, case, sample):
    """The figures of some requests."""
    for metric in METRICS:
        report.figure(case, metric, float(getattr(sample, metric)()), "", requests=len(sample.requests))
    report.say(f"{case}: {len(sample.requests)} requests, equal {sample.equal_share():.2%}; of the tokens found "
               f"{sample.over():.3%} too many were expected, {sample.under():.3%} too few; hits {sample.hit_rate():.1%}")


class Evictions:
    """Blocks that engines reported as removed, between two moments of a run."""

    def __init__(self, site):
        self.site, self.seen = site, []

    def look(self):
        self.seen.append((time.monotonic(), self.site.told("removed")))

    def per_s(self):
        (begin, before), (end, after) = self.seen
        return (after - before) / (end - begin)


def measure_compared(report, case, plan, rate, site):
    """The same without faults."""
    end = plan.warm_up + plan.compared
    evictions = Evictions(site)
    run = site.run(rate * plan.speed, end, [(plan.warm_up, "warm", evictions.look), (end, "end", evictions.look)])
    if run.failed:
        raise CannotMeasure(f"{case}: {run.failed} requests failed")
    tell(report, case, run.between(plan.warm_up))
    if evictions.per_s():
        report.figure(case, "evicted_per_s", evictions.per_s(), "blocks/s")


def measure_faults(report, plan, rate, site, engines):
    """First no faults, then lost events for a while, then an engine is killed and restarted."""
    calm_s = plan.warm_up + plan.steady
    kill_s = calm_s + plan.loss + plan.after
    evictions = Evictions(site)
    run = site.run(rate * plan.speed, kill_s + DOWN_S + plan.after, [
        (plan.warm_up, "warm", evictions.look),
        (calm_s, "calm", evictions.look),
        (calm_s, "loss", lambda: engines.lose(LOSS)),
        (calm_s + plan.loss, "no loss", lambda: engines.lose(0)),
        (kill_s, "dead", lambda: engines.kill(0)),
        (kill_s + DOWN_S, "alive", lambda: engines.start(0)),
    ])
    at = run.times
    tell(report, "steady", run.between(plan.warm_up, at["calm"]))
    report.figure("steady", "evicted_per_s", evictions.per_s(), "blocks/s")
    tell(report, "drop", run.between(at["loss"], at["no loss"]))
    report.figure("drop", "back_s", run.back_s(at["no loss"], at["dead"]), "s")
    tell(report, "drop_after_5s", run.between(at["no loss"] + NEEDED_BACK_S, at["dead"]))
    tell(report, "restart", run.between(at["dead"], at["alive"] + NEEDED_BACK_S))
    report.figure("restart", "back_s", run.back_s(at["alive"]), "s")
    report.figure("restart", "failed", run.failed, "requests")
    tell(report, "restart_after_5s", run.between(at["alive"] + NEEDED_BACK_S))
    tell(report, "restarted_one_after_5s", run.between(at["alive"] + NEEDED_BACK_S, backend=engines.url(0)))


def run(report, build, quick):
    binary, plan, ports = build / "warmpath", QUICK if quick else FULL, free_ports()
    report.figure("setup", "machine", machine(), "", date=time.strftime("%Y-%m-%d"), quick=quick, speed=plan.speed)
    with tempfile.TemporaryDirectory() as directory:
        rate = saturating_rate(binary, directory)
        report.figure("setup", "rate", rate * plan.speed, "1/s")
        with Engines(binary, directory, ports, plan, 4) as engines, \
                Site(binary, directory, ports, engines, True) as site:
            measure_faults(report, plan, rate, site, engines)
        with Engines(binary, directory, ports, plan, 4) as engines, \
                Site(binary, directory, ports, engines, False) as site:
            measure_compared(report, "no_events", plan, rate, site)
        with Engines(binary, directory, ports, plan, 2, ranks=2) as engines, \
                Site(binary, directory, ports, engines, True) as site:
            measure_compared(report, "ranks", plan, rate, site)


COLUMNS = {"equal_share": "equal", "error": "error", "over": "too many", "under": "too few", "hit_rate": "hits",
           "events_share": "by events", "back_s": "back after", "evicted_per_s": "evicted/s"}


def cell(case, metric, figure):
    if figure is None:
        return ""
    value = figure["value"]
    sign, bound = NEEDED.get(metric, ("", 0))
    text, needed = {"back_s": (f"{value:.1f} s", f"{bound:g} s"), "evicted_per_s": (number(value), "")}.get(
        metric, (f"{value:.2%}", f"{bound:.0%}"))
    if not sign or (case in FAULTY and metric != "back_s"):
        return text
    met = value >= bound if sign == "≥" else value <= bound
    return f"{text} ({sign} {needed}: {'met' if met else '**missed**'})"


def markdown(figures):
    """The table of docs/benchmarks.md, losses included."""
    setup = {figure["metric"]: figure for figure in figures if figure["case"] == "setup"}
    where = setup["machine"]
    lines = [f"{where['date']}, {where['value']}; engines at {where['speed']:g} times their speed, "
             f"{number(setup['rate']['value'])} requests/s{' (quick run)' if where['quick'] else ''}.", "",
             "| case | requests | " + " | ".join(COLUMNS.values()) + " |", "|---|---:|" + "---:|" * len(COLUMNS)]
    found = {(figure["case"], figure["metric"]): figure for figure in figures}
    for case in dict.fromkeys(figure["case"] for figure in figures if figure["case"] != "setup"):
        cells = [cell(case, metric, found.get((case, metric))) for metric in COLUMNS]
        lines.append(f"| {case} | {found[case, 'equal_share']['requests']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
