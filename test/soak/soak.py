#!/usr/bin/env python3
"""Breaks engines, fleet and configuration under a crowd of streams: `make soak`.

    soak.py --warmpath build/debug/warmpath --minutes 10 --seed 1

Eight stand-in engines, each a process, four of which publish KV events; 300 concurrent streams of
users who check every byte; and random faults (faults.py), each seed with its own order.  At most
half of the backends are unhealthy at any time.  Then the faults stop, all requests end, and each
invariant is one line with yes or NO.  The exit status is 1 if one does not hold.

Invariants:

- No request failed.  A request fails if its client gets no response, a status other than the
  expected one, an empty 200, or no end within `within(60)` seconds, and if it is cut.  Allowed,
  and counted, are:
    * "cut by its engine": the response had begun, and its engine was killed or reset this
      connection meanwhile, by its journal;
    * "two engines died under it" (docs/errors.md, Retries): an engine was killed while the request
      ran, or reset its connection before a byte of the response, and the one other engine that the
      request may then reach was killed too, reset it, or responded with a fault;
    * "refused by a hole": an engine that responds to all without output is convicted by
      comparison, which takes some requests; at most HOLE_REFUSALS_MAX (verdict.py) of each kind.
- No byte differs.  A complete response has exactly the bytes that its request implies (content.py),
  a response that was cut or left is a prefix of them, and engines got bodies as they were sent.
- Nothing is left.  In flight, connections, body memory and buffers of the router, and in flight,
  queued tokens, decoding and context tokens of each backend are 0.
- Memory and descriptors are as after the warm-up, within MEMORY_TOLERANCE and
  DESCRIPTOR_TOLERANCE.
- All backends recovered: each is `up` and accepts all kinds of requests.
- The router lives, ends with 0 after SIGTERM, and has written neither a report of a sanitizer nor a
  failed assertion.  All admin calls were answered.

Time is bounded: warm-up, chaos and recovery have limits.  Limits follow the slowness of the machine
(test/e2e/harness.py).  With asan and tsan in the path of the program they are five times as long.
"""
import argparse
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from crowd import Crowd  # noqa: E402
from faults import Chaos  # noqa: E402
from fleet import Settings, SoakEngine  # noqa: E402
from pace import pace  # noqa: E402
from verdict import Judge  # noqa: E402

ENGINES, EVENTED_ENGINES = 8, 4
WARM_UP_SECONDS, CALM_SECONDS = 6, 3
SHOWN_MAX = 12  # examples of each violation
REPORT_SIZE = 8000  # of a sanitizer's report, in bytes
# Bytes.  The prefix index and the record of KV events fill up to their limits below (16 MB), and
# the allocator keeps the peak of the faults.  Sanitizers add shadow memory and keep freed blocks.
# Growth seen in ten minutes: 26 MB in a plain build, 23 MB with asan; with tsan, which keeps
# records of each lock and address, 147 MB in two minutes and 383 MB in ten.
MEMORY_TOLERANCE = {"plain": 32 << 20, "asan": 80 << 20, "tsan": 512 << 20}
DESCRIPTOR_TOLERANCE = 8
# retry.attempts is high, so that only deaths end a request.  Ejections are short, so that engines
# come back within seconds.
KEYS = {"workers": 2, "health_interval": "200ms", "health_timeout": "2s", "health_fall": 2, "health_rise": 1,
        "health_eject_time": "300ms", "health_eject_time_max": "1s", "health_stall_time": "3s",
        "retry_attempts": 10, "retry_on": [429, 500, 502, 503, 504], "retry_budget_percent": 100,
        "retry_budget_min": 1_000_000, "timeouts_backend_keepalive": "1s", "prefix_memory": "8m",
        "events_memory": "8m"}
# Figures of bench/soak_bench.py; violations of the other invariants count as failed.
METRICS = {"no byte differs": "altered", "all counters are 0": "leaked",
           "memory and descriptors are as at the start": "leaked"}
COUNTERS = ("in_flight", "connections", "body_memory", "buffers")
LOADS = ("queued_tokens", "decoding", "context_tokens")


class Router(harness.Router):
    def is_alive(self):
        return self.process.poll() is None


class Soak:
    def __init__(self, options, directory):
        self.options = options
        self.router = Router(options.warmpath.resolve(), directory)
        self.engines = [SoakEngine(chr(ord("a") + number), directory, options.seed, number < EVENTED_ENGINES)
                        for number in range(ENGINES)]
        self.spare = SoakEngine("spare", directory, options.seed, False)
        self.everyone = [*self.engines, self.spare]
        self.violations = collections.OrderedDict()  # invariant -> list

    def run(self):
        """False if an invariant does not hold."""
        try:
            for engine in self.everyone:
                engine.start()
            self.router.start(config=Settings(self.router, self.engines).text(), **KEYS)
            asyncio.run(self.soak())
        finally:
            self.stop()
        self.violations["the router ends with 0, without a report of a sanitizer or an assertion"] = self.ending
        return not any(self.violations.values())

    def stop(self):
        self.ending = []
        with contextlib.suppress(AssertionError):
            if self.router.process and self.router.process.poll() is None:
                self.router.signal(signal.SIGTERM)
                self.router.wait_exit(15)
        status = self.router.process and self.router.process.poll()
        self.router.kill()
        for engine in self.everyone:
            engine.kill()
            if engine.events:
                engine.events.stop()
        if status != 0:
            self.ending.append(f"exit status {status}")
        if report := harness.SANITIZER.search(self.router.stderr()):
            self.ending.append(self.router.stderr()[report.start():][:REPORT_SIZE])

    async def soak(self):
        sources = {engine.url: engine.events for engine in self.engines if engine.events}

        def publish(backend, prompt):
            """An engine that served token ids has them in its cache, and says so."""
            if backend in sources and isinstance(prompt[0], int):
                sources[backend].ranks[0].serve(prompt)
                sources[backend].ranks[0].publish()

        say(f"warm-up, {self.options.streams} streams")
        warm_up = Crowd(self.router, f"{self.options.seed}-warm-up", "w", publish)
        await warm_up.run(self.options.streams, asyncio.sleep(harness.within(WARM_UP_SECONDS)))
        await self.come_to_rest()
        memory, descriptors = self.router.memory(), self.router.descriptors()

        say(f"chaos for {self.options.minutes:g} minutes, seed {self.options.seed}")
        crowd = Crowd(self.router, self.options.seed, "s", publish)
        chaos = Chaos(self.router, self.engines, self.spare, crowd, self.options.seed)
        await crowd.run(self.options.streams, self.disturb(chaos))
        await self.come_to_rest()
        self.report(warm_up, crowd, chaos)
        self.violations["all counters are 0"] = self.leftovers()
        if self.router.is_alive():
            self.look_for_leaks(await self.idle_figures(descriptors), memory, descriptors)

    async def disturb(self, chaos):
        await chaos.run(60 * self.options.minutes)
        say("the faults are over")
        await chaos.heal()
        await asyncio.sleep(CALM_SECONDS)
        for engine in self.engines:
            await chaos.recover("all", engine)

    async def come_to_rest(self):
        """Waits until nothing is in flight, or does not get less."""
        until = time.monotonic() + harness.within(20)
        while self.router.is_alive() and time.monotonic() < until and self.leftovers():
            await asyncio.sleep(0.1)

    def leftovers(self):
        """Counters that are not 0."""
        if not self.router.is_alive():
            return ["the router is dead"]
        status, backends = self.router.status(), self.router.backends().values()
        found = [f"{key} is {status[key]}" for key in COUNTERS if status[key]]
        for row in backends:
            found += [f"in_flight of {row['url']} is {row['in_flight']}"] if row["in_flight"] else []
            found += [f"{key} of {row['url']} is {row['load'][key]}" for key in LOADS if row["load"][key]]
        return found

    async def idle_figures(self, descriptors):
        """Memory and descriptors, when connections to backends have been closed."""
        until = time.monotonic() + harness.within(10)
        while time.monotonic() < until and self.router.descriptors() > descriptors + DESCRIPTOR_TOLERANCE:
            await asyncio.sleep(0.2)
        return self.router.memory(), self.router.descriptors()

    # Verdicts.

    def report(self, warm_up, crowd, chaos):
        judge = Judge(self.everyone, chaos)
        judge.judge([*warm_up.troubles, *crowd.troubles])
        done = sum(crowd.counts[kind] for kind in ("streamed", "whole", "invalid"))
        print(f"responses: {done} complete ({crowd.counts['streamed']} streamed, {crowd.counts['whole']} whole, "
              f"{crowd.counts['invalid']} refusals of invalid requests), {crowd.counts['left']} left by their clients")
        print(f"bytes compared: {crowd.bytes + warm_up.bytes:,}")
        print("faults: " + ", ".join(f"{count} {kind}" for kind, count in sorted(chaos.counts.items())))
        print("allowed: " + (", ".join(f"{count} {rule}" for rule, count in sorted(judge.allowed.items())) or "none"))
        for hole, count in judge.refusals.most_common(3):
            print(f"    {count} refusals: {', '.join(hole)}")
        print(f"admin calls: {dict(sorted(chaos.admin.counts.items()))}")
        self.violations["no request failed"] = judge.failed
        self.violations["no byte differs"] = judge.altered
        self.violations["all backends recovered"] = chaos.not_recovered
        self.violations["all admin calls were answered"] = chaos.admin.unanswered

    def look_for_leaks(self, figures, memory_before, descriptors_before):
        memory, descriptors = figures
        kind = next((kind for kind in ("asan", "tsan") if kind in str(self.options.warmpath)), "plain")
        print(f"memory: {memory_before >> 20} MB after the warm-up, {memory >> 20} MB at the end; "
              f"descriptors: {descriptors_before}, {descriptors}")
        grown = []
        if memory > memory_before + MEMORY_TOLERANCE[kind]:
            grown.append(f"memory grew by {memory - memory_before:,} bytes")
        if descriptors > descriptors_before + DESCRIPTOR_TOLERANCE:
            grown.append(f"descriptors grew from {descriptors_before} to {descriptors}")
        self.violations["memory and descriptors are as at the start"] = grown

    def figures(self):
        """Violations by the metric of the benchmark that counts them."""
        counts = dict.fromkeys(("failed", "altered", "leaked"), 0)
        for invariant, found in self.violations.items():
            counts[METRICS.get(invariant, "failed")] += len(found)
        return counts


def say(text):
    print(f"soak: {text}", file=sys.stderr, flush=True)


def print_verdicts(violations):
    for invariant, found in violations.items():
        print(f"{invariant}: {'NO' if found else 'yes'}{f' ({len(found)})' if found else ''}")
        for line in found[:SHOWN_MAX]:
            print(f"    {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--warmpath", type=pathlib.Path, default=pathlib.Path("build/debug/warmpath"))
    parser.add_argument("--minutes", type=float, default=10, help="of chaos (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the faults and the requests (default: 1)")
    parser.add_argument("--streams", type=int, default=300, help="held at a time (default: 300)")
    parser.add_argument("--figures", type=pathlib.Path, help="write failed, altered and leaked to this file, as JSON")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the router's log and the journals in this folder")
    options = parser.parse_args()
    if any(kind in str(options.warmpath) for kind in ("asan", "tsan")):
        harness.slow_factor = 5.0
    # The address sanitizer holds freed memory back: its 256 MB would hide a leak.
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=32")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes end with us
    pace.start()
    with contextlib.ExitStack() as stack:
        directory = options.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        directory.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("*.journal"):
            path.unlink()
        soak = Soak(options, directory)
        is_good = soak.run()
    print_verdicts(soak.violations)
    if options.figures:
        options.figures.write_text(json.dumps(soak.figures()))
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
