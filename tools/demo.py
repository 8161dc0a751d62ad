#!/usr/bin/env python3
"""The demonstration of `make run`: one load on simulated engines, under round_robin and under warm.

    tools/demo.py build/release/warmpath           both runs, a table; then it serves until SIGTERM
    tools/demo.py build/release/warmpath --once    ends after the table
    tools/demo.py build/release/warmpath --quick   runs of seconds, for tests; not for real figures

It starts `warmpath engine`, `warmpath serve` and `warmpath load`, and reads their reports; it
measures nothing itself.  It uses Python's standard library alone.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HOST = "127.0.0.1"
ROUTER_PORT, ADMIN_PORT, ENGINE_PORT = 8080, 9090, 9001  # or the first free ones after them
TOKEN = "demo"  # of the admin API
MODEL = "codellama-13b"
ENGINES = 8
POLICIES = ("round_robin", "warm")  # the last one goes on serving
START_S = 20  # for a program to be ready
DRAIN_S = 10  # for responses in flight at the end

# Enough users to fill the KV caches, so that requests wait, if every engine keeps its own copy of a
# document; under warm the caches are two thirds full.  With fewer users only prefill times differ.
WORKLOAD, ABOUT, USERS = "rag", "4,000 documents, few of them much asked for", 280
# Twice the real speed gives enough requests for a 99th percentile in 45 seconds.
FULL = {"speed": 2, "requests": 1700, "warm_up": 400}
QUICK = {"speed": 4, "requests": 400, "warm_up": 0}

COLUMNS = [  # heading, value of a run, is more better, how it is written
    ("cache hits", lambda run: run["hit_rate"], True, lambda value: f"{value:.1%}"),
    ("TTFT p50", lambda run: run["ttft_ms"]["p50"], False, lambda value: f"{value:.0f} ms"),
    ("TTFT p99", lambda run: run["ttft_ms"]["p99"], False, lambda value: f"{value:.0f} ms"),
    ("E2E p50", lambda run: run["e2e_ms"]["p50"], False, lambda value: f"{value / 1000:.2f} s"),
    ("E2E p99", lambda run: run["e2e_ms"]["p99"], False, lambda value: f"{value / 1000:.2f} s"),
    ("requests/s", lambda run: run["requests_per_s"], True, lambda value: f"{value:.1f}"),
    ("tokens/s", lambda run: run["output_tokens_per_s"], True, lambda value: f"{value:.0f}"),
]


class DemoError(Exception):
    """An error message for the user."""


class Children:
    """The running programs, each in its own session: a signal reaches only us, and we stop them in
    order.
    """

    def __init__(self):
        self.running = []
        self.is_told = False  # to end
        self.holds = False  # a child is being started, and must not be lost

    def on_signal(self, *_):
        if self.is_told:  # the second signal: stop at once
            for child in self.running:
                child.kill()
            return
        self.is_told = True
        if not self.holds:
            raise KeyboardInterrupt

    def start(self, command, **options):
        self.holds = True
        try:
            child = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, start_new_session=True,
                                     **options)
            self.running.append(child)
        finally:
            self.holds = False
        if self.is_told:
            raise KeyboardInterrupt
        return child

    def stop(self):
        """Stops all, the last first, so that the router drains while engines run.  True: all exited
        with 0.
        """
        for child in reversed(self.running):
            child.terminate()
            try:
                child.wait(DRAIN_S + 5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        # One that was only just started dies of the signal.
        well = all(child.returncode in (0, -signal.SIGTERM) for child in self.running)
        self.running.clear()
        return well


def ask(port, target, **headers):
    """The body of an answer; None without one."""
    connection = http.client.HTTPConnection(HOST, port, timeout=START_S)
    try:
        connection.request("GET", target, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        return body if answer.status == 200 else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
    return True


def free_ports(first, count=1, taken=()):
    """So many in a row, the first such row from there on."""
    for start in range(first, first + 1000):
        row = range(start, start + count)
        if not set(row) & set(taken) and all(map(is_free, row)):
            return row
    raise DemoError(f"no {count} free ports in a row from {first} on")


def choose_ports():
    """Of the router, of its admin API, of the engines."""
    engines = free_ports(ENGINE_PORT, ENGINES)
    router = free_ports(ROUTER_PORT, taken=engines)[0]
    admin = free_ports(ADMIN_PORT, taken=[*engines, router])[0]
    return router, admin, engines


class Fleet:
    """Engines with empty caches and a router in front of them, which has seen that they are up."""

    def __init__(self, children, ports, binary, policy, speed):
        self.port, self.admin_port, self.engine_ports = ports
        self.url, self.admin_url = f"http://{HOST}:{self.port}", f"http://{HOST}:{self.admin_port}"
        self.engines = children.start([binary, "engine", "--count", ENGINES, "--port", self.engine_ports[0],
                                       "--model", MODEL, "--speed", speed], stdout=subprocess.PIPE)
        if not self.engines.stdout.readline():
            raise DemoError("the engines do not start")
        command = [binary, "serve", "--listen", f"{HOST}:{self.port}", "--workers", 1, "--policy", policy,
                   "--admin-listen", f"{HOST}:{self.admin_port}", "--admin-token", TOKEN,
                   "--timeouts-drain", f"{DRAIN_S}s", "--log-level", "error"]
        for port in self.engine_ports:
            command += ["--backend", f"http://{HOST}:{port}"]
        self.router = children.start(command)
        self.wait_until_up()
        self.started_at = time.monotonic()

    def wait_until_up(self):
        deadline = time.monotonic() + START_S
        while not self.is_up():
            if self.router.poll() is not None or time.monotonic() > deadline:
                raise DemoError("the router does not start")
            time.sleep(0.05)

    def is_up(self):
        body = ask(self.admin_port, "/backends", authorization=f"Bearer {TOKEN}")
        return body and all(row["state"] == "up" and row["models"] for row in json.loads(body)["backends"])

    def is_alive(self):
        return self.engines.poll() is None and self.router.poll() is None

    def late_ms(self):
        """Mean delay of the engines at the ends of their steps, caused by other load on the
        machine.
        """
        pages = "\n".join(ask(port, "/metrics") or "" for port in self.engine_ports)
        late_s, steps = (sum(float(value) for value in re.findall(rf"^warmpath:{name}(?:{{.*}})? (\S+)$", pages, re.M))
                         for name in ("engine_late_seconds_total", "engine_steps_total"))
        return 1000 * late_s / steps if steps else 0

    def processor_shares(self):
        elapsed_s = time.monotonic() - self.started_at
        return {name: processor_s(child.pid) / elapsed_s for name, child in
                (("engines", self.engines), ("router", self.router))}


def processor_s(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")  # user, system


def start_fleet(children, *words):
    """Another process may take a port between check and use; a failure with free ports is final."""
    while True:
        ports = choose_ports()
        try:
            return Fleet(children, ports, *words)
        except DemoError:
            children.stop()
            if all(map(is_free, [*ports[:2], *ports[2]])):
                raise


class Results:
    """The figures of the runs, and the folder of their reports, which is kept if they are complete.
    """

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="warmpath-demo-"))
        self.runs = {}

    def is_whole(self):
        return len(self.runs) == len(POLICIES)

    def remove_parts(self):
        if not self.is_whole():
            shutil.rmtree(self.path)


def run_load(children, binary, fleet, policy, sizes, path):
    """Shows its progress; its figures."""
    command = [binary, "load", "--url", fleet.url, "--model", MODEL, "--workload", WORKLOAD, "--users", USERS,
               "--requests", sizes["requests"], "--warm-up", sizes["warm_up"], "--label", policy,
               "--json", path / f"{policy}.json", "--html", path / f"{policy}.html"]
    with open(path / f"{policy}.txt", "wb") as table:
        load = children.start(command, stdout=table)
    while load.poll() is None:
        if not fleet.is_alive():
            raise DemoError("the router or the engines ended by themselves")
        time.sleep(0.05)
    children.running.remove(load)
    if load.returncode != 0:
        raise DemoError(f"the load ended with status {load.returncode}")
    run = json.loads((path / f"{policy}.json").read_text())
    if run["requests"]["failed"]:
        raise DemoError(f"requests failed: {run['errors']}")
    return run


def measure(children, binary, fleet, policy, *words):
    """A load run, and what it cost this machine."""
    run = run_load(children, binary, fleet, policy, *words)
    run["engines_late_ms"] = fleet.late_ms()
    run["processor"] = {**fleet.processor_shares(), "load": run["generator"]["cpu_share"]}
    print(f"  {run['requests']['ended']} requests in {run['elapsed_s']:.1f} s", flush=True)
    return run


def say_what_comes(sizes):
    warm_up = f"The first {sizes['warm_up']} do not count.  " if sizes["warm_up"] else ""
    print(f"""\
{ENGINES} simulated engines, each {MODEL} on an H200, and warmpath in front of them.
The engines run at {sizes["speed"]} times life's speed: times are so many times shorter than they would be.
{USERS} simulated users ask about {ABOUT}, and wait for their answers.
{sizes["requests"]} requests for each policy, of the same users with the same questions.
{warm_up}Each time the engines begin with empty caches.
""", flush=True)


def table_of(runs):
    rows = [["", *(heading for heading, *_ in COLUMNS)]]
    for policy in POLICIES:
        rows.append([policy, *(write(value(runs[policy])) for _, value, _, write in COLUMNS)])
    ratios = []
    for _, value, is_more_better, _ in COLUMNS:
        old, new = (value(runs[policy]) for policy in POLICIES)
        better, worse = (new, old) if is_more_better else (old, new)
        ratios.append(f"x {better / worse:.2f}" if worse else "")
    rows.append(["better by", *ratios])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(row[0].ljust(widths[0]) + "".join(map(str.rjust, row[1:], (width + 3 for width in widths[1:])))
                     for row in rows)


def doubts(policy, run):
    """Why the figures of a run may tell of this machine rather than of the policy."""
    if run["generator"]["doubt"]:
        yield f"{policy}: {run['generator']['doubt']}"
    # Engines report each step's tokens at its end: what is late there is late for users.
    if run["engines_late_ms"] > run["itl_ms"]["mean"] / 10:
        yield f"{policy}: engines saw the ends of their steps {run['engines_late_ms']:.1f} ms late on average"


def say_results(results):
    runs = results.runs
    shares = {name: max(run["processor"][name] for run in runs.values()) for name in ("engines", "router", "load")}
    print(f"""
{table_of(runs)}

cache hits: tokens of prompts that engines had; TTFT, E2E: until the first and the last token
processor:  {", ".join(f"{name} {share:.0%}" for name, share in shares.items())} of one core, in the busier run
reports:    {results.path}/{{{",".join(POLICIES)}}}.{{html,json,txt}}
With fewer users the difference is smaller; see
            warmpath sim --workload {WORKLOAD} --model {MODEL} --policy {",".join(POLICIES)} --users 50,100,200,300""")
    for doubt in (doubt for policy in POLICIES for doubt in doubts(policy, runs[policy])):
        print(f"\nWARNING: this machine was too busy for the figures to mean much.\n{doubt}")
    print("", flush=True)


def say_what_to_try(fleet):
    curl = f"curl -iN {fleet.url}/v1/chat/completions -H 'x-warmpath-decision: 1' --json"
    options = f'"model":"{MODEL}","stream":true,"stream_options":{{"include_usage":true}},"max_tokens":20'
    system = """{"role":"system","content":"'"$(seq -s ' ' 1000)"'"}"""
    user = """{"role":"user","content":"'"$1"'"}"""
    print(f"""\
warmpath goes on serving: {fleet.url}, engines on ports {fleet.engine_ports[0]} to {fleet.engine_ports[-1]}.
What it does is shown at {fleet.admin_url}/dashboard#token={TOKEN}
In another terminal, where the numbers to 1000 stand for a long system prompt:

    body() {{ echo '{{{options},"messages":[{system},{user}]}}'; }}
    {curl} "$(body hello)"
    {curl} "$(body goodbye)"
    curl {fleet.admin_url}/explain -H 'authorization: Bearer {TOKEN}' --json "$(body why)"

The second answer comes from the same engine as the first, as x-warmpath-backend says, which had most of its prompt:
x-warmpath-decision says so before, and cached_tokens in its last event after.  The last line asks where a third
one would go, and why.  Ctrl-C ends.""", flush=True)


def demonstrate(children, options, results):
    sizes = QUICK if options.quick else FULL
    say_what_comes(sizes)
    for policy in POLICIES:
        if not children.stop():
            raise DemoError("the router or the engines did not end well")
        print(policy, flush=True)
        fleet = start_fleet(children, options.warmpath, policy, sizes["speed"])
        print(f"  watch it at {fleet.admin_url}/dashboard#token={TOKEN}", flush=True)
        results.runs[policy] = measure(children, options.warmpath, fleet, policy, sizes, results.path)
    say_results(results)
    if options.once:
        return
    say_what_to_try(fleet)
    while fleet.is_alive():
        time.sleep(0.2)
    raise DemoError("the router or the engines ended by themselves")


def main():
    arguments = argparse.ArgumentParser(description="one load on simulated engines, balanced by two policies")
    arguments.add_argument("warmpath", help="the program to run")
    arguments.add_argument("--once", action="store_true", help="end after the table")
    arguments.add_argument("--quick", action="store_true", help="runs of seconds, for tests")
    options = arguments.parse_args()

    children = Children()
    results = Results()
    good = True
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, children.on_signal)
        demonstrate(children, options, results)
    except KeyboardInterrupt:
        print("\ndraining", flush=True)
    except (DemoError, OSError, ValueError, KeyError) as error:
        print(f"demo: {error}", file=sys.stderr)
        good = False
    children.is_told = True
    well = children.stop()
    results.remove_parts()
    return 0 if good and well else 1


if __name__ == "__main__":
    sys.exit(main())
