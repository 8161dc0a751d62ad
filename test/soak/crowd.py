"""The clients of the soak test: users in sessions with shared prefixes, who check every byte.

Each user has a system prompt in common with others and a conversation that grows.  Half of them
chat in text, half send completions of token ids, so that KV events name the same blocks.  Some
responses are streamed, some users leave in the middle, and while `invalid_share` is positive some
requests are invalid, which every engine refuses.
"""
import asyncio
import collections
import itertools
import json
import random
import time

import content
from client import Response, request
from harness import within

APPLICATIONS = 8
LEAVE_SHARE, STREAMED_SHARE = 0.06, 0.8
RESPONSE_SECONDS = 60  # the limit of a response, faults included; it grows with `within`
ERROR_EVENT = b'data: {"error"'  # of the router, behind the bytes of a stream that was cut
LINES_MAX = 1 << 17

# A response that is not complete and right, to be judged with the journals of the engines.
Trouble = collections.namedtuple("Trouble", "what ask backend begun ended detail")


class User:
    """The prompts of one user."""

    def __init__(self, number, seed):
        self.rng = random.Random(f"{seed}-{number}")
        self.number = number
        self.uses_ids = number % 2 == 0
        self.session = itertools.count()
        self.begin()

    def begin(self):
        application = self.rng.randrange(APPLICATIONS)
        self.turns_left = self.rng.randint(3, 8)
        self.name = f"session-{self.number}-{next(self.session)}"
        if self.uses_ids:
            self.prompt = [application * 1000 + token for token in range(256)]
        else:
            self.prompt = [{"role": "system", "content": f"You are application {application}. " * 60}]

    def body(self, count, streamed, is_invalid):
        """The next turn; longer than a block, so that each prompt has a key of its own."""
        if self.turns_left == 0:
            self.begin()
        self.turns_left -= 1
        if self.uses_ids:
            self.prompt = self.prompt + [self.rng.randrange(10_000, 30_000) for _ in range(self.rng.randint(70, 120))]
            fields = {"prompt": self.prompt}
        else:
            text = " ".join(f"{self.rng.getrandbits(32):x}" for _ in range(self.rng.randint(60, 120)))
            self.prompt = [*self.prompt, {"role": "user", "content": text}]
            fields = {"messages": self.prompt}
        more = {"soak_invalid": True} if is_invalid else {}
        return json.dumps({"model": content.MODEL, "stream": streamed, "max_tokens": count, **fields, **more}).encode()


class Crowd:
    """Clients that send requests until they are stopped."""

    def __init__(self, router, seed, name, on_prompt=None):
        self.router, self.seed, self.name = router, seed, name
        self.on_prompt = on_prompt or (lambda backend, prompt: None)
        self.numbers = itertools.count()
        self.stopping = False
        self.invalid_share = 0
        self.counts = collections.Counter()
        self.bytes = 0
        self.troubles = []

    async def run(self, streams, meanwhile):
        """Holds that many streams until `meanwhile` is over, and lets all of them end."""
        users = [asyncio.ensure_future(self.live(User(number, self.seed))) for number in range(streams)]
        try:
            await meanwhile
        finally:
            self.stopping = True
            await asyncio.gather(*users)

    async def live(self, user):
        await asyncio.sleep(user.rng.uniform(0, 1))
        link = None
        while not self.stopping:
            try:
                if link is None:
                    link = await asyncio.wait_for(
                        asyncio.open_connection(*self.router.address, limit=LINES_MAX), within(30))
            except (OSError, asyncio.TimeoutError) as error:
                self.note("no connection", None, None, time.monotonic(), repr(error))
                await asyncio.sleep(1)
                continue
            if not await self.exchange(user, *link):
                link[1].transport.abort() if user.rng.random() < 0.5 else link[1].close()
                link = None
            await asyncio.sleep(user.rng.uniform(0, 0.3))
        if link:
            link[1].close()

    async def exchange(self, user, reader, writer):
        """One request; true when the connection can be used again."""
        rng = user.rng
        is_invalid = rng.random() < self.invalid_share
        streamed, count = rng.random() < STREAMED_SHARE, rng.randint(2, 14)
        body = user.body(count, streamed, is_invalid)
        ask = content.Ask(f"{self.name}-{next(self.numbers)}", content.COMPLETIONS if user.uses_ids else content.CHAT,
                          streamed, count, len(body), is_invalid)
        writer.write(request(
            "POST", ask.path, "Content-Type: application/json", f"X-Request-Id: {ask.id}",
            f"X-Session-Id: {user.name}", f"X-Soak-Digest: {content.body_digest(body)}",
            f"X-Standin-Delay: {rng.uniform(0, 0.3):.3f}", f"X-Standin-Gap: {rng.uniform(0.05, 0.3):.3f}", body=body))
        leaves_after = rng.uniform(0, 1.5) if rng.random() < LEAVE_SHARE else None
        begun, seen = time.monotonic(), Seen()
        try:
            await asyncio.wait_for(seen.read(reader), leaves_after or within(RESPONSE_SECONDS))
        except asyncio.TimeoutError:
            if leaves_after:
                self.counts["left"] += 1
                self.check(ask, seen, begun)
            else:
                self.note("hung", ask, seen.backend, begun, f"{len(seen.body)} bytes had come")
            return False
        self.check(ask, seen, begun)
        if seen.complete and seen.response.status == 200:
            self.on_prompt(seen.backend, user.prompt)
        return seen.complete

    def check(self, ask, seen, begun):
        """Compares the bytes that came and notes trouble."""
        if seen.response is None:
            if seen.error:
                self.note("no response", ask, None, begun, seen.error)
            return
        status, body = content.expected(ask)
        self.bytes += len(seen.body)
        if seen.response.header("x-request-id") != ask.id:
            self.note("altered", ask, seen.backend, begun, f"request id {seen.response.header('x-request-id')}")
        if seen.complete and (seen.response.status, seen.body) == (status, body):
            self.counts["invalid" if ask.is_invalid else "streamed" if ask.streamed else "whole"] += 1
        elif seen.response.status != status or (seen.complete and seen.response.status != 200):
            self.note("status", ask, seen.backend, begun, f"{seen.response.status} {bytes(seen.body[:300])!r}")
        elif seen.complete:
            # A refusal has none of the bytes; a part of them would pretend to be whole.
            what = "altered" if ask.id.encode() in seen.body else "empty"
            self.note(what, ask, seen.backend, begun,
                      f"complete, {len(body)} bytes expected: {bytes(seen.body[-300:])!r}")
        elif not is_prefix(seen.body, body):
            self.note("altered", ask, seen.backend, begun, f"cut: {bytes(seen.body[-300:])!r}")
        elif seen.error:
            self.note("cut", ask, seen.backend, begun, seen.error)

    def note(self, what, ask, backend, begun, detail):
        self.counts[what] += 1
        self.troubles.append(Trouble(what, ask, backend, begun, time.monotonic(), detail))


def is_prefix(part, body):
    """Whether the body begins with these bytes; the router's error event may follow them."""
    if body.startswith(part):
        return True
    at = part.rfind(ERROR_EVENT)
    # The router closes an event that was open with an empty line.
    return at >= 0 and (body.startswith(part[:at]) or body.startswith(part[:at].rstrip(b"\n")))


class Seen:
    """One response as far as it came."""

    def __init__(self):
        self.response = None
        self.body = bytearray()
        self.complete = False
        self.error = None  # how it ended too early

    @property
    def backend(self):
        return self.response and self.response.header("x-warmpath-backend")

    async def read(self, reader):
        try:
            self.response = Response(await reader.readuntil(b"\r\n\r\n"))
            if self.response.all("content-length"):
                await self.read_sized(reader, int(self.response.header("content-length")))
            else:
                await self.read_chunks(reader)
            self.complete = True
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self.error = repr(error)

    async def read_sized(self, reader, size):
        while len(self.body) < size:
            data = await reader.read(min(size - len(self.body), 65536))
            if not data:
                raise asyncio.IncompleteReadError(b"", size - len(self.body))
            self.body += data

    async def read_chunks(self, reader):
        while size := int(await reader.readuntil(b"\r\n"), 16):
            self.body += (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)
