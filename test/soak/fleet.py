"""The engines of the soak test, the router's file, and the admin calls, as the faults use them."""
import asyncio
import collections
import json
import pathlib
import subprocess
import sys

import client
from harness import EngineProcess, within
from kv_engine import KvEngine

PROGRAM = pathlib.Path(__file__).with_name("soak_engine.py")
POLICIES = ("warm", "round_robin", "least_requests", "power_of_two", "consistent_hash", "prefix_cost",
            "weighted_least_requests", "cache_aware")
# Statuses of admin calls that a race of two faults explains: a reload brings back a backend that
# was deleted, or removes one that was added.
RACES = (404, 409)


class NoHttp:
    """The HTTP side of a KvEngine, which is another process here."""

    def __init__(self, url):
        self.url = url

    def respond(self, path, *steps):
        pass


class SoakEngine(EngineProcess):
    """An engine with faults; `events` publishes its KV events, from this process."""

    def __init__(self, name, directory, seed, has_events):
        super().__init__(name)
        self.seed = f"{seed}-{name}"
        self.journal = directory / f"{name}.journal"
        self.events = KvEngine(NoHttp(self.url), blocks=4000) if has_events else None

    def start(self, kind=None):
        command = [sys.executable, str(PROGRAM), "--port", str(self.port), "--name", self.name,
                   "--journal", str(self.journal), "--seed", self.seed]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line.startswith(b"ready"), f"engine {self.name} said {line!r}"
        if kind:
            self.begin_fault(kind)
        return self

    def kill(self):
        process = self.process
        super().kill()
        if process:
            process.stdin.close()

    def begin_fault(self, kind, **more):
        """Of the kinds of soak_engine.py; None ends the fault."""
        with client.Client(("127.0.0.1", self.port), within(20)) as connection:
            connection.send(client.json_request("/_fault", {"kind": kind, **more}))
            assert connection.read_response("POST").status == 200

    def row(self, **more):
        return self.events.row(**more) if self.events else json.dumps({"url": self.url, **more})

    def lines(self):
        """The journal: (time, event, request id)."""
        if self.journal.exists():
            for line in self.journal.read_text().splitlines():
                at, what, request_id = line.split(" ")
                yield float(at), what, request_id


class Settings:
    """The router's file."""

    def __init__(self, router, engines):
        self.router, self.engines = router, engines
        self.policy = POLICIES[0]
        self.weights = collections.Counter()
        self.missing = set()

    def text(self):
        rows = (engine.row(weight=1 + self.weights[engine.name]) for engine in self.engines
                if engine not in self.missing)
        return f"policy: {self.policy}\nbackends:\n" + "".join(f"  - {row}\n" for row in rows)


class Admin:
    """Admin calls off the event loop, counted."""

    def __init__(self, router):
        self.router = router
        self.counts = collections.Counter()
        self.unanswered = []

    async def call(self, method, target, value=None):
        loop = asyncio.get_running_loop()
        try:
            response = await loop.run_in_executor(None, self.router.admin, method, target, value)
        except (OSError, client.Ended) as error:
            self.unanswered.append(f"{method} {target}: {error!r}")
            return None
        self.counts[response.status] += 1
        if response.status not in (200, 201, 202, 204, *RACES):
            self.unanswered.append(f"{method} {target} {value}: {response}")
        return response

    async def backend(self, url):
        """The entry of that backend, or None."""
        response = await self.call("GET", "/backends")
        rows = response.json()["backends"] if response and response.status == 200 else []
        return next((row for row in rows if row["url"] == url), None)

    async def change(self, url, method, verb="", value=None):
        """A call for one backend by its URL."""
        row = await self.backend(url)
        return row and await self.call(method, f"/backends/{row['id']}{verb}", value)
