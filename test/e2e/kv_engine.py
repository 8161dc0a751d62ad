"""A stand-in with a prefix cache that publishes KV events: an HTTP side, and a publisher for each
data-parallel rank.

Written from the description of the engines' wire formats alone, with the engines' own libraries
(ZeroMQ and msgpack), so that it cannot share a misreading with the router.

    engine = KvEngine(standin("a"), form="vllm-0.26", blocks=64)
    engine.rank(0).cache.hit(prompt)        # its cached_tokens
    engine.publisher.drop = 1               # the next message gets its number and is lost
    engine.restart(); engine.reset_silently()

A prompt is a list of token ids.  Only whole blocks are cached, each behind its prefix.  The least
recently used block is evicted first, and of a prompt its end.
"""
import collections
import contextlib
import hashlib
import itertools
import json
import os
import socket
import struct
import threading
import time

import harness
import msgpack
import zmq
from standin import json_response, plain_response

END = b"\xff" * 8
TS = 1755907200.5


# Names of blocks.

def seeded_digest(parent, tokens, extra, seed):
    """Depends on the process, as vLLM's does."""
    return hashlib.sha256((parent or seed) + repr((tokens, extra)).encode()).digest()


def sglang_digest(parent, tokens, extra, _seed):
    """The same in every process; the chain begins with the salt."""
    salt = dict(extra).get("salt")
    if parent is None:
        parent = hashlib.sha256(b"sglang-cache-salt-v1\0" + salt.encode()).digest() if salt else b""
    return hashlib.sha256(parent + struct.pack(f"<{len(tokens)}I", *tokens)).digest()


NAMES = {
    "unsigned": lambda digest: int.from_bytes(digest[-8:], "big"),
    "signed": lambda digest: int.from_bytes(digest[-8:], "big", signed=True),
    "first": lambda digest: int.from_bytes(digest[:8], "big", signed=True),
    "bytes32": lambda digest: digest,
    "bytes16": lambda digest: digest[:16],
    # As test tools have them: short integers.
    "small": lambda digest: int.from_bytes(digest[-4:], "big"),
}


# Wire forms.

STORED = ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
          "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality")
REMOVED = ("block_hashes", "medium", "group_idx", "locality")
OMITTED = {"extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality"}


def array_event(kind, event, fields):
    return [kind, *(event.get(field) for field in fields)]


def map_event(kind, event, fields):
    made = {field: event.get(field) for field in fields}
    return {"type": kind, **{field: value for field, value in made.items()
                             if field not in OMITTED or value is not None}}


class Arrays:
    """Events as arrays of that many elements, the tag included."""

    def __init__(self, stored, removed):
        self.stored_count, self.removed_count = stored - 1, removed - 1

    def stored(self, event):
        return array_event("BlockStored", event, STORED[:self.stored_count])

    def removed(self, event):
        return array_event("BlockRemoved", event, REMOVED[:self.removed_count])

    def cleared(self):
        return ["AllBlocksCleared"]


class LlmdArrays(Arrays):
    """Of llm-d's simulator, which writes 0 for "no parent"."""

    def __init__(self):
        super().__init__(9, 3)

    def stored(self, event):
        return super().stored({**event, "parent_block_hash": event["parent_block_hash"] or 0})


class SglangArrays(Arrays):
    def __init__(self):
        super().__init__(7, 3)

    def stored(self, event):
        made = super().stored({**event, "lora_id": None})
        return made + [{"cache_salt": event["salt"]}] if event.get("salt") else made


class Maps:
    """Events as maps; `more` are unknown fields."""

    def __init__(self, stored=STORED, removed=REMOVED, more=None, salt=False):
        self.stored_fields, self.removed_fields, self.more, self.salt = stored, removed, more or {}, salt

    def stored(self, event):
        made = map_event("BlockStored", event, self.stored_fields)
        if self.salt and event.get("salt"):
            made["cache_salt"] = event["salt"]
        return {**self.more, **made}

    def removed(self, event):
        return {**map_event("BlockRemoved", event, self.removed_fields), **self.more}

    def cleared(self):
        return {"type": "AllBlocksCleared"}


def batch_of_two(events, _rank):
    return [TS, events]


def batch_of_three(events, rank):
    return [TS, events, rank]


def batch_map(events, rank):
    return {"ts": TS, "events": events, "data_parallel_rank": rank}


def wide(value):
    """msgpack with the widest encoding of everything."""
    if value is None or isinstance(value, (bool, float)):
        return msgpack.packb(value)
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value) if value < 2**63 else b"\xcf" + struct.pack(">Q", value)
    if isinstance(value, str):
        return b"\xdb" + struct.pack(">I", len(value.encode())) + value.encode()
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, dict):
        parts = [wide(part) for pair in value.items() for part in pair]
        return b"\xdf" + struct.pack(">I", len(value)) + b"".join(parts)
    return b"\xdd" + struct.pack(">I", len(value)) + b"".join(wide(part) for part in value)


Form = collections.namedtuple("Form", "events names batch topic_in_replay digest copies pack")


def form(events, names="unsigned", batch=batch_of_three, topic_in_replay=False, digest=seeded_digest, copies=True,
         pack=msgpack.packb):
    return Form(events, names, batch, topic_in_replay, digest, copies, pack)


FORMS = {
    "vllm-0.9.0": form(Arrays(6, 2), "signed", batch_of_two),
    "vllm-0.9.1": form(Arrays(6, 2), "signed"),
    "vllm-0.10.2": form(Arrays(7, 3)),
    "vllm-0.10.2-bytes": form(Arrays(7, 3), "bytes32"),
    "vllm-0.14": form(Arrays(8, 3)),
    "vllm-0.17": form(Arrays(9, 3)),
    "vllm-0.20": form(Arrays(10, 4)),
    "vllm-0.22": form(Arrays(12, 4)),
    "vllm-0.24": form(Maps(STORED[:-1], REMOVED[:-1])),
    "vllm-0.26": form(Maps(), topic_in_replay=True),
    "vllm-0.26-bytes32": form(Maps(), "bytes32", topic_in_replay=True),
    "vllm-0.26-bytes16": form(Maps(), "bytes16", topic_in_replay=True),
    "vllm-small-names": form(Maps(), "small", topic_in_replay=True),
    "vllm-batch-map": form(Maps(), batch=batch_map),
    "vllm-wide": form(Maps(), pack=wide),
    "vllm-arrays-wide": form(Arrays(12, 4), "signed", pack=wide),
    "vllm-tomorrow": form(Maps(more={"shards": [1, {"a": [None, 2.5]}], "epoch": "x"}), topic_in_replay=True),
    "sglang": form(SglangArrays(), "first", digest=sglang_digest, copies=False),
    "sglang-maps": form(Maps(STORED[:6], REMOVED[:2], {"session_id": "s"}, salt=True), "first", digest=sglang_digest,
                        copies=False),
    "llm-d": form(LlmdArrays(), copies=False),
    "trtllm": form(Maps(STORED[:7], REMOVED[:2]), "first", topic_in_replay=True, copies=False),
}


# The cache.

class Block:
    """The content that a name stands for.  The cache counts its physical copies."""

    def __init__(self, digest, parent, tokens, adapter, salt):
        self.digest, self.parent, self.tokens, self.adapter, self.salt = digest, parent, tokens, adapter, salt


class Cache:
    """Blocks on the GPU, in order of their last use, and blocks in host memory."""

    def __init__(self, block_tokens, capacity, digest, copies, seed=None):
        self.block_tokens, self.capacity, self.digest, self.copies = block_tokens, capacity, digest, copies
        self.seed = seed or os.urandom(32)
        self.ids = itertools.count()
        self.physical = collections.OrderedDict()  # id -> Block; the first is evicted first
        self.by_digest = collections.defaultdict(list)  # digest -> ids
        self.host = {}  # digest -> Block
        self.news = []  # (what, Block or blocks), as they happened

    def chain(self, prompt, adapter=None, salt=None):
        """The whole blocks of a prompt."""
        blocks, parent = [], None
        for begin in range(0, len(prompt) - self.block_tokens + 1, self.block_tokens):
            tokens = list(prompt[begin : begin + self.block_tokens])
            extra = [("adapter", adapter)] + ([("salt", salt)] if begin == 0 else [])
            digest = self.digest(parent, tokens, extra, self.seed)
            blocks.append(Block(digest, parent, tokens, adapter, salt if begin == 0 else None))
            parent = digest
        return blocks

    def has(self, block):
        return bool(self.by_digest.get(block.digest)) or block.digest in self.host

    def hit_blocks(self, prompt, adapter=None, salt=None):
        """The last token is always computed."""
        chain = self.chain(prompt, adapter, salt)[: (len(prompt) - 1) // self.block_tokens]
        return len(list(itertools.takewhile(self.has, chain)))

    def hit(self, prompt, adapter=None, salt=None):
        return self.hit_blocks(prompt, adapter, salt) * self.block_tokens

    def serve(self, prompt, adapter=None, salt=None):
        """Returns the tokens that were cached; afterwards all whole blocks of the prompt are."""
        chain = self.chain(prompt, adapter, salt)
        hits = self.hit_blocks(prompt, adapter, salt)
        used = [self.by_digest[block.digest][-1] if self.by_digest.get(block.digest) else None
                for block in chain[:hits]]
        pinned = {number for number in used if number is not None}
        stored = []
        for index, block in enumerate(chain):
            if index < hits and used[index] is not None:
                continue
            if not self.copies and self.by_digest.get(block.digest):
                continue
            if len(self.physical) >= self.capacity and not self.evict_oldest(pinned):
                break
            stored.append(block)
            pinned.add(self.add(block))
        self.tell_stored(stored)
        for block in reversed(chain):
            for number in self.by_digest.get(block.digest, []):
                if number in pinned:
                    self.physical.move_to_end(number)
        return hits * self.block_tokens

    def add(self, block):
        number = next(self.ids)
        self.physical[number] = block
        self.by_digest[block.digest].append(number)
        return number

    def tell_stored(self, stored):
        """One event for blocks that follow each other."""
        runs = []
        for block in stored:
            if runs and runs[-1][-1].digest == block.parent:
                runs[-1].append(block)
            else:
                runs.append([block])
        self.news += [("stored", run) for run in runs]

    def evict_oldest(self, pinned=()):
        for number in self.physical:
            if number not in pinned:
                self.evict(number)
                return True
        return False

    def evict(self, number):
        block = self.physical.pop(number)
        self.by_digest[block.digest].remove(number)
        self.news.append(("removed", [block]))

    def evict_block(self, prompt, index, adapter=None, salt=None):
        """All copies of one block of a prompt, wherever it stands."""
        block = self.chain(prompt, adapter, salt)[index]
        for number in list(self.by_digest[block.digest]):
            self.evict(number)

    def store_again(self, prompt, index):
        """Another copy of a block."""
        block = self.chain(prompt)[index]
        self.add(block)
        self.news.append(("stored", [block]))

    def offload(self, prompt, count, placeholder):
        """The first blocks are in host memory too."""
        blocks = [block for block in self.chain(prompt)[:count] if block.digest not in self.host]
        self.host.update((block.digest, block) for block in blocks)
        self.news += [("placeholder" if placeholder else "host", blocks)] if blocks else []

    def drop_host(self, prompt, index):
        block = self.chain(prompt)[index]
        del self.host[block.digest]
        self.news.append(("host_removed", [block]))

    def clear(self, silently=False):
        """The GPU's; host memory stays."""
        self.physical.clear()
        self.by_digest.clear()
        self.news += [] if silently else [("cleared", [])]


# The publisher.

CONTEXT = zmq.Context()


class Publisher:
    """Numbered messages on a PUB socket, the last ones again on a ROUTER socket.

    The socket is an XPUB, a PUB that also reports subscriptions: tests wait for these instead of
    sleeping.  Connects instead of binding when `connect` is an address.
    """

    def __init__(self, port=None, replay_port=None, topic=b"", buffer_steps=10000, topic_in_replay=False, connect=None,
                 first=0):
        self.port, self.replay_port, self.topic, self.connect = port, replay_port, topic, connect
        self.topic_in_replay = topic_in_replay
        self.first = self.number = first  # of the first message, and of the next
        self.drop = 0  # this many of the next messages are numbered, kept and not sent
        self.repeat = 0  # this many of the next messages are sent twice
        self.replay_fault = None  # "silent", "holes" (every second is left out) or "endless"
        self.replay_gate = None  # replays wait for this event after their second message
        self.replays = []  # replay requests
        self.buffer = collections.deque(maxlen=buffer_steps)
        self.lock = threading.Lock()
        self.live = None
        self.thread = None
        self.subscribed = 0

    def start(self):
        self.number = self.first
        self.buffer.clear()
        self.subscribed = 0
        self.stopping = threading.Event()
        self.live = CONTEXT.socket(zmq.XPUB)
        self.live.linger = 0
        self.live.sndhwm = 100000
        self.live.xpub_verboser = 1
        self.live.reconnect_ivl = 20
        if self.connect:
            self.live.connect(self.connect)
        else:
            bind(self.live, self.port)
        if self.replay_port:
            self.thread = threading.Thread(target=self.serve_replays, daemon=True)
            self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        if self.thread:
            self.thread.join()
            self.thread = None
        with self.lock:
            if self.live:
                self.live.close()
            self.live = None

    def restart(self):
        self.stop()
        self.start()

    def subscriptions(self):
        """Subscriptions since the start, including those that ended."""
        with self.lock:
            while self.live and self.live.poll(0, zmq.POLLIN):
                self.subscribed += self.live.recv()[:1] == b"\1"
            return self.subscribed

    def await_subscriber(self, before=0):
        harness.eventually(lambda: self.subscriptions() > before, "a new subscription", 10)

    def send(self, payload):
        """One message with the next number."""
        with self.lock:
            number = self.number
            self.number += 1
            self.buffer.append((number, payload))
            times = 0 if self.drop > 0 else 2 if self.repeat > 0 else 1
            self.drop -= self.drop > 0
            self.repeat -= times == 2
            for _ in range(times if self.live else 0):
                self.live.send_multipart([self.topic, number.to_bytes(8, "big"), payload])

    def send_frames(self, *frames):
        """Sends frames as they are."""
        with self.lock:
            self.live.send_multipart(frames)

    def serve_replays(self):
        router = CONTEXT.socket(zmq.ROUTER)
        router.linger = 0
        try:
            bind(router, self.replay_port)
            while not self.stopping.is_set():
                if router.poll(20):
                    self.serve_replay(router, router.recv_multipart())
        finally:
            router.close()

    def serve_replay(self, router, frames):
        if len(frames) != 3 or frames[1] != b"" or len(frames[2]) != 8:
            return  # an engine logs it
        first = int.from_bytes(frames[2], "big")
        fault = self.replay_fault  # first: a test may end the fault when it sees the request
        self.replays.append(first)
        if fault == "silent":
            return
        topic = [self.topic] if self.topic_in_replay else []
        # Nothing is published meanwhile.
        with contextlib.nullcontext() if self.replay_gate else self.lock:
            step = 2 if fault == "holes" else 1
            rows = [row for row in self.buffer if row[0] >= first][::step]
            for index, (number, payload) in enumerate(rows):
                if index == 2 and self.replay_gate:
                    self.replay_gate.wait(harness.within(10))
                router.send_multipart([frames[0], b"", *topic, number.to_bytes(8, "big"), payload])
            if fault != "endless":
                router.send_multipart([frames[0], b"", *([b""] if topic else []), END, b""])


def bind(sock, port):
    """A socket that was closed a moment ago may still have the port."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return sock.bind(port if isinstance(port, str) else f"tcp://127.0.0.1:{port}")
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


# The engine.

class Rank:
    """One cache and its publisher."""

    def __init__(self, engine, number, publisher):
        self.engine, self.number, self.publisher = engine, number, publisher
        self.is_secretive = False  # its messages tell nothing
        self.is_late = False  # the test publishes
        self.polled = []  # events for polling
        self.event_id = 0
        self.empty()

    def empty(self):
        engine = self.engine
        self.cache = Cache(engine.block_tokens, engine.blocks, engine.form.digest, engine.form.copies)
        self.partial = None  # the name of a block that is not full

    def name(self, digest):
        return None if digest is None else NAMES[self.engine.form.names](digest)

    # Turns changes of the cache into events.

    def stored(self, blocks, group=0, kind="full_attention", **more):
        first = blocks[0]
        extra = [[key for key in (block.adapter, block.salt) if key] or None for block in blocks]
        event = {"block_hashes": [self.name(block.digest) for block in blocks],
                 "parent_block_hash": self.name(first.parent),
                 "token_ids": [token for block in blocks for token in block.tokens],
                 "block_size": self.engine.block_tokens, "lora_id": 1 if first.adapter else None,
                 "medium": self.engine.medium, "lora_name": first.adapter, "extra_keys": extra, "group_idx": group,
                 "kv_cache_spec_kind": kind, "locality": "LOCAL", "salt": first.salt, **more}
        return self.engine.form.events.stored(event)

    def removed(self, blocks, group=0, **more):
        event = {"block_hashes": [self.name(block.digest) for block in blocks], "medium": self.engine.medium,
                 "group_idx": group, "locality": "LOCAL", **more}
        return self.engine.form.events.removed(event)

    def window_of(self, blocks):
        """The event of the sliding-window group, which keeps the last block of a range."""
        return self.stored(blocks, self.engine.window_group, "sliding_window", kv_cache_spec_sliding_window=128,
                           block_hashes=[self.name(blocks[-1].digest)], extra_keys=[None])

    def events_of(self, what, blocks):
        engine = self.engine
        group = engine.full_group
        if what == "stored":
            made = [self.stored(blocks, group)]
            return [self.window_of(blocks)] + made if engine.window_group is not None else made
        if what == "removed":
            made = [self.removed(blocks, group)]
            return [self.removed(blocks, engine.window_group)] + made if engine.window_group is not None else made
        if what == "placeholder":
            return [self.stored(blocks, group, block_size=0, token_ids=[], parent_block_hash=None, medium="CPU",
                                extra_keys=None)]
        if what == "host":
            return [self.stored(blocks, group, medium="CPU")]
        if what == "host_removed":
            return [self.removed(blocks, group, medium="CPU")]
        return [engine.form.events.cleared()]

    def json_of(self, what, blocks):
        """The same as TensorRT-LLM keeps it for polling."""
        if what == "removed":
            return {"type": "removed", "block_hashes": [self.name(block.digest) for block in blocks]}
        rows = [{"type": "stored_block", "block_hash": self.name(block.digest), "cache_level": 0, "priority": 35,
                 "tokens": [{"type": "unique_token", "token_id": token, "token_extra_id": 0} for token in block.tokens]}
                for block in blocks]
        return {"type": "stored", "parent_hash": self.name(blocks[0].parent), "blocks": rows}

    def publish(self):
        """Publishes all changes since the last time, in one message."""
        news, self.cache.news = self.cache.news, []
        if not news:
            return
        if self.engine.is_polled:
            for what, blocks in news:
                self.polled.append({"event_id": self.event_id, "data": self.json_of(what, blocks)})
                self.event_id += 1
            return
        told = [] if self.is_secretive else news  # a message comes all the same
        self.say(*(event for what, blocks in told for event in self.events_of(what, blocks)))

    def say(self, *events):
        """A message of these events, as they are."""
        self.publisher.send(self.engine.form.pack(self.engine.form.batch(list(events), self.number)))

    def serve(self, prompt, adapter=None, salt=None):
        cached = self.cache.serve(prompt, adapter, salt)
        if self.engine.partials:
            self.tell_partial(prompt)
        return cached

    def tell_partial(self, prompt):
        """A block that is not full yet; a full one removes it."""
        size = len(prompt) % self.engine.block_tokens
        events = []
        if self.partial:
            events.append(self.removed([self.partial]))
        self.partial = None
        if size:
            chain = self.cache.chain(prompt)
            digest = hashlib.sha256(repr(prompt).encode()).digest()
            self.partial = Block(digest, chain[-1].digest if chain else None, prompt[-size:], None, None)
            events.append(self.stored([self.partial], block_size=size))
        if events:
            self.say(*events)


class KvEngine:
    def __init__(self, http, form="vllm-0.26", block_tokens=16, blocks=64, ranks=1, port=None, replay=True, topic="",
                 buffer_steps=10000, connect=None, first=0, start=True, adapters=(), medium="GPU", full_group=0,
                 window_group=None, partials=False, polled=False, tells_size=False):
        self.http = http
        self.form_name, self.form = form, FORMS[form]
        self.block_tokens, self.blocks, self.medium = block_tokens, blocks, medium
        self.full_group, self.window_group, self.partials = full_group, window_group, partials
        self.is_polled = polled
        self.tells_size = tells_size
        self.adapters = set(adapters)
        self.gate = None  # responses wait for it, and events too
        self.port = port or free_ports(ranks)
        self.replay_port = free_ports(ranks) if replay and not polled else None
        self.ranks = [Rank(self, number, Publisher(
            self.port + number, self.replay_port and self.replay_port + number, topic.encode(), buffer_steps,
            self.form.topic_in_replay, connect, first)) for number in range(ranks)]
        http.respond("/v1/completions", self.begin)
        http.respond("/kv_cache_events", self.respond_to_poll)
        if adapters:
            http.respond("/v1/models", self.list_models)
        if tells_size:
            http.respond("/metrics", lambda _: [plain_response(200, self.metrics())])
        if start and not polled:
            self.start()

    @property
    def url(self):
        return self.http.url

    @property
    def endpoint(self):
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def replay(self):
        return self.replay_port and f"tcp://127.0.0.1:{self.replay_port}"

    @property
    def cache(self):
        return self.ranks[0].cache

    @property
    def publisher(self):
        return self.ranks[0].publisher

    # Start and stop.

    def start(self):
        for rank in self.ranks:
            rank.publisher.start()

    def stop(self):
        for rank in self.ranks:
            if rank.publisher.live:
                rank.publisher.stop()

    def restart(self, http=True):
        """Another process: numbers from 0, an empty cache, other names."""
        if http:
            self.http.stop()
        self.stop()
        for rank in self.ranks:
            rank.empty()
            rank.event_id, rank.polled = 0, []
        self.start()
        if http:
            self.http.start()

    def reset(self, silently=False):
        for rank in self.ranks:
            rank.cache.clear(silently)
            rank.publish()

    def subscriptions(self):
        return [rank.publisher.subscriptions() for rank in self.ranks]

    def await_subscribers(self, before=None):
        """Waits for one more subscription to each rank."""
        for rank, count in zip(self.ranks, before or [0] * len(self.ranks)):
            rank.publisher.await_subscriber(count)

    # The HTTP side.

    def begin(self, request):
        return [*([self.gate] if self.gate else []), self.complete]

    def complete(self, request):
        body = request.json()
        prompt = body["prompt"]
        adapter = body["model"] if body["model"] in self.adapters else None
        rank = self.ranks[int(request.header("x-data-parallel-rank", "0"))]
        cached = rank.serve(prompt, adapter, body.get("cache_salt"))
        if not rank.is_late:
            rank.publish()
        usage = {"prompt_tokens": len(prompt), "completion_tokens": 1, "total_tokens": len(prompt) + 1,
                 "prompt_tokens_details": {"cached_tokens": cached}}
        choice = {"index": 0, "text": "x", "finish_reason": "length"}
        return [json_response(200, {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": body["model"],
                                  "choices": [choice], "usage": usage})]

    def respond_to_poll(self, _request):
        rank = self.ranks[0]
        events, rank.polled = rank.polled, []
        return [json_response(200, events)]

    def list_models(self, _request):
        base = self.http.models[0]
        rows = [{"id": base, "object": "model", "created": 1, "owned_by": "vllm", "root": base, "parent": None}]
        rows += [{"id": adapter, "object": "model", "created": 1, "owned_by": "vllm", "root": f"/adapters/{adapter}",
                  "parent": base} for adapter in sorted(self.adapters)]
        return [json_response(200, {"object": "list", "data": rows})]

    def metrics(self):
        return "".join(
            f'vllm:cache_config_info{{block_size="{self.block_tokens}",engine="{rank.number}",'
            # The engine keeps one block for itself.
            f'num_gpu_blocks="{self.blocks + 1}"}} 1.0\n' for rank in self.ranks).encode()

    # For configurations.

    def row(self, **more):
        """A backend as one line of the file."""
        fields = {"url": self.url, "events": "poll" if self.is_polled else self.endpoint,
                  "events_replay": self.replay or "none"}
        if len(self.ranks) > 1:
            fields["ranks"] = len(self.ranks)
        return json.dumps({key: value for key, value in {**fields, **more}.items() if value is not None})


RUN_PORTS = 60  # of each process


def is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count):
    """The first of `count` free ports that follow each other.

    The ports of one process are not consecutive (harness.py), so these come from below them: each
    process has a range by its lane and goes through it, so that ports that are not bound yet are
    not given out again.
    """
    for _ in range(RUN_PORTS):
        at = free_ports.next if free_ports.next + count <= RUN_PORTS else 0
        free_ports.next = at + count
        first = 10000 + harness.lane_and_holder()[0] * RUN_PORTS + at
        if all(is_free(first + number) for number in range(count)):
            return first
    raise AssertionError(f"no {count} ports in a row are free")


free_ports.next = 0
