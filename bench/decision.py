"""decision -- the cost of choosing a backend: docs/benchmarks.md.

First without a server, stage by stage (bench_decision).  Then the whole server, with a policy that
reads prompts and one that does not, in turns on one core.
"""
import json
import os
import statistics
import subprocess
import tempfile
import time

from proxy import machine, median, number, spread
from report import CannotMeasure
from servers import Load, Process, Proxy, free_ports, version

# Arguments of bench_decision.  One application: all conversations begin with the same system
# prompt, which every backend holds.
CASES = {
    "chat16k_64": ["--backends", "64"],
    "chat16k_1024": ["--backends", "1024"],
    "chat16k_4096": ["--backends", "4096"],
    # 256 system prompts, each held by about 75 of the backends.
    "chat16k_1024_apps": ["--backends", "1024", "--applications", "256"],
}
STAGES = ("scan", "hash", "match", "read", "choose", "store", "total")
WHOLE = "warm_vs_round_robin"
POLICIES = ("warm", "round_robin")
# Each request is the next message in one of so many conversations, of eight applications.
CHATS, BODY_SIZE, ORIGINS = 8192, 4096, 8
NEEDED = {("chat16k_64", "p50_us"): ("≤", 25), ("chat16k_1024", "p50_us"): ("≤", 60),
          (WHOLE, "rps_ratio"): ("≥", 0.85)}
# A window in which another program had one of our cores for longer than this is measured again.
WAITED_SHARE_MAX = 0.03


def cores():
    found = sorted(os.sched_getaffinity(0))
    if len(found) < 2:
        raise CannotMeasure("two cores are needed, one for the server and one for the load")
    return found[0], found[1]


def in_process(report, build, quick, case):
    words = [*CASES[case], "--passes", "5" if quick else "25"]
    process = Process([str(build / "bench_decision"), *words], cores()[1],
                      stdout=subprocess.PIPE)
    text, _ = process.process.communicate()
    if process.process.returncode != 0:
        raise CannotMeasure(f"{case}: bench_decision ends with {process.process.returncode}")
    found = json.loads(text)
    report.figure(case, "p50_us", found["p50_us"], "us")
    report.figure(case, "p99_us", found["p99_us"], "us")
    for stage in STAGES:
        report.figure(case, f"{stage}_us", found[f"{stage}_p50_us"], "us",
                      p99=found[f"{stage}_p99_us"])
    # The choice without the match: usable backends, their loads and costs.
    report.figure(case, "decide_us", found["choose_p50_us"] - found["match_p50_us"], "us")
    report.figure(case, "targets", found["targets"], "1")
    report.figure(case, "matched_share", found["matched"], "1")
    report.say(f"{case}: p50 {found['p50_us']:.1f} us: scan {found['scan_p50_us']:.1f}, "
               f"hash {found['hash_p50_us']:.1f}, choose {found['choose_p50_us']:.1f} (match "
               f"{found['match_p50_us']:.1f}); store {found['store_p50_us']:.1f}")


class Windows:
    """Measured runs of both servers by turns; again where others disturbed, while there is time."""

    def __init__(self, load, quick):
        self.load, self.quick = load, quick
        self.spare_seconds = 8 if quick else 60
        self.disturbed = 0

    def one(self, server):
        # The load never sleeps.  Waking it would cost the server more than a decision, and more
        # often the slower the server is; over a network the server wakes no process.
        words = f"mode closed connections 64 spin 1 chats {CHATS} body {BODY_SIZE} " \
                f"warmup-ms 150 measure-ms {300 if self.quick else 1000}"
        best = None
        while best is None or (best["disturbance"] > WAITED_SHARE_MAX and self.spare_seconds > 0):
            began = time.monotonic()
            result = self.load.measure(server, words)
            waited = max(result["server_waited"], result["load_waited"])
            result["disturbance"] = waited / result["seconds"]
            if best is not None:
                self.spare_seconds -= time.monotonic() - began
            if best is None or result["disturbance"] < best["disturbance"]:
                best = result
        self.disturbed += best["disturbance"] > WAITED_SHARE_MAX
        return best

    def all(self, servers):
        found = {server.name: [] for server in servers}
        for turn in range(11 if self.quick else 21):
            for server in servers if turn % 2 else servers[::-1]:
                found[server.name].append(self.one(server))
        return found


def rate_of(window):
    # The time in which another program had the server's core is not the server's.
    return window["answers"] / (window["seconds"] - window["server_waited"])


def cpu_of(window):
    return window["server_ran"] * 1e6 / window["answers"]


def whole_server(report, build, quick, directory):
    load_core, server_core = cores()
    ports = free_ports()
    load = Load(build, load_core, [next(ports) for _ in range(ORIGINS)])
    servers = []
    try:
        for name in POLICIES:
            servers.append(Proxy(name, build, server_core, directory, next(ports), load.origins))
        windows = Windows(load, quick)
        found = windows.all(servers)
    finally:
        for process in (*servers, load):
            process.stop()
    for name, mine in found.items():
        report.figure(WHOLE, "rps", median(mine, rate_of), "1/s", policy=name,
                      spread=spread(mine, rate_of))
        report.figure(WHOLE, "cpu_us_per_request", median(mine, cpu_of), "us", policy=name,
                      spread=spread(mine, cpu_of))
        report.figure(WHOLE, "server_core_busy",
                      median(mine, lambda w: w["server_ran"] / (w["seconds"] - w["server_waited"])),
                      "1", policy=name)
    warm, plain = (found[name] for name in POLICIES)
    # Round by round, since both drift together.
    for metric, of in (("rps_ratio", rate_of), ("cpu_ratio", cpu_of)):
        ratios = [of(ours) / of(theirs) for ours, theirs in zip(warm, plain)]
        report.figure(WHOLE, metric, statistics.median(ratios), "x",
                      spread=spread(ratios, lambda ratio: ratio))
    report.figure(WHOLE, "disturbed_windows", windows.disturbed, "1")
    report.say(f"{WHOLE}: {median(warm, rate_of):.0f} against {median(plain, rate_of):.0f} "
               f"requests/s, {median(warm, cpu_of):.1f} against {median(plain, cpu_of):.1f} us of "
               f"CPU each")


def run(report, build, quick):
    report.figure("setup", "machine", os.cpu_count(), "1", date=time.strftime("%Y-%m-%d"),
                  machine=machine(), warmpath=version("warmpath", build), quick=quick)
    for case in CASES:
        in_process(report, build, quick, case)
    with tempfile.TemporaryDirectory() as directory:
        whole_server(report, build, quick, directory)


COLUMNS = ("p50_us", "p99_us", "scan_us", "hash_us", "match_us", "decide_us", "store_us")


def verdict(case, metric, value):
    if (case, metric) not in NEEDED or value is None:
        return ""
    sign, bound = NEEDED[case, metric]
    met = value >= bound if sign == "≥" else value <= bound
    return f"{sign} {bound}: {'met' if met else '**missed**'}"


def markdown(figures):
    """The tables of docs/benchmarks.md, losses included."""
    found = {(f["case"], f["metric"], f.get("policy")): f["value"] for f in figures}
    setup = next(f for f in figures if f["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}; {setup['warmpath']}"
             f"{'; quick run' if setup['quick'] else ''}.", "",
             "| case, µs | " + " | ".join(name[:-3] for name in COLUMNS) + " | needed of p50 |",
             "|---|" + "---:|" * len(COLUMNS) + "---|"]
    for case in CASES:
        cells = [case, *(number(found.get((case, name, None))) for name in COLUMNS),
                 verdict(case, "p50_us", found.get((case, "p50_us", None)))]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"| {WHOLE} | warm | round_robin | ratio | needed |", "|---|---:|---:|---:|---|"]
    for metric, title, over in (("rps", "requests/s/core", "rps_ratio"),
                                ("cpu_us_per_request", "CPU µs/request", "cpu_ratio")):
        value = found.get((WHOLE, over, None))
        cells = [title, *(number(found.get((WHOLE, metric, name))) for name in POLICIES),
                 number(value), verdict(WHOLE, over, value)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
