"""The programs under test and the load, as processes that are pinned, watched and stopped.

Each proxy runs with one worker on one core, as a plain round-robin reverse proxy with the settings
that someone who knows it would choose for this work; the reasons stand beside them.
"""
import ctypes
import functools
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import time

from report import CannotMeasure

START_SECONDS = 10
ANSWER_SECONDS = 120

# proxy_buffering off: an event must reach the client when it comes; the default holds it back until
#   a buffer is full.  It makes the JSON case faster as well, so it is set for both.
# keepalive: without it every request opens a connection to the backend.  256 are more than are ever
#   idle.
# keepalive_requests: the default closes each connection after 1000 requests.
NGINX = """
daemon off;
{user}
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/nginx.log crit;
events {{
    worker_connections 16384;
    multi_accept on;
}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    upstream origins {{
        {servers}
        keepalive 256;
        keepalive_timeout 300s;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://origins;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 300s;
        }}
    }}
}}
"""

# http-no-delay: without it an event waits up to 200 ms for further bytes before it is sent.
# http-reuse always: the default opens a connection to the backend for each client's first request.
# no strict-limits: haproxy demands two descriptors for each of maxconn; idle clients use one.
HAPROXY = """
global
    nbthread 1
    maxconn 12000
    no strict-limits
defaults
    mode http
    no log
    option http-no-delay
    http-reuse always
    timeout connect 5s
    timeout client 300s
    timeout server 300s
frontend clients
    bind 127.0.0.1:{port} backlog 4096
    default_backend origins
backend origins
    balance roundrobin
    {servers}
"""


def nginx_command(directory, port, origins, _build):
    path = pathlib.Path(directory) / "nginx.conf"
    path.write_text(NGINX.format(
        directory=directory, port=port,
        # As root the worker would become another user and lose the directory.
        user="user root;" if os.geteuid() == 0 else "",
        servers=" ".join(f"server 127.0.0.1:{origin};" for origin in origins)))
    return ["nginx", "-p", directory, "-c", str(path)]


def haproxy_command(directory, port, origins, _build):
    path = pathlib.Path(directory) / "haproxy.cfg"
    servers = [f"server o{origin} 127.0.0.1:{origin}" for origin in origins]
    path.write_text(HAPROXY.format(port=port, servers="\n    ".join(servers)))
    return ["haproxy", "-db", "-f", str(path)]


def warmpath_command(_directory, port, origins, build, policy="round_robin"):
    """Without probes, model lists, scraping and logs, which the other proxies do not have here
    either.
    """
    backends = [word for origin in origins for word in ("--backend", f"http://127.0.0.1:{origin}")]
    return [str(build / "warmpath"), "serve", "--listen", f"127.0.0.1:{port}", *backends,
            "--policy", policy, "--workers", "1", "--health-interval", "0",
            "--models-learn", "false", "--load-scrape", "false",
            "--timeouts-keepalive", "300s", "--log-level", "error"]


def watched_command(directory, port, *rest, **how):
    """With meters, the list of decisions, and a log of every request on the disk."""
    return [*warmpath_command(directory, port, *rest, **how), "--metrics-enabled", "true",
            "--decisions-keep", "1000", "--access-log-file", f"{directory}/access.log",
            "--admin-listen", f"127.0.0.1:{port + 500}", "--admin-token", "bench"]


def unwatched_command(directory, *rest, **how):
    return [*warmpath_command(directory, *rest, **how), "--metrics-enabled", "false",
            "--decisions-keep", "0"]


COMMANDS = {"warmpath": warmpath_command, "nginx": nginx_command, "haproxy": haproxy_command,
            # warmpath against itself.
            "round_robin": warmpath_command,
            "warm": functools.partial(warmpath_command, policy="warm"),
            "all_on": functools.partial(watched_command, policy="warm"),
            "all_off": functools.partial(unwatched_command, policy="warm"),
            "plain_all_on": watched_command,
            "plain_all_off": unwatched_command}


def version(name, build):
    command = {"nginx": ["nginx", "-v"], "haproxy": ["haproxy", "-v"],
               "warmpath": [str(build / "warmpath"), "version"]}[name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except OSError:
        return f"no {name}"
    found = re.search(r"\d+\.\d+\S*", done.stdout + done.stderr)
    return f"{name} {found[0]}" if found else f"{name} of unknown version"


def free_ports():
    """Ports below those that the kernel hands to clients, so that none of ours takes one."""
    for port in range(21000, 32000):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        yield port


def prepare(core):
    """In a new process: on its core, ahead of whatever else the machine does where that is allowed,
    and gone when we are gone."""
    os.sched_setaffinity(0, {core})
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
        # The kernel shares a core among sessions first; -20 above counts within one only.
        pathlib.Path("/proc/self/autogroup").write_text("-20")
    except OSError:
        pass
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Process:
    """A process on one core, with its children."""

    def __init__(self, command, core, **pipes):
        try:
            self.process = subprocess.Popen(command, preexec_fn=lambda: prepare(core),
                                            start_new_session=True, **pipes)
        except OSError as error:
            raise CannotMeasure(f"{command[0]}: {error.strerror}") from error

    def tree(self):
        """Our process and its children: nginx works in one."""
        found, pids = [], [self.process.pid]
        while pids:
            pid = pids.pop()
            found.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                pids += [int(child) for child in task.read_text().split()]
        return found

    def threads(self):
        """None when it has died, which the next request will find out."""
        return [task.name for pid in self.tree()
                for task in pathlib.Path(f"/proc/{pid}/task").glob("*")]

    def set_urgent(self, urgent):
        """While latency is measured we run before anything else on the machine: otherwise its other
        programs would be measured, too.  Not at full load, where the kernel would interfere."""
        policy, priority = (os.SCHED_FIFO, 1) if urgent else (os.SCHED_OTHER, 0)
        try:
            for thread in self.threads():
                os.sched_setscheduler(int(thread), policy, os.sched_param(priority))
        except (PermissionError, ProcessLookupError):
            pass

    def memory(self):
        """Resident kilobytes: all, and with shared pages divided among those who share them."""
        resident = proportional = 0
        for pid in self.tree():
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError as error:
                raise CannotMeasure(f"no memory of process {pid}: {error.strerror}") from error
            resident += int(re.search(r"^Rss:\s+(\d+)", text, re.MULTILINE)[1])
            proportional += int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1])
        return resident, proportional

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Proxy(Process):
    def __init__(self, name, build, core, directory, port, origins):
        self.name, self.port = name, port
        self.log = pathlib.Path(directory) / f"{name}.{port}.out"
        home = pathlib.Path(directory) / f"{name}.{port}"
        home.mkdir()
        with self.log.open("wb") as log:
            super().__init__(COMMANDS[name](str(home), port, origins, build), core,
                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.wait_until_it_answers()
        except CannotMeasure:
            self.stop()
            raise

    def wait_until_it_answers(self):
        """200 to a whole request: it listens and reaches a backend."""
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench.local\r\n" \
                  b"Content-Type: application/json\r\nContent-Length: 17\r\n" \
                  b"Connection: close\r\n\r\n" b'{"model":"bench"}'
        deadline = time.monotonic() + START_SECONDS
        answer = b""
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 1) as client:
                    client.sendall(request)
                    answer = client.recv(4096)
            except OSError:
                pass
            if answer.startswith(b"HTTP/1.1 200"):
                return
            time.sleep(0.02)
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
        raise CannotMeasure(f"{self.name} does not serve: {(last or [answer[:40]])[0]}")


class Load(Process):
    """bench_load: the load and the origins, which answer as long as it lives."""

    def __init__(self, build, core, origins):
        self.origins = origins
        names = ["--origin", *(f"--origin{number}" for number in range(2, 1 + len(origins)))]
        words = [word for pair in zip(names, map(str, origins)) for word in pair]
        super().__init__([str(build / "bench_load"), *words], core,
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.buffer = b""
        if self.line() != "ready":
            raise CannotMeasure("bench_load does not start")

    def line(self):
        while b"\n" not in self.buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
            more = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not more:
                raise CannotMeasure("bench_load does not answer")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode()

    def order(self, text):
        self.process.stdin.write(text.encode() + b"\n")

    def measure(self, server, words):
        """One run against `server`: what bench_load found, seconds of both cores included."""
        threads = ",".join(server.threads())
        self.order(f"port {server.port} {words}" + (f" watch {threads}" if threads else ""))
        line = self.line()
        while not line.startswith("{"):
            line = self.line()
        result = json.loads(line)
        if result["failures"] or not result["seconds"]:
            raise CannotMeasure(f"{result['failures']} failures")
        return result

    def hold(self, server, words, look):
        """Opens what `words` say, calls `look` while all of it is held, lets go."""
        self.order(f"port {server.port} {words}")
        line = self.line()
        if line != "holding":
            raise CannotMeasure(f"connections could not be held: {line}")
        seen = look()
        self.order("release")
        result = json.loads(self.line())
        if result["failures"]:
            raise CannotMeasure(f"{result['failures']} connections were lost while held")
        return seen
