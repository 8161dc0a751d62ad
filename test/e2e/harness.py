"""The router as a process, and the small things every test needs: ports, bounded waits."""
import contextlib
import functools
import itertools
import json
import os
import pathlib
import random
import re
import select
import signal
import socket
import subprocess
import sys
import time

import client
from pace import pace
from standin import Engine

TOKEN = "test-admin-token"
SANITIZER = re.compile(r"(Sanitizer|runtime error):|ASSERT|assertion failed", re.IGNORECASE)
STANDIN = pathlib.Path(__file__).with_name("standin.py")

slow_factor = 1.0  # set by conftest.py: sanitized builds get longer limits


def within(seconds):
    """A time limit that grows with the slowness of the build and of the machine at this moment."""
    return seconds * slow_factor * pace.slowdown()


def is_sanitized():
    """Sanitizers keep freed memory for a while, and a shadow of all of it."""
    return slow_factor > 1


def eventually(condition, what, seconds=5.0):
    """Waits for the condition and returns its value; fails after the limit.

    `what` is the message on failure; a function is called then.
    """
    begun, pause_s = time.monotonic(), 0.001
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() - begun > within(seconds):
            raise AssertionError(f"not within {within(seconds):g} s: {what() if callable(what) else what}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.01)


@functools.cache
def lane_and_holder():
    """A number that no other process of this machine has, and the socket whose name reserves it.

    Taken with the first port: the process that only hands out the tests needs none.
    """
    for lane in range(LANE_COUNT):
        holder = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            holder.bind(f"\0warmpath-e2e-{lane}")
            return lane, holder
        holder.close()
    raise RuntimeError(f"more than {LANE_COUNT} processes run these tests")


def shuffled_ports():
    """Yields the ports of this process's lane without end."""
    ports = list(range(12000 + lane_and_holder()[0], 32000, LANE_COUNT))
    random.shuffle(ports)
    return itertools.cycle(ports)


LANE_COUNT = 32  # six runs of four processes at a time
PORTS = shuffled_ports()


def free_port(host="127.0.0.1"):
    """A port to be bound later.

    The router gets its port as an option, and a stand-in that restarts needs its old port.  So
    ports come from below the kernel's ephemeral range, where no outgoing connection can take them
    meanwhile.
    """
    for port in PORTS:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock, contextlib.suppress(OSError):
            # A port with connections in TIME_WAIT is free for a server: otherwise a lane runs out
            # of ports.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            return port


def flag(key):
    """timeouts_first_byte -> --timeouts-first-byte"""
    return "--" + key.replace("_", "-")


class Router:
    """One `warmpath serve`."""

    def __init__(self, binary, directory):
        self.binary = binary
        self.directory = directory
        self.port = free_port()
        self.admin_port = free_port()
        self.config_path = directory / f"warmpath-{self.port}.yaml"
        self.stderr_path = directory / f"warmpath-{self.port}.stderr"
        self.clients = []
        self.process = None
        self.finished = False  # the test has seen it exit; only its log is left to check

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    # Start and stop.

    def command(self, backends=(), **keys):
        """Every key is a flag; a list gives it several times."""
        values = {"listen": f"127.0.0.1:{self.port}", "workers": 2,
                  "admin_listen": f"127.0.0.1:{self.admin_port}", "admin_token": TOKEN, **keys}
        words = [str(self.binary), "serve"]
        for key, value in values.items():
            for one in value if isinstance(value, (list, tuple)) else [value]:
                if one is not None:
                    words += [flag(key), str(one).lower() if isinstance(one, bool) else str(one)]
        for backend in backends:
            words += ["--backend", getattr(backend, "url", backend)]
        return words

    def start(self, backends=(), config=None, **keys):
        command = self.command(backends, **keys)
        if config is not None:
            self.write_config(config)
            command += ["--config", str(self.config_path)]
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr)
        eventually(self.is_listening, "the router listens", 10)
        return self

    def is_listening(self):
        assert self.process.poll() is None, f"the router exited with {self.process.returncode} at start"
        with socket.socket() as sock:
            return sock.connect_ex(self.address) == 0

    def write_config(self, text):
        """In one step, so that a reload never sees half a file."""
        scratch = self.config_path.with_suffix(".new")
        scratch.write_text(text)
        scratch.rename(self.config_path)

    def signal(self, number):
        self.process.send_signal(number)

    def wait_exit(self, seconds=5.0):
        """The exit status.

        Most tests end here, and Popen.wait with a limit looks only 20 times a second.
        """
        if self.process.poll() is None:
            pidfd, exits = os.pidfd_open(self.process.pid), select.poll()
            exits.register(pidfd, select.POLLIN)
            has_exited = exits.poll(within(seconds) * 1000)
            os.close(pidfd)
            assert has_exited, f"the router did not exit within {within(seconds):g} s"
        status = self.process.wait()
        self.finished = True
        return status

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def check_and_stop(self):
        """Checks the invariants after every test."""
        for connection in self.clients:
            connection.close()
        if not self.finished:
            assert self.process.poll() is None, f"the router died: exit status {self.process.returncode}"
            eventually(self.is_idle, self.status)
            self.signal(signal.SIGTERM)
            assert self.wait_exit(10) == 0, f"exit status {self.process.returncode} after SIGTERM"
        words = self.stderr()
        assert not SANITIZER.search(words), "a sanitizer or an assertion spoke (see the router's output)"

    def stderr(self):
        return self.stderr_path.read_text(errors="replace") if self.stderr_path.exists() else ""

    # The kernel's view of it.

    def memory(self):
        """Resident bytes."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    # Requests.

    def connect(self, timeout=10, **options):
        connection = client.Client(self.address, within(timeout), **options)
        self.clients.append(connection)
        return connection

    def ask(self, data, method=None):
        """One request on a connection of its own."""
        with self.connect() as connection:
            connection.send(data)
            return connection.read_response(method or data.split(b" ", 1)[0].decode())

    def get(self, target, *lines):
        return self.ask(client.request("GET", target, *lines))

    def post(self, target, value, *lines):
        return self.ask(client.json_request(target, value, *lines))

    def admin(self, method, target, value=None, token=TOKEN):
        lines = [f"Authorization: Bearer {token}"] if token else []
        body = None if value is None else json.dumps(value).encode()
        with client.Client(("127.0.0.1", self.admin_port), within(5)) as connection:
            connection.send(client.request(method, target, *lines, "Connection: close", body=body))
            return connection.read_response(method)

    def backends(self):
        """Admin's view, by URL."""
        response = self.admin("GET", "/backends")
        assert response.status == 200, response
        return {backend["url"]: backend for backend in response.json()["backends"]}

    def backend(self, engine):
        return self.backends()[getattr(engine, "url", engine)]

    def in_flight(self):
        return sum(backend["in_flight"] for backend in self.backends().values())

    def status(self):
        response = self.admin("GET", "/status")
        assert response.status == 200, response
        return response.json()

    def is_idle(self):
        """Whether no backend has requests in flight and no body memory or buffer is in use."""
        status = self.status()
        return self.in_flight() == 0 and all(status.get(key, 0) == 0 for key in (
            "in_flight", "connections", "body_memory", "buffers"))

    def wait_state(self, engine, *states, seconds=5.0):
        eventually(lambda: self.backend(engine)["state"] in states, f"{engine.url} is {states}", seconds)


class EngineProcess:
    """A stand-in that can be killed."""

    def __init__(self, name, models="test-model"):
        self.name = name
        self.models = models
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def start(self):
        command = [sys.executable, str(STANDIN), "--port", str(self.port), "--name", self.name,
                   "--models", self.models]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line.startswith(b"ready"), f"stand-in {self.name} said {line!r}"
        return self

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None


def make_engine(name="engine", **options):
    """A stand-in on a port it can come back to."""
    host = options.get("host", "127.0.0.1")
    return Engine(name, port=options.pop("port", None) or free_port(host), **options)
