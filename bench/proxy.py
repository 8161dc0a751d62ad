"""proxy -- warmpath as a plain reverse proxy, beside nginx and haproxy: docs/benchmarks.md.

The proxies take turns on one core, round after round; the load and the origins share another.
A figure is the median of its rounds.
"""
import os
import platform
import resource
import statistics
import tempfile
import time

from report import CannotMeasure
from servers import Load, Proxy, free_ports, version

OURS, PEERS = "warmpath", ("nginx", "haproxy")
EVENTS = 200
JSON_SIZE, EVENT_SIZE = 1024, 95
PATH = "/v1/chat/completions"

# The load of each case.  In the closed loop each event waits for the one before (`lockstep`), so
# that each is forwarded alone; at a fixed rate they come by the clock, as tokens do.
CASES = {
    "json_2k": {"closed": "connections 64",
                "open": "connections 64",
                "latency": "whole", "size": JSON_SIZE, "warmup_ms": 0},
    "sse_200": {"closed": f"connections 64 path {PATH}?events={EVENTS}&lockstep=1",
                "open": f"connections 512 path {PATH}?events={EVENTS}&gap_us=1000",
                # As long as a stream lasts at a fixed rate: then as many end as begin.
                "latency": "event", "size": EVENTS * EVENT_SIZE, "warmup_ms": 210},
}
HOLDS = {
    "idle_10k": (10000, "mode idle"),
    "streams_5k": (5000, f"mode streams path {PATH}?events=1000000&gap_us=200000"),
}
# (case, metric) -> what is needed of it.
NEEDED = {
    **{(case, "rps_ratio"): ("≥", 0.9) for case in CASES},
    **{(case, "p99_ratio"): ("≤", 1.2) for case in CASES},
    **{(case, "memory_ratio"): ("≤", 1.0) for case in HOLDS},
}
# A window in which another program had one of our cores for longer than this is measured again.
# Throughput is corrected for it, a latency cannot be.
WAITED_SHARE_MAX = {"closed": 0.03, "open": 0.01}


class Plan:
    def __init__(self, quick):
        # Latency takes more and shorter windows: what disturbs one window should spare most.
        self.rounds = {"closed": 5, "open": 5} if quick else {"closed": 9, "open": 15}
        self.spare_seconds = 6 if quick else 90  # for windows that are measured again
        self.warmup_ms = 110 if quick else 250
        self.measure_ms = {"closed": 250, "open": 250} if quick else {"closed": 1000, "open": 500}
        self.holds = 1 if quick else 3
        self.soak_seconds = 0.5 if quick else 3


class Bench:
    def __init__(self, report, build, quick, directory):
        self.report, self.build, self.plan, self.directory = report, build, Plan(quick), directory
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise CannotMeasure("two cores are needed, one for the proxy and one for the load")
        self.load_core, self.proxy_core = cores[0], cores[1]
        self.ports = free_ports()
        self.load = Load(build, self.load_core, [next(self.ports), next(self.ports)])
        self.lost = {}  # proxy -> why it is out
        self.spare_seconds = self.plan.spare_seconds
        self.disturbed = 0

    def start(self, name):
        """A fresh process, or None when it is out of the race."""
        if name in self.lost:
            return None
        try:
            return Proxy(name, self.build, self.proxy_core, self.directory, next(self.ports),
                         self.load.origins)
        except CannotMeasure as why:
            self.lose(name, why)
            return None

    def lose(self, name, why):
        self.lost[name] = str(why)
        self.report.say(f"{name}: {why}")

    def window(self, server, mode, words, case):
        """One measured run; again, and the less disturbed one, while there is time to spare."""
        warmup_ms = max(self.plan.warmup_ms, CASES[case]["warmup_ms"])
        timing = f"warmup-ms {warmup_ms} measure-ms {self.plan.measure_ms[mode]}"
        best = None
        limit = WAITED_SHARE_MAX[mode]
        while best is None or (best["disturbance"] > limit and self.spare_seconds > 0):
            began = time.monotonic()
            result = self.load.measure(server, f"mode {mode} {timing} {words}")
            size = CASES[case]["size"]
            if result["answers"] and result["answer_bytes"] != result["answers"] * size:
                raise CannotMeasure(f"bodies of {result['answer_bytes'] / result['answers']} "
                                    f"bytes instead of {size}")
            result["disturbance"] = max(result["server_waited"],
                                        result["load_waited"]) / result["seconds"]
            if best is not None:
                self.spare_seconds -= time.monotonic() - began
            if best is None or result["disturbance"] < best["disturbance"]:
                best = result
        self.disturbed += best["disturbance"] > limit
        return best

    def rounds(self, servers, mode, case, rate=""):
        """{name: [window of each round]}; the order rotates, so that none is always the first."""
        words = f"{CASES[case][mode]} {rate}"
        results = {server.name: [] for server in servers}
        for number in range(self.plan.rounds[mode]):
            turn = number % len(servers)
            for server in servers[turn:] + servers[:turn]:
                if server.name in self.lost:
                    continue
                try:
                    results[server.name].append(self.window(server, mode, words, case))
                except CannotMeasure as why:
                    self.lose(server.name, f"{case}: {why}")
        return {name: windows for name, windows in results.items() if name not in self.lost}


class Direct:
    """The origin without a proxy, in the place of one."""
    name = "direct"

    def __init__(self, load):
        self.port, self.threads = load.origins[0], lambda: []


def median(windows, of):
    return statistics.median(of(window) for window in windows)


def spread(windows, of):
    """How far apart the middle half of the windows lies, as a share of their median."""
    low, middle, high = statistics.quantiles((of(window) for window in windows), n=4)
    return float(f"{(high - low) / middle:.2g}") if middle else 0.0


def requests_of(case):
    """Answers in a window.  Streams that began or ended outside of it count by their events."""
    if case == "sse_200":
        return lambda window: window["events"] / EVENTS
    return lambda window: window["answers"]


def ratio(report, case, metric, figures, best):
    """Ours over the better of the two."""
    peers = [figures[name] for name in PEERS if name in figures]
    if OURS in figures and peers:
        report.figure(case, metric, figures[OURS] / best(peers), "x")


def throughput(bench, case, servers):
    """Returns requests a second and core, by proxy."""
    report, requests = bench.report, requests_of(case)
    results = bench.rounds(servers, "closed", case)
    found, cpu = {}, {}
    for name, windows in results.items():
        # The time in which another program had the proxy's core is not the proxy's.
        def rate_of(window):
            return requests(window) / (window["seconds"] - window["server_waited"])
        found[name] = median(windows, rate_of)
        report.figure(case, "rps", found[name], "1/s", proxy=name, spread=spread(windows, rate_of))
        report.figure(case, "rps_wall", median(windows, lambda w: requests(w) / w["seconds"]),
                      "1/s", proxy=name)
        busy = median(windows, lambda w: w["load_ran"] / w["seconds"])
        report.figure(case, "load_core_busy", busy, "1", proxy=name)
        if name == "direct":
            continue
        cpu[name] = median(windows, lambda w: w["server_ran"] * 1e6 / requests(w))
        report.figure(case, "cpu_us_per_request", cpu[name], "us", proxy=name)
        core = median(windows, lambda w: w["server_ran"] / (w["seconds"] - w["server_waited"]))
        report.figure(case, "proxy_core_busy", core, "1", proxy=name)
        report.say(f"{case}: {name}: {found[name]:.0f} requests/s, {cpu[name]:.1f} us of CPU each")
        if core < 0.9:
            report.say(f"{case}: {name} had its core busy for {core:.0%} only, the load its own "
                       f"for {busy:.0%}: not the limit of the proxy; compare cpu_us_per_request")
    direct = found.pop("direct", None)
    if direct and found:
        report.figure(case, "headroom", direct / max(found.values()), "x")
        if direct < 1.2 * max(found.values()):
            report.say(f"{case}: the load alone reaches {direct:.0f}/s, too near to the proxies")
    ratio(report, case, "rps_ratio", found, max)
    ratio(report, case, "cpu_ratio", cpu, min)
    return found


def latency(bench, case, servers, found):
    report, kind = bench.report, CASES[case]["latency"]
    peers = [found[name] for name in PEERS if name in found]
    if not peers:
        raise CannotMeasure(f"{case}: neither peer has a throughput to take half of")
    rate = int(max(peers) / 2)
    report.figure(case, "half_load", rate, "1/s")
    urgent = [bench.load, *(server for server in servers if server.name != "direct")]
    for process in urgent:
        process.set_urgent(True)
    results = bench.rounds(servers, "open", case, f"rate {rate}")
    for process in urgent:
        process.set_urgent(False)
    if "direct" not in results:
        raise CannotMeasure(f"{case}: no direct latency to compare with")
    for quantile in ("p50", "p99"):
        # An answer of 1 KB comes in one piece: its first byte is its last.
        for what in (kind, "first") if kind == "event" else (kind,):
            added, total = {}, {}
            key, prefix = f"{what}_{quantile}_us", "" if what == kind else f"{what}_"
            for name, windows in results.items():
                total[name] = median(windows, lambda w: w[key])
                report.figure(case, f"{prefix}{quantile}_us", total[name], "us", proxy=name,
                              spread=spread(windows, lambda w: w[key]))
                if name != "direct":
                    # Round by round, since both sides of the difference drift together.
                    pairs = zip(windows, results["direct"])
                    added[name] = statistics.median(w[key] - d[key] for w, d in pairs)
                    report.figure(case, f"{prefix}added_{quantile}_us", added[name], "us",
                                  proxy=name)
            ratio(report, case, f"{prefix}{quantile}_total_ratio", total, min)
            # Below a microsecond the difference is noise and a ratio of it nonsense.
            added = {name: max(value, 1.0) for name, value in added.items()}
            ratio(report, case, f"{prefix}{quantile}_ratio", added, min)
            report.say(f"{case}: at {rate}/s {what} {quantile} added: " + ", ".join(
                f"{name} {value:.0f} us" for name, value in added.items()))
    for name, windows in results.items():
        report.figure(case, "missing_at_half_load", sum(w["missing"] for w in windows), "1",
                      proxy=name)
        if name != "direct":
            spent = median(windows, lambda w: w["server_ran"] * 1e6 / max(w["answers"], 1))
            report.figure(case, "half_load_cpu_us_per_request", spent, "us", proxy=name)


def traffic(bench):
    servers = [server for server in map(bench.start, (OURS, *PEERS)) if server]
    try:
        for case in CASES:
            direct = Direct(bench.load)
            found = throughput(bench, case, [*servers, direct])
            latency(bench, case, [*servers, direct], found)
    finally:
        for server in servers:
            server.stop()


def hold_once(bench, name, case):
    """Resident kilobytes of a fresh process, before and while all is held."""
    count, words = HOLDS[case]
    server = bench.start(name)
    if not server:
        return None
    try:
        bench.load.measure(server, "mode closed connections 4 measure-ms 20")
        before = server.memory()

        def look():
            time.sleep(bench.plan.soak_seconds)  # streams run on, idle ones may be tidied up
            return server.memory()
        during = bench.load.hold(server, f"connections {count} {words}", look)
    except CannotMeasure as why:
        bench.lose(name, f"{case}: {why}")
        return None
    finally:
        server.stop()
    return {"before": before[0], "rss": during[0], "pss": during[1],
            "each": (during[0] - before[0]) * 1024 / count}


def memory(bench, case):
    report, each, whole = bench.report, {}, {}
    for name in (OURS, *PEERS):
        seen = [hold_once(bench, name, case) for _ in range(bench.plan.holds)]
        if name in bench.lost:
            continue
        for metric, key in (("rss_before_kb", "before"), ("rss_kb", "rss"), ("pss_kb", "pss")):
            report.figure(case, metric, median(seen, lambda s: s[key]), "KB", proxy=name)
        whole[name] = median(seen, lambda s: s["rss"])
        each[name] = median(seen, lambda s: s["each"])
        report.figure(case, "bytes_per_connection", each[name], "B", proxy=name)
        report.say(f"{case}: {name}: {each[name]:.0f} bytes each, {whole[name] / 1024:.1f} MB")
    if OURS in each and "haproxy" in each:
        report.figure(case, "memory_ratio", each[OURS] / each["haproxy"], "x")
        report.figure(case, "rss_ratio", whole[OURS] / whole["haproxy"], "x")


def run(report, build, quick):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with tempfile.TemporaryDirectory(prefix="bench-proxy-") as directory:
            bench = Bench(report, build, quick, directory)
            try:
                report.figure("setup", "rounds", min(bench.plan.rounds.values()), "1", quick=quick,
                              date=time.strftime("%Y-%m-%d"), machine=machine(),
                              **{name: version(name, build) for name in (OURS, *PEERS)})
                traffic(bench)
                for case, (count, _) in HOLDS.items():
                    if hard < count * 2 + 100 and case == "streams_5k" or hard < count + 500:
                        raise CannotMeasure(f"{case}: only {hard} descriptors (ulimit -n)")
                    memory(bench, case)
                report.figure("setup", "disturbed_windows", bench.disturbed, "1")
            finally:
                bench.load.stop()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if bench.lost:
        raise CannotMeasure("without " + ", ".join(bench.lost))


def machine():
    names = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo")
             if line.startswith("model name")]
    return f"{len(names)} x {names[0] if names else platform.machine()}, Linux {platform.release()}"


COLUMNS = (OURS, *PEERS, "direct")
# Table rows: metric, title, and the ratio that belongs to it.
ROWS = {
    "json_2k": (("rps", "requests/s/core", "rps_ratio"),
                ("cpu_us_per_request", "CPU µs/request", "cpu_ratio"),
                ("p50_us", "p50 at half load, µs", "p50_total_ratio"),
                ("p99_us", "p99 at half load, µs", "p99_total_ratio"),
                ("added_p50_us", "added p50, µs", "p50_ratio"),
                ("added_p99_us", "added p99, µs", "p99_ratio")),
    "idle_10k": (("bytes_per_connection", "bytes/connection", "memory_ratio"),
                 ("rss_kb", "resident KB", "rss_ratio"),
                 ("pss_kb", "proportional KB", None)),
}
ROWS["sse_200"] = (*ROWS["json_2k"],
                   ("first_added_p50_us", "added p50 to first event, µs", "first_p50_ratio"),
                   ("first_added_p99_us", "added p99 to first event, µs", "first_p99_ratio"))
ROWS["streams_5k"] = ROWS["idle_10k"]


def number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def verdict(case, metric, value):
    sign, bound = NEEDED.get((case, metric), (None, None))
    if sign is None or value is None:
        return ""
    met = value >= bound if sign == "≥" else value <= bound
    return f"{sign} {bound}: {'met' if met else '**missed**'}"


def markdown(figures):
    """The tables of docs/benchmarks.md, losses included."""
    found = {(f["case"], f["metric"], f.get("proxy")): f["value"] for f in figures}
    setup = next(f for f in figures if (f["case"], f["metric"]) == ("setup", "rounds"))
    lines = [f"{setup['date']}, {setup['machine']}; {setup['haproxy']}; {setup['nginx']}; "
             f"{setup['warmpath']}; medians of {setup['value']} rounds or more"
             f"{' (quick run)' if setup['quick'] else ''}, "
             f"{found.get(('setup', 'disturbed_windows', None), '?')} windows disturbed by other "
             f"programs.", "",
             "| case | | " + " | ".join(COLUMNS) + " | ratio | needed |",
             "|---|---|" + "---:|" * len(COLUMNS) + "---:|---|"]
    for case in ("json_2k", "sse_200", "idle_10k", "streams_5k"):
        for metric, title, over in ROWS[case]:
            value = found.get((case, over, None))
            cells = [case, title, *(number(found.get((case, metric, name))) for name in COLUMNS),
                     number(value), verdict(case, over, value)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
