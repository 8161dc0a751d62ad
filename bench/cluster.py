"""cluster -- several routers in front of one fleet: docs/benchmarks.md.

Simulated engines, one to eight routers, and a TCP balancer that gives each request, on a connection
of its own, to a router at random.  The cases take turns, seed by seed, and engines begin with empty
caches; a figure compares a case with `one`, the router that sees everything, of the same seed.

bench_tap measures what the path of a request pays.  join_1m times a router that joins another one.
"""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import signal
import socket
import statistics
import subprocess
import tempfile
import time

from proxy import machine, number
from report import CannotMeasure
from servers import Load, free_ports, version

HOST = "127.0.0.1"
TOKEN, SECRET = "bench", "the-secret-of-the-bench"
# At the speed of real engines: what routers do not know yet of each other counts by its age.
ENGINES, MODEL, SPEED = 8, "codellama-13b", 1
START_S, STOP_S = 20, 10
# Conversations on eight system prompts, in blocks of the default prefix.block_size.
JOIN_BLOCKS, JOIN_SYSTEMS, JOIN_SYSTEM_BLOCKS, JOIN_OWN_BLOCKS, BLOCK_SIZE = 1000000, 8, 32, 60, 256
NICE = -5

# Case: how routers share, and how many there are.
CASES = {"one": (None, 1), "none_3": (None, 3), "mesh_3": ("mesh", 3), "redis_3": ("redis", 3)}
FLAT = {"mesh_1": ("mesh", 1), "mesh_2": ("mesh", 2), "mesh_4": ("mesh", 4), "mesh_8": ("mesh", 8)}
BASE, FLAT_BASE = "one", "mesh_1"
# As in tools/demo.py: so many users keep the engines busy.
WORKLOAD, USERS = "rag", 280
# Keys of a note.
TAPS = {"tap": 64, "tap_250": 250}
# Runs that other programs disturb are repeated, so many of them.
QUICK = {"seeds": 1, "requests": 600, "warm_up": 200, "spare": 0}
FULL = {"seeds": 3, "requests": 1000, "warm_up": 300, "spare": 4}
FLAT_SIZES = {"seeds": 1, "requests": 700, "warm_up": 200, "spare": 0}
LATE_MS_MAX = 0.8
NEEDED = {("mesh_3", "hit_gap_points"): ("≤", 1), ("redis_3", "hit_gap_points"): ("≤", 1),
          ("mesh_3", "ttft_ratio"): ("≤", 1.05), ("redis_3", "ttft_ratio"): ("≤", 1.05),
          ("tap", "p50_ns"): ("≤", 500), ("join_1m", "warm_ms"): ("≤", 1000)}

# random(1): as without stickiness, behind DNS or a balancer that looks at nothing.
BALANCER = """
global
    nbthread 1
    maxconn 4000
    no strict-limits
defaults
    mode tcp
    no log
    timeout connect 5s
    timeout client 300s
    timeout server 300s
listen routers
    bind {host}:{port} backlog 4096
    balance random(1)
    {servers}
"""


def prepare():
    """In a new process: a little ahead of other programs where that is allowed, gone with us."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
        pathlib.Path("/proc/self/autogroup").write_text(str(NICE))
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def wait_until(is_true, what):
    deadline = time.monotonic() + START_S
    while not is_true():
        if time.monotonic() > deadline:
            raise CannotMeasure(what)
        time.sleep(0.02)


def is_listening(port):
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) == 0


class Programs(contextlib.ExitStack):
    """Programs that run until the block ends; the last one stops first."""

    def start(self, command, **options):
        try:
            process = subprocess.Popen([str(word) for word in command], preexec_fn=prepare, start_new_session=True,
                                       stdin=subprocess.DEVNULL, **options)
        except OSError as error:
            raise CannotMeasure(f"{command[0]}: {error.strerror}") from error
        self.callback(stop, process)
        return process


def stop(process):
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Router:
    """A router of a cluster, or one by itself."""

    def __init__(self, programs, build, port, admin_port, words):
        self.port, self.admin_port, self.words = port, admin_port, words
        self.process = programs.start([
            build / "warmpath", "serve", "--listen", f"{HOST}:{port}", "--workers", 1, "--policy", "warm",
            "--admin-listen", f"{HOST}:{admin_port}", "--admin-token", TOKEN, "--timeouts-drain", "2s",
            "--log-level", "error", *words])

    def ask(self, target):
        connection = http.client.HTTPConnection(HOST, self.admin_port, timeout=START_S)
        try:
            connection.request("GET", target, headers={"authorization": f"Bearer {TOKEN}"})
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def cluster(self):
        return (self.ask("/status") or {}).get("cluster") or {}

    def is_up(self):
        if self.process.poll() is not None:
            raise CannotMeasure(f"a router ends with {self.process.returncode}")
        found = self.ask("/backends")
        return bool(found) and all(row["state"] == "up" and row["models"] for row in found["backends"])

    def peers(self):
        return sum(peer["there"] for peer in self.cluster().get("peers", []))


def cluster_words(kind, count, ports, programs, directory):
    """The options of each router."""
    if kind is None:
        return [[]] * count
    secret = ["--cluster-secret", SECRET]
    if kind == "mesh":
        addresses = [f"{HOST}:{next(ports)}" for _ in range(count)]
        peers = [word for address in addresses for word in ("--cluster-peers", address)]
        return [[*secret, "--cluster-listen", address, *peers] for address in addresses]
    port = next(ports)
    programs.start(["redis-server", "--port", port, "--bind", HOST, "--save", "", "--appendonly", "no", "--dir",
                    directory], stdout=subprocess.DEVNULL)
    wait_until(lambda: is_listening(port), "redis-server does not listen")
    return [[*secret, "--cluster-store", f"redis://{HOST}:{port}/0"]] * count


def start_routers(programs, build, kind, count, backends, ports, directory):
    to_backends = [word for url in backends for word in ("--backend", url)]
    routers = [Router(programs, build, next(ports), next(ports), [*to_backends, *words])
               for words in cluster_words(kind, count, ports, programs, directory)]
    for router in routers:
        wait_until(router.is_up, "a router does not start")
        if kind is not None:
            wait_until(lambda: router.peers() == count - 1, "a router does not find the others")
    return routers


def row_of_ports(ports, count):
    row = [next(ports)]
    while len(row) < count:
        port = next(ports)
        row = [*row, port] if port == row[-1] + 1 else [port]
    return row


def start_engines(programs, build, ports):
    row = row_of_ports(ports, ENGINES)
    engines = programs.start([build / "warmpath", "engine", "--count", ENGINES, "--port", row[0], "--model", MODEL,
                              "--speed", SPEED], stdout=subprocess.PIPE)
    if not engines.stdout.readline():
        raise CannotMeasure("the engines do not start")
    return [f"http://{HOST}:{port}" for port in row]


def start_balancer(programs, routers, port, directory):
    path = pathlib.Path(directory) / "balancer.cfg"
    servers = [f"server r{router.port} {HOST}:{router.port}" for router in routers]
    path.write_text(BALANCER.format(host=HOST, port=port, servers="\n    ".join(servers)))
    programs.start(["haproxy", "-db", "-f", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_listening(port), "haproxy does not listen")


def late_ms(backends):
    """Mean delay of the engines at the ends of their steps, caused by other load on the machine."""
    late_s = steps = 0
    for url in backends:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=START_S)
        connection.request("GET", "/metrics")
        for line in connection.getresponse().read().decode().splitlines():
            name, _, value = line.rpartition(" ")
            late_s += float(value) if name.startswith("warmpath:engine_late_seconds_total") else 0
            steps += float(value) if name.startswith("warmpath:engine_steps_total") else 0
        connection.close()
    return 1000 * late_s / steps if steps else 0


def measure(build, case, seed, sizes):
    """The load's figures of one case, and what the routers told each other."""
    kind, count = case
    ports = free_ports()
    with tempfile.TemporaryDirectory() as directory, Programs() as programs:
        backends = start_engines(programs, build, ports)
        routers = start_routers(programs, build, kind, count, backends, ports, directory)
        port = next(ports)
        start_balancer(programs, routers, port, directory)
        path = pathlib.Path(directory) / "load.json"
        load = programs.start([
            build / "warmpath", "load", "--url", f"http://{HOST}:{port}", "--model", MODEL, "--workload", WORKLOAD,
            "--users", USERS, "--requests", sizes["requests"], "--warm-up", sizes["warm_up"],
            "--seed", seed, "--header", "connection: close", "--quiet", "--json", path], stdout=subprocess.DEVNULL)
        if load.wait() != 0:
            raise CannotMeasure(f"the load ends with {load.returncode}")
        run = json.loads(path.read_text())
        run["late_ms"] = late_ms(backends)
        run["clusters"] = [router.cluster() for router in routers]
        return run


def bytes_per_request(run):
    return sum(cluster.get("batch_bytes", 0) for cluster in run["clusters"]) / run["requests"]["ended"]


# Metric, unit, and its value from a run and the run of `one` with the same seed.
METRICS = (("hit_gap_points", "points", lambda run, one: 100 * (one["hit_rate"] - run["hit_rate"])),
           ("ttft_ratio", "x", lambda run, one: run["ttft_ms"]["mean"] / one["ttft_ms"]["mean"]),
           ("ttft_p99_ratio", "x", lambda run, one: run["ttft_ms"]["p99"] / one["ttft_ms"]["p99"]))


def say_run(report, case, seed, run):
    report.say(f"{case}, seed {seed}: {100 * run['hit_rate']:.2f}% hits, TTFT mean {run['ttft_ms']['mean']:.1f} "
               f"p99 {run['ttft_ms']['p99']:.0f} ms, {run['requests']['failed']} failed, {run['elapsed_s']:.1f} s, "
               f"engines late {run['late_ms']:.2f} ms, load {os.getloadavg()[0]:.1f}")


def rounds(report, build, cases, sizes):
    """{case: a run for each seed}.  The order turns, so that drift does not favour a case."""
    found = {case: [] for case in cases}
    names = list(cases)
    spare = sizes["spare"]
    for turn in range(sizes["seeds"]):
        first = turn % len(names)
        for case in names[first:] + names[:first]:
            run = measure(build, cases[case], 1 + turn, sizes)
            say_run(report, case, 1 + turn, run)
            if run["late_ms"] > LATE_MS_MAX and spare > 0:
                spare -= 1
                again = measure(build, cases[case], 1 + turn, sizes)
                say_run(report, f"{case} again", 1 + turn, again)
                run = min(run, again, key=lambda run: run["late_ms"])
            found[case].append(run)
    return found


def figures_of(report, case, runs):
    def median(of):
        return statistics.median(map(of, runs))

    report.figure(case, "hit_rate", median(lambda run: run["hit_rate"]), "1")
    report.figure(case, "ttft_ms", median(lambda run: run["ttft_ms"]["mean"]), "ms")
    report.figure(case, "late_ms", median(lambda run: run["late_ms"]), "ms")
    report.figure(case, "failed", sum(run["requests"]["failed"] for run in runs), "1")
    if runs[0]["clusters"][0]:
        report.figure(case, "bytes_per_request", median(bytes_per_request), "B")


def compare(report, build, sizes):
    found = rounds(report, build, CASES, sizes)
    for case, runs in found.items():
        figures_of(report, case, runs)
        for metric, unit, value in METRICS if case != BASE else ():
            values = [value(run, one) for run, one in zip(runs, found[BASE])]
            report.figure(case, metric, statistics.median(values), unit,
                          each=[float(f"{value:.4g}") for value in values])


def flatness(report, build):
    found = rounds(report, build, FLAT, FLAT_SIZES)
    for case, runs in found.items():
        figures_of(report, case, runs)
        ratios = [run["hit_rate"] / one["hit_rate"] for run, one in zip(runs, found[FLAT_BASE])]
        report.figure(case, "hits_over_one", statistics.median(ratios), "x")


def fill(router):
    """Sends conversations of random text, on a few system prompts, of JOIN_BLOCKS in all."""
    systems = [os.urandom(JOIN_SYSTEM_BLOCKS * BLOCK_SIZE // 2).hex() for _ in range(JOIN_SYSTEMS)]
    connection = http.client.HTTPConnection(HOST, router.port, timeout=START_S)
    for number in range(JOIN_BLOCKS // JOIN_OWN_BLOCKS):
        messages = [{"role": "system", "content": systems[number % JOIN_SYSTEMS]},
                    {"role": "user", "content": os.urandom(JOIN_OWN_BLOCKS * BLOCK_SIZE // 2).hex()}]
        connection.request("POST", "/v1/chat/completions", json.dumps({"model": "bench", "messages": messages}),
                           {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise CannotMeasure(f"a prompt gets status {answer.status}")
    connection.close()


def join(build, directory):
    """The status of a router that has joined one with JOIN_BLOCKS blocks, and how long it took."""
    ports = free_ports()
    with contextlib.ExitStack() as stack:
        programs = stack.enter_context(Programs())
        load = Load(build, max(os.sched_getaffinity(0)), [next(ports) for _ in range(ENGINES)])
        stack.callback(load.stop)
        backends = [word for port in load.origins for word in ("--backend", f"http://{HOST}:{port}")]
        words = cluster_words("mesh", 2, ports, programs, directory)
        first, second = ((next(ports), next(ports), [*backends, *own]) for own in words)
        giver = Router(programs, build, *first)
        wait_until(giver.is_up, "a router does not start")
        fill(giver)
        began = time.monotonic()
        joiner = Router(programs, build, *second)
        wait_until(lambda: joiner.cluster().get("snapshots_taken"), "no snapshot comes")
        elapsed_ms = 1000 * (time.monotonic() - began)
        return {**joiner.cluster(), "elapsed_ms": elapsed_ms,
                "runs": [router.ask("/status")["prefix"]["runs"] for router in (giver, joiner)]}


def join_1m(report, build, rounds):
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as directory:
            found.append(join(build, directory))
    for metric, key in (("warm_ms", "elapsed_ms"), ("snapshot_ms", "snapshot_ms")):
        values = [joined[key] for joined in found]
        report.figure("join_1m", metric, statistics.median(values), "ms", low=min(values), high=max(values))
    report.figure("join_1m", "snapshot_bytes", statistics.median(joined["bytes_in"] for joined in found), "B")
    # Of 16 blocks each.
    report.figure("join_1m", "runs_share", min(joined["runs"][1] / joined["runs"][0] for joined in found), "1")


def tap(report, build):
    for case, keys in TAPS.items():
        try:
            done = subprocess.run([build / "bench_tap", "--keys", str(keys), "--case", case], preexec_fn=prepare,
                                  stdout=subprocess.PIPE, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as why:
            raise CannotMeasure(why) from why
        for line in done.stdout.splitlines():
            figure = json.loads(line)
            report.figure(figure["case"], figure["metric"], figure["value"], figure["unit"])


def run(report, build, quick):
    sizes = QUICK if quick else FULL
    report.figure("setup", "seeds", sizes["seeds"], "1", quick=quick, date=time.strftime("%Y-%m-%d"),
                  machine=machine(), warmpath=version("warmpath", build), load=os.getloadavg()[0], speed=SPEED,
                  requests=sizes["requests"], warm_up=sizes["warm_up"])
    tap(report, build)
    join_1m(report, build, 1 if quick else 5)
    compare(report, build, sizes)
    if not quick:
        flatness(report, build)


ROWS = ("hit_rate", "hit_gap_points", "ttft_ms", "ttft_ratio", "ttft_p99_ratio", "bytes_per_request", "failed",
        "late_ms")


def cell(found, case, metric):
    if (case, metric) not in found:
        return ""
    sign, limit = NEEDED.get((case, metric), (None, None))
    value = found[case, metric]
    missed = sign is not None and value > limit
    return f"**{number(value)}**, needed {sign} {limit}" if missed else number(value)


def markdown(figures):
    """The tables of docs/benchmarks.md, misses included."""
    setup = next(figure for figure in figures if figure["case"] == "setup")
    found = {(figure["case"], figure["metric"]): figure["value"] for figure in figures}
    lines = [f"{setup['date']}, {setup['machine']}, load {setup['load']:.1f} at the start; {setup['warmpath']}; "
             f"{setup['value']} seeds of {setup['requests']} requests, the first {setup['warm_up']} not counted"
             f"{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | " + " | ".join(ROWS) + " |", "|---|" + "---:|" * len(ROWS)]
    for case in CASES:
        lines.append(f"| {case} | " + " | ".join(cell(found, case, metric) for metric in ROWS) + " |")
    lines += ["", "| case | metric | value | needed |", "|---|---|---:|---|"]
    for figure in figures:
        case, metric = figure["case"], figure["metric"]
        if case in (*TAPS, "join_1m") or (case in FLAT and metric in ("hits_over_one", "bytes_per_request")):
            sign, limit = NEEDED.get((case, metric), ("", ""))
            verdict = f" {sign} {limit}: {'met' if figure['value'] <= limit else '**missed**'}" if sign else ""
            lines.append(f"| {case} | {metric} | {number(figure['value'])} {figure['unit']} |{verdict} |")
    return "\n".join(lines) + "\n"
