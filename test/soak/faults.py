"""The faults of the soak test: which, when and where, by a seed.

    chaos = Chaos(router, engines, spare, crowd, seed)
    await chaos.run(60)

Each kind is a method `fault_<name>`.  Kinds are dealt from a shuffled deck, so that a minute has
all of them.  A fault of an engine takes one of the seats, of which there are half as many as
engines, and keeps it until the router calls the backend `up` again: at most half of the backends
are unhealthy at any time.
"""
import asyncio
import collections
import json
import random
import signal
import time

from fleet import POLICIES, Admin, Settings
from harness import within
from soak_engine import HOLES

PAUSE_S = (0.2, 0.8)  # between the begins of two faults
LENGTH_S = (0.5, 3.0)  # of a fault
RECOVERY_SECONDS = 30
INVALID_SHARE = 0.3  # of the requests in a storm of 400
# A seat is an engine that counts as unhealthy meanwhile.
SEATED = ("kill", "slow_start", "stall", "reset", "storm_500", "black_hole", "stop", "drain", "delete", "unlist")
EVENTED = ("event_loss", "event_repeat", "event_restart")  # on engines that publish events
GLOBAL = ("reload", "storm_400", "weight", "add")

Hole = collections.namedtuple("Hole", "url form begun ended")


class Chaos:
    def __init__(self, router, engines, spare, crowd, seed):
        self.router, self.engines, self.spare, self.crowd = router, engines, spare, crowd
        self.rng = random.Random(seed)
        self.admin = Admin(router)
        self.settings = Settings(router, engines)
        self.seats = len(engines) // 2
        self.ill = set()  # engines with a seat
        self.busy = set()  # what has a fault, seat or not
        self.counts = collections.Counter()
        self.kills = []  # (url, when)
        self.holes = []  # Hole
        self.not_recovered = []

    async def run(self, seconds):
        until, tasks, deck = time.monotonic() + seconds, [], []
        while time.monotonic() < until and self.router.is_alive():
            await asyncio.sleep(self.rng.uniform(*PAUSE_S))
            deck = deck or self.rng.sample([*SEATED, *EVENTED, *GLOBAL], len(SEATED) + len(EVENTED) + len(GLOBAL))
            kind = deck.pop()
            target = await self.pick(kind, until)
            if target:
                self.counts[kind] += 1
                tasks.append(asyncio.ensure_future(self.play(kind, target)))
        await asyncio.gather(*tasks)

    async def pick(self, kind, until):
        """Waits for a target that is free; None at the end."""
        while time.monotonic() < until:
            if kind in GLOBAL and kind not in self.busy:
                return kind
            if kind in EVENTED or (kind in SEATED and len(self.ill) < self.seats):
                free = [engine for engine in self.engines
                        if engine not in self.busy and (engine.events or kind not in EVENTED)]
                if free:
                    return self.rng.choice(free)
            await asyncio.sleep(0.1)
        return None

    async def play(self, kind, target):
        self.busy.add(target)
        if kind in SEATED:
            self.ill.add(target)
        await getattr(self, f"fault_{kind}")(target)
        if kind in SEATED:
            await self.recover(kind, target)
            self.ill.discard(target)
        self.busy.discard(target)

    async def recover(self, kind, engine):
        until = time.monotonic() + within(RECOVERY_SECONDS)
        row = None
        while time.monotonic() < until and self.router.is_alive():
            row = await self.admin.backend(engine.url)
            if row and row["state"] == "up" and row["refused_kinds"] == 0:
                return
            await asyncio.sleep(0.2)
        self.not_recovered.append(f"{engine.url} after {kind}: {row}")

    def length(self):
        return self.rng.uniform(*LENGTH_S)

    async def blocking(self, work, *arguments, **more):
        """On a thread: the clients go on."""
        await asyncio.get_running_loop().run_in_executor(None, lambda: work(*arguments, **more))

    # Engines.

    async def fault_kill(self, engine):
        await self.die(engine)
        await asyncio.sleep(self.length())
        await self.revive(engine)

    async def fault_slow_start(self, engine):
        """It comes back loading its weights, and is ready a while later."""
        await self.die(engine)
        await self.revive(engine, "loading")
        await asyncio.sleep(self.length())
        await self.blocking(engine.begin_fault, None)

    async def die(self, engine):
        self.kills.append((engine.url, time.monotonic()))
        engine.kill()
        if engine.events:
            await self.blocking(engine.events.stop)

    async def revive(self, engine, kind=None):
        await self.blocking(engine.start, kind)
        if engine.events:
            await self.blocking(engine.events.restart, http=False)

    async def fault_stall(self, engine):
        await self.ailing(engine, "stall")

    async def fault_reset(self, engine):
        await self.ailing(engine, "reset")

    async def fault_storm_500(self, engine):
        await self.ailing(engine, "storm")

    async def fault_black_hole(self, engine):
        form, begun = self.rng.choice(sorted(HOLES)), time.monotonic()
        await self.ailing(engine, "hole", form=form)
        self.holes.append(Hole(engine.url, form, begun, time.monotonic()))

    async def ailing(self, engine, kind, **more):
        await self.blocking(engine.begin_fault, kind, **more)
        await asyncio.sleep(self.length())
        await self.blocking(engine.begin_fault, None)

    async def fault_stop(self, engine):
        engine.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2 * self.length())
        engine.process.send_signal(signal.SIGCONT)

    # The router and its fleet.

    def reload(self):
        self.router.write_config(self.settings.text())
        self.router.signal(signal.SIGHUP)

    async def fault_reload(self, _):
        self.settings.policy = self.rng.choice(POLICIES)
        self.settings.weights[self.rng.choice(self.engines).name] = self.rng.randrange(4)
        self.reload()

    async def fault_unlist(self, engine):
        """A file without this engine."""
        self.settings.missing.add(engine)
        self.reload()
        await asyncio.sleep(self.length())
        self.settings.missing.remove(engine)
        self.reload()

    async def fault_drain(self, engine):
        await self.admin.change(engine.url, "POST", "/drain")
        await asyncio.sleep(self.length())
        await self.admin.change(engine.url, "POST", "/ready")

    async def fault_delete(self, engine):
        await self.admin.change(engine.url, "DELETE")
        await asyncio.sleep(self.length())
        await self.admin.call("POST", "/backends", json.loads(engine.row()))

    async def fault_weight(self, _):
        await self.admin.change(self.rng.choice(self.engines).url, "PATCH", "", {"weight": self.rng.randint(1, 8)})

    async def fault_add(self, _):
        """One backend more, for a while."""
        await self.admin.call("POST", "/backends", {"url": self.spare.url, "weight": self.rng.randint(1, 4)})
        await asyncio.sleep(self.length())
        await self.admin.change(self.spare.url, "DELETE")

    async def fault_storm_400(self, _):
        """Requests that every engine refuses; no engine is to blame for them."""
        self.crowd.invalid_share = INVALID_SHARE
        await asyncio.sleep(self.length())
        self.crowd.invalid_share = 0

    # KV events.

    async def fault_event_loss(self, engine):
        engine.events.publisher.drop = self.rng.randint(1, 20)

    async def fault_event_repeat(self, engine):
        engine.events.publisher.repeat = self.rng.randint(1, 20)

    async def fault_event_restart(self, engine):
        """Message numbers begin again at 0, and the cache is empty."""
        await self.blocking(engine.events.restart, http=False)

    # Afterwards.

    async def heal(self):
        """The whole fleet as at the start."""
        self.settings.missing.clear()
        self.settings.weights.clear()
        self.settings.policy = POLICIES[0]
        self.reload()
        await self.admin.change(self.spare.url, "DELETE")
        for engine in self.engines:
            if not await self.admin.backend(engine.url):
                await self.admin.call("POST", "/backends", json.loads(engine.row()))
