"""Predicted and actual cache hits: by a plain reader of the engines' KV events, and by the router.

    mirror = Mirror(context, replay_port)           # one engine's cache, by its events
    mirror.catch_up()
    mirror.cached(ids)                              # tokens that the engine has cached

    with Site(binary, directory, count=4, speed=10) as site:     # engines and a router with events
        report = site.measure(workload="chat", rate=40, requests=2000)
        print(report)                               # predicted against cached, by request
"""
import collections
import json
import subprocess

import harness
import msgpack
import zmq
from kv_engine import free_ports as free_run
from test_71_engine import Fleet

BLOCK = 16
END = b"\xff" * 8


class Mirror:
    """One engine's cache after its events, in the simplest form.

    A block is identified by its content and prefix: a number for each (block before, adapter, ids),
    where the salt stands before the first.  Hashes are the engine's names for blocks; each tier
    counts its copies.
    """

    def __init__(self, context, replay_port):
        self.socket = context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.rcvtimeo = int(harness.within(5) * 1000)
        self.socket.connect(f"tcp://127.0.0.1:{replay_port}")
        self.next = 0
        self.ranks = set()
        self.contents = {}
        self.names = {}  # hash -> number
        self.tiers = collections.defaultdict(collections.Counter)  # medium -> number -> copies
        self.stored = self.removed = self.copies = 0

    def catch_up(self):
        """Reads all messages so far; the events of a response are published before its end."""
        self.socket.send_multipart([b"", self.next.to_bytes(8, "big")])
        while (frames := self.socket.recv_multipart())[-2] != END:
            assert int.from_bytes(frames[-2], "big") == self.next, "a batch is missing"
            self.next += 1
            _, events, rank = msgpack.unpackb(frames[-1])
            self.ranks.add(rank)
            for event in events:
                self.apply(event)

    def apply(self, event):
        if event["type"] == "AllBlocksCleared":
            self.tiers["GPU"].clear()
        elif event["type"] == "BlockRemoved":
            for name in event["block_hashes"]:
                self.remove(self.tiers[event["medium"]], self.names[name])
        else:
            self.store(event)

    def remove(self, tier, number):
        assert tier[number] > 0, "removed a block that is not there"
        tier[number] -= 1
        self.removed += 1

    def store(self, event):
        size, ids = event["block_size"], event["token_ids"]
        assert size == BLOCK and len(ids) == size * len(event["block_hashes"])
        if event["parent_block_hash"] is not None:
            before = self.names[event["parent_block_hash"]]
        else:
            before = "".join(set(event["extra_keys"][0] or []) - {event["lora_name"]})
        tier = self.tiers[event["medium"]]
        for at, name in enumerate(event["block_hashes"]):
            before = self.number(before, event["lora_name"], ids[at * size:(at + 1) * size])
            assert self.names.setdefault(name, before) == before, "one name for two contents"
            self.stored += 1
            self.copies += tier[before] > 0
            tier[before] += 1

    def number(self, before, adapter, ids):
        return self.contents.setdefault((before, adapter, tuple(ids)), len(self.contents))

    def cached(self, ids, adapter=None, salt=""):
        """The engine looks on the GPU first and then on the host; it always computes the last
        token.
        """
        numbers, before = [], salt
        for at in range((len(ids) - 1) // BLOCK):
            before = self.number(before, adapter, ids[at * BLOCK:(at + 1) * BLOCK])
            numbers.append(before)
        found = 0
        for medium in ("GPU", "CPU"):
            while found < len(numbers) and self.tiers[medium][numbers[found]] > 0:
                found += 1
        return found * BLOCK


class Report:
    """Predicted and cached tokens of each request of a run."""

    def __init__(self, lines, summary):
        self.lines = lines
        self.summary = summary  # of `warmpath load --json`
        self.failures = [line for line in lines if line["error"]]
        self.responses = [line for line in lines if line["counts"] and not line["error"]]
        self.pairs = [(self.most(line), line["cached_tokens"]) for line in self.responses]
        self.prompt_tokens = sum(line["prompt_tokens"] for line in self.responses)

    @staticmethod
    def most(line):
        """The predicted tokens, except for the last token, which engines always compute."""
        return min(line["predicted_tokens"], (line["prompt_tokens"] - 1) // BLOCK * BLOCK)

    @property
    def equal_share(self):
        """The share of requests predicted to the token."""
        return sum(predicted == found for predicted, found in self.pairs) / len(self.pairs)

    @property
    def over(self):
        """Tokens predicted but not cached, over all prompt tokens."""
        return sum(max(0, predicted - found) for predicted, found in self.pairs) / self.prompt_tokens

    @property
    def under(self):
        """Tokens cached but not predicted, over all prompt tokens."""
        return sum(max(0, found - predicted) for predicted, found in self.pairs) / self.prompt_tokens

    @property
    def hit_rate(self):
        return sum(found for _, found in self.pairs) / self.prompt_tokens

    def __repr__(self):
        first = sorted(line["first_ms"] for line in self.responses)
        return (f"{len(self.responses)} requests, {len(self.failures)} failed; equal {self.equal_share:.1%}, "
                f"tokens predicted too many {self.over:.2%}, too few {self.under:.2%}; cached {self.hit_rate:.1%}; "
                f"first token p50 {first[len(first) // 2]:.1f} ms, p99 {first[len(first) * 99 // 100]:.1f} ms")


class Site:
    """Engines that publish events, and a router that subscribes to them unless `events` is false.
    """

    def __init__(self, binary, directory, count=2, ranks=1, events=True, router_keys=None, **flags):
        self.binary, self.directory, self.runs = binary, directory, 0
        self.events_port, self.replay_port = free_run(count * ranks), free_run(count * ranks)
        if ranks > 1:
            flags["ranks"] = ranks
        self.fleet = Fleet(binary, directory / "predictions-engines.stderr", count, port=free_run(count),
                           kv_events_port=self.events_port, kv_replay_port=self.replay_port, **flags)
        self.router = harness.Router(binary, directory)
        try:
            self.router.start(config=self.config(ranks, events), policy="warm", **(router_keys or {}))
        except BaseException:
            self.stop()
            raise

    def config(self, ranks, events):
        rows = ["backends:"]
        for index, port in enumerate(self.fleet.ports):
            rows.append(f"  - url: http://127.0.0.1:{port}")
            if ranks > 1:
                rows.append(f"    ranks: {ranks}")
            if events:
                rows.append(f"    events: tcp://127.0.0.1:{self.events_port + index * ranks}")
                rows.append(f"    events_replay: tcp://127.0.0.1:{self.replay_port + index * ranks}")
        return "\n".join(rows) + "\n"

    def measure(self, seconds=60, **flags):
        """One run of `warmpath load` with its flags: workload, rate, users, requests, warm_up and
        so on.
        """
        self.runs += 1
        log = self.directory / f"predictions-{self.runs}.jsonl"
        words = [str(self.binary), "load", "--url", self.router.url, "--api", "ids", "--json", "-", "--quiet",
                 "--log", str(log)]
        for key, value in flags.items():
            words += [harness.flag(key), str(value)]
        run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=harness.within(seconds), check=False)
        assert run.returncode == 0, run.stderr
        with open(log, encoding="utf-8") as lines:
            return Report([json.loads(line) for line in lines], json.loads(run.stdout))

    def stop(self):
        try:
            if self.router.process and self.router.process.poll() is None:
                self.router.check_and_stop()
            self.fleet.stop()
        finally:
            self.router.kill()
            self.fleet.process.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
