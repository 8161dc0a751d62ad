#!/usr/bin/env python3
"""A stand-in inference engine with a real prefix cache, which reports its real hits.

Where standin.py sends scripted bytes, this one behaves as an engine.  It has a tokenizer and a chat
template of its own, keeps KV blocks by the rules of vLLM, and computes one prompt at a time, first
come first served.  Computing takes time; cached tokens cost nothing.  It shares no code with the
router, so a prefix that both consider equal really is equal.

    engine.py --lifetime 120 '{"name": "a", "port": 9001}' \\
                             '{"name": "b", "port": 9002, "cache_blocks": 500}'

runs several engines in one process, until its input ends or its lifetime is over.  Besides OpenAI's
API, /health and /metrics it has, for tests:

    GET /_counters    counts since the start
    GET /_log         a row for each request that it began to compute
    POST /_flush      forgets all blocks that no running request uses
"""
import argparse
import asyncio
import collections
import hashlib
import json
import sys
import time

import standin
from standin import LAST_CHUNK, SSE_HEAD, chunk, event, json_response, plain_response

BLOCK_TOKENS = 16

# Tokens are byte strings of one size.  This byte does not occur in UTF-8, so no text can spell a
# marker.
MARK = b"\xff"


class BadRequest(Exception):
    """The body is invalid for this path."""


class Tokenizer:
    """Cuts text into tokens of `size` bytes, starting again after each marker, as special tokens do
    in real tokenizers.
    """

    def __init__(self, size=4):
        assert size >= 3
        self.size = size

    def text(self, text):
        data = text.encode("utf-8", "surrogatepass")
        return data + b" " * (-len(data) % self.size)

    def marker(self, name):
        return (MARK + name.encode()).ljust(self.size)[: self.size]

    def ids(self, ids):
        """Ids stand for tokens of their own: no text is made of them here."""
        if not all(isinstance(number, int) and 0 <= number < 1 << 16 for number in ids):
            raise BadRequest("token ids are numbers below 65536")
        return b"".join((MARK + number.to_bytes(2, "big")).rjust(self.size, MARK) for number in ids)

    def content(self, content):
        if content is None:
            return b""
        if isinstance(content, str):
            return self.text(content)
        if not isinstance(content, list):
            raise BadRequest("content is a text or a list of parts")
        parts = []
        for part in content:
            if not isinstance(part, dict):
                raise BadRequest("a part of the content is an object")
            if isinstance(part.get("text"), str):
                parts.append(self.text(part["text"]))
            else:
                parts.append(self.marker("img") + self.text(json.dumps(part, sort_keys=True)))
        return b"".join(parts)

    def message(self, message):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest("a message is an object with a role")
        calls = message.get("tool_calls")
        return (self.marker(message["role"]) + self.content(message.get("content"))
                + (self.marker("call") + self.text(json.dumps(calls)) if calls else b"") + self.marker("end"))

    def chat(self, messages, tools=None):
        """Tools first, then the turns, then the generation prompt."""
        if not isinstance(messages, list) or not messages:
            raise BadRequest("messages is a list with something in it")
        head = self.marker("tools") + self.text(json.dumps(tools)) if tools else b""
        return head + b"".join(map(self.message, messages)) + self.marker("assistant")

    def prompts(self, prompt):
        """The prompts of a completion: a text, texts, token ids, or lists of them."""
        if isinstance(prompt, str):
            return [self.text(prompt)]
        if not isinstance(prompt, list) or not prompt:
            raise BadRequest("prompt is a text, token ids, or a list of these")
        if isinstance(prompt[0], int):
            return [self.ids(prompt)]
        if not all(isinstance(one, (str, list)) for one in prompt):
            raise BadRequest("several prompts are texts or lists of token ids")
        return [self.text(one) if isinstance(one, str) else self.ids(one) for one in prompt]


def chain(last, data, block_size):
    """The keys of the whole blocks of `data`; each key stands for everything before its block too.
    """
    keys = []
    for at in range(0, len(data) - block_size + 1, block_size):
        last = hashlib.blake2b(last + data[at : at + block_size], digest_size=16).digest()
        keys.append(last)
    return keys


class Block:
    __slots__ = ("key", "users")

    def __init__(self):
        self.key = None
        self.users = 0


class Cache:
    """The KV blocks of an engine.

    A block without a user keeps its content until its space is needed.  Blocks without a key, which
    no request can use, are evicted first, then the least recently released.  A request releases its
    last block first, so of equally old blocks the end of a prompt is evicted before its prefix.
    Equal blocks are not merged: a lookup finds the oldest.
    """

    def __init__(self, block_count):
        self.block_count = block_count
        self.blank = [Block() for _ in range(block_count)]
        self.idle = collections.OrderedDict()  # blocks with a key and no user, oldest first
        self.table = {}  # key -> its blocks, oldest first
        self.promised = 0  # blocks that running requests have yet to take

    @property
    def free_count(self):
        return len(self.blank) + len(self.idle)

    def match(self, keys, token_count):
        """The cached prefix.  The last token is always computed, since the first output depends on
        it.
        """
        found = []
        for key in keys[: (token_count - 1) // BLOCK_TOKENS]:
            blocks = self.table.get(key)
            if not blocks:
                break
            found.append(blocks[0])
        return found

    def use(self, block):
        if block.users == 0:
            del self.idle[block]
        block.users += 1

    def take(self):
        """A block for new content.  Callers have checked that one is free."""
        if self.blank:
            block = self.blank.pop()
        else:
            block, _ = self.idle.popitem(last=False)
            self.forget(block)
        block.users = 1
        return block

    def name(self, block, key):
        """The block is full: from now on it can be found."""
        block.key = key
        self.table.setdefault(key, []).append(block)

    def forget(self, block):
        same = self.table[block.key]
        same.remove(block)
        if not same:
            del self.table[block.key]
        block.key = None

    def release(self, blocks):
        for block in reversed(blocks):
            block.users -= 1
            if block.users == 0 and block.key is None:
                self.blank.append(block)
            elif block.users == 0:
                self.idle[block] = None

    def flush(self):
        while self.idle:
            block, _ = self.idle.popitem(last=False)
            self.forget(block)
            self.blank.append(block)


class Sequence:
    """One prompt on its way through a cache: admitted, extended token by token, released."""

    def __init__(self, seed, data, token_size, output_count):
        self.token_size = token_size
        self.block_size = BLOCK_TOKENS * token_size
        self.keys = chain(seed, data, self.block_size)
        self.last_key = self.keys[-1] if self.keys else seed
        self.tail = data[len(self.keys) * self.block_size :]  # of the block that is not full
        self.prompt_count = len(data) // token_size
        self.output_count = output_count
        self.block_need = -(-(self.prompt_count + output_count) // BLOCK_TOKENS)  # to the very end
        self.cached_count = 0
        self.blocks = []
        self.promised = 0
        self.arrived_at = 0.0  # these two are the engine's
        self.started = None

    def admit(self, cache):
        """Finds the cached prefix and takes blocks for the rest of the prompt; later requests can
        hit these at once.

        False when too few blocks are free, those for the response included: unlike a real engine,
        this one never preempts a request.
        """
        found = cache.match(self.keys, self.prompt_count)
        from_idle = sum(block.users == 0 for block in found)
        if cache.free_count - from_idle - cache.promised < self.block_need - len(found):
            return False
        for block in found:
            cache.use(block)
        self.cached_count = BLOCK_TOKENS * len(found)
        self.blocks = found
        for key in self.keys[len(found) :]:
            self.blocks.append(cache.take())
            cache.name(self.blocks[-1], key)
        if self.tail:
            self.blocks.append(cache.take())
        self.promised = self.block_need - len(self.blocks)
        cache.promised += self.promised
        return True

    def extend(self, cache, token):
        """A token of the response was fed back: its keys and values are computed."""
        if not self.tail:
            self.blocks.append(cache.take())
            self.promised -= 1
            cache.promised -= 1
        self.tail += token
        if len(self.tail) == self.block_size:
            self.last_key = chain(self.last_key, self.tail, self.block_size)[0]
            cache.name(self.blocks[-1], self.last_key)
            self.tail = b""

    def release(self, cache):
        cache.release(self.blocks)
        cache.promised -= self.promised
        self.blocks, self.promised = [], 0

    def response_tokens(self):
        """The response tokens for this prompt: the same at any time and in any engine."""
        size = self.output_count * self.token_size
        text = hashlib.shake_256(self.last_key + self.tail).hexdigest(size // 2 + 1)
        return [text[at : at + self.token_size] for at in range(0, size, self.token_size)]


def seed_of(model, salt=None):
    """The key by which caches are separate."""
    return hashlib.blake2b(json.dumps([model, salt]).encode(), digest_size=16).digest()


def number_of(body, *names, default):
    for name in names:
        if body.get(name) is not None:
            if not isinstance(body[name], int) or body[name] < 1:
                raise BadRequest(f"{name} is a number above 0")
            return body[name]
    return default


def sequences_of(path, body, tokenizer):
    """The prompts of a body, ready for a cache."""
    if path == "/v1/chat/completions":
        prompts = [tokenizer.chat(body.get("messages"), body.get("tools"))]
    else:
        prompts = tokenizer.prompts(body.get("prompt"))
    count = number_of(body, "max_completion_tokens", "max_tokens", default=16)
    seed = seed_of(body.get("model"), body.get("cache_salt"))
    sequences = [Sequence(seed, data, tokenizer.size, count) for data in prompts]
    if any(sequence.prompt_count == 0 for sequence in sequences):
        raise BadRequest("the prompt is empty")
    return sequences


def replay(cache, path, body, tokenizer):
    """(prompt tokens, cached tokens) of a request on an otherwise idle cache."""
    prompt_count = cached_count = 0
    for sequence in sequences_of(path, body, tokenizer):
        assert sequence.admit(cache), "the prompt is larger than the cache"
        for token in sequence.response_tokens()[:-1]:
            sequence.extend(cache, token.encode())
        sequence.release(cache)
        prompt_count += sequence.prompt_count
        cached_count += sequence.cached_count
    return prompt_count, cached_count


class EngineConnection(standin.Connection):
    async def play(self, request, steps):
        try:
            async for data in steps:
                await self.send(request, data)
        finally:
            await steps.aclose()
            request.body = b""  # thousands of them would add up
        return True


class Engine(standin.Engine):
    """A listening engine.  Times are in seconds."""

    def __init__(self, name="engine", models=("test-model",), port=0, cache_blocks=2000, prefill_speed=200_000,
                 step=0.002, max_sequences=64, stream_interval=1, report_cached=True, token_size=4):
        super().__init__(name, models, port=port)
        self.cache = Cache(cache_blocks)
        self.tokenizer = Tokenizer(token_size)
        self.prefill_speed = prefill_speed  # tokens a second
        self.step = step  # between two tokens of a response
        self.max_sequences = max_sequences
        self.stream_interval = stream_interval  # tokens in an event, but for the first
        self.report_cached = report_cached
        self.waiting = collections.deque()
        self.running = 0
        self.changed = asyncio.Event()
        self.log = []
        self.aborted = 0

    async def listen(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: EngineConnection(self), self.host, self.port, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]
        self.scheduler = asyncio.ensure_future(self.schedule())

    # Computing.

    async def schedule(self):
        """Prompts, one at a time, first come first served."""
        busy_until = 0.0
        while True:
            sequence = self.admit_first()
            if sequence is None:
                self.changed.clear()
                await self.changed.wait()
                continue
            # Timers are late on a busy machine.  A prompt without a pause before it begins when the
            # last one should have ended, so that delays do not add up.
            begin = max(busy_until, sequence.arrived_at, time.monotonic() - 0.02)
            busy_until = begin + (sequence.prompt_count - sequence.cached_count) / self.prefill_speed
            await asyncio.sleep(max(0.0, busy_until - time.monotonic()))
            if not sequence.started.done():
                sequence.started.set_result(busy_until)

    def admit_first(self):
        """The next prompt to compute, if it fits; prompts do not overtake each other."""
        if not self.waiting or self.running >= self.max_sequences or not self.waiting[0].admit(self.cache):
            return None
        self.running += 1
        return self.waiting.popleft()

    def enqueue(self, sequence):
        sequence.arrived_at = time.monotonic()
        sequence.started = asyncio.get_running_loop().create_future()
        self.waiting.append(sequence)
        self.changed.set()

    def leave_queue(self, sequence):
        """However it ended."""
        if sequence.blocks:
            sequence.release(self.cache)
            self.running -= 1
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        self.changed.set()

    async def tokens(self, sequences, row):
        """Yields (index, tokens, is_last) as they come."""
        responses = [sequence.response_tokens() for sequence in sequences]
        try:
            for sequence in sequences:
                self.enqueue(sequence)
            begin = max([await sequence.started for sequence in sequences])
            row["cached_tokens"] = sum(sequence.cached_count for sequence in sequences)
            row["first_token_at"] = time.monotonic()
            count, done = len(responses[0]), 0
            while done < count:
                upto = min(count, done + self.stream_interval) if done else 1
                await asyncio.sleep(max(0.0, begin + (upto - 1) * self.step - time.monotonic()))
                for index, (sequence, response) in enumerate(zip(sequences, responses)):
                    # The last token of all is never fed back.
                    for token in response[max(0, done - 1) : upto - 1]:
                        sequence.extend(self.cache, token.encode())
                    yield index, response[done:upto], upto == count
                done = upto
                row["output_tokens"] = done * len(sequences)
        finally:
            for sequence in sequences:
                self.leave_queue(sequence)

    # Speaking.

    def steps_for(self, request):
        return self.response_to(request)

    async def response_to(self, request):
        if request.path == "/health":
            yield plain_response(self.health_status, b"")
        elif request.path == "/v1/models":
            rows = [{"id": m, "object": "model", "created": 1, "owned_by": self.name} for m in self.models]
            yield json_response(200, {"object": "list", "data": rows})
        elif request.path == "/metrics":
            yield plain_response(200, self.metrics().encode(), "Content-Type: text/plain; version=0.0.4")
        elif request.path == "/_counters":
            yield json_response(200, self.counters())
        elif request.path == "/_log":
            yield json_response(200, self.log)
        elif request.path == "/_flush":
            self.cache.flush()
            yield json_response(200, {"success": True})
        elif request.path in ("/v1/chat/completions", "/v1/completions"):
            async for data in self.response_of_openai(request):
                yield data
        else:
            yield json_response(404, {"detail": "Not Found"})

    async def response_of_openai(self, request):
        row = {"id": request.header("x-request-id"), "at": request.arrived_at, "path": request.path, "status": 200,
               "size": len(request.body), "digest": hashlib.sha256(request.body).hexdigest(), "prompt_tokens": 0,
               "cached_tokens": 0, "output_tokens": 0, "done": False}
        self.log.append(row)
        try:
            body = self.read_body(request, row)
            sequences = sequences_of(request.path, body, self.tokenizer)
            if any(sequence.block_need > self.cache.block_count for sequence in sequences):
                raise BadRequest("the prompt is too long")
        except LookupError as error:
            yield self.refuse(row, 404, "NotFoundError", error.args[0])
            return
        except BadRequest as error:
            yield self.refuse(row, 400, "BadRequestError", str(error))
            return
        row["prompt_tokens"] = sum(sequence.prompt_count for sequence in sequences)
        say = self.stream if body.get("stream") else self.say_at_once
        try:
            async for data in say(request, body, sequences, row):
                yield data
            row["done"] = True
        finally:
            self.aborted += not row["done"]

    def refuse(self, row, status, kind, message):
        row["status"] = status
        error = {"message": message, "type": kind, "param": None, "code": status}
        return json_response(status, {"error": error}, "X-Engine: " + self.name)

    def read_body(self, request, row):
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"not JSON: {error}") from None
        if not isinstance(body, dict):
            raise BadRequest("the body is an object")
        if body.get("model") not in (None, *self.models):
            raise LookupError(f"The model {body['model']!r} does not exist.")
        options = body.get("stream_options")
        row.update(model=body.get("model"), salt=body.get("cache_salt"), stream=bool(body.get("stream")),
                   asks_usage=bool(isinstance(options, dict) and options.get("include_usage")))
        return body

    def usage(self, row):
        details = {"cached_tokens": row["cached_tokens"]} if self.report_cached else None
        return {"prompt_tokens": row["prompt_tokens"], "completion_tokens": row["output_tokens"],
                "total_tokens": row["prompt_tokens"] + row["output_tokens"], "prompt_tokens_details": details}

    def base(self, request, body, sequences, kinds):
        chat = request.path == "/v1/chat/completions"
        return {"id": ("chatcmpl-" if chat else "cmpl-") + sequences[0].last_key.hex(),
                "object": kinds[0] if chat else kinds[1], "created": 1, "model": body.get("model") or self.models[0]}

    async def say_at_once(self, request, body, sequences, row):
        base = self.base(request, body, sequences, ("chat.completion", "text_completion"))
        texts = [""] * len(sequences)
        async for index, tokens, _ in self.tokens(sequences, row):
            texts[index] += "".join(tokens)
        chat = request.path == "/v1/chat/completions"
        choices = [{"index": index, **({"message": {"role": "assistant", "content": text}} if chat else {"text": text}),
                    "finish_reason": "length"} for index, text in enumerate(texts)]
        yield json_response(200, {**base, "choices": choices, "usage": self.usage(row)}, "X-Engine: " + self.name)

    async def stream(self, request, body, sequences, row):
        """The head goes out at once; the first event comes with the first token."""
        base = self.base(request, body, sequences, ("chat.completion.chunk", "text_completion"))
        chat = request.path == "/v1/chat/completions"
        said = set()
        yield SSE_HEAD
        async for index, tokens, is_last in self.tokens(sequences, row):
            text = "".join(tokens)
            piece = {"delta": {"content": text}} if chat else {"text": text}
            if chat and index not in said:
                said.add(index)
                first = {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
                yield chunk(event({**base, "choices": [first]}))
            choice = {"index": index, **piece, "finish_reason": "length" if is_last else None}
            yield chunk(event({**base, "choices": [choice]}))
        if row["asks_usage"]:
            yield chunk(event({**base, "choices": [], "usage": self.usage(row)}))
        yield chunk(event(b"[DONE]")) + LAST_CHUNK

    def counters(self):
        served = [row for row in self.log if row["status"] == 200]
        models = {row["model"] for row in served}
        keys = ("prompt_tokens", "cached_tokens", "output_tokens")
        by_model = {model: {key: sum(row[key] for row in served if row["model"] == model) for key in keys}
                    for model in models}
        return {"name": self.name, "requests": len(served), "running": self.running, "waiting": len(self.waiting),
                "aborted": self.aborted, "misuse": self.misuse, "open": self.open,
                "free_blocks": self.cache.free_count, "all_blocks": self.cache.block_count, "by_model": by_model,
                **{key: sum(row[key] for row in served) for key in keys}}

    def metrics(self):
        cache = self.cache
        labels = f'engine="0",model_name="{self.models[0]}"'
        numbers = self.counters()
        rows = [
            ("num_requests_running", "gauge", labels, self.running),
            ("num_requests_waiting", "gauge", labels, len(self.waiting)),
            ("kv_cache_usage_perc", "gauge", labels, 1 - cache.free_count / cache.block_count),
            ("prefix_cache_queries_total", "counter", labels, numbers["prompt_tokens"]),
            ("prefix_cache_hits_total", "counter", labels, numbers["cached_tokens"]),
            ("prompt_tokens_total", "counter", labels, numbers["prompt_tokens"]),
            ("generation_tokens_total", "counter", labels, numbers["output_tokens"]),
            ("cache_config_info", "gauge", f'block_size="{BLOCK_TOKENS}",enable_prefix_caching="True",engine="0",'
             f'num_gpu_blocks="{cache.block_count}"', 1.0),
        ]
        return "".join(f"# HELP vllm:{name} {name}.\n# TYPE vllm:{name} {kind}\nvllm:{name}{{{labels}}} {value}\n"
                       for name, kind, labels, value in rows)


async def run_alone(arguments):
    engines = [Engine(**json.loads(text)) for text in arguments.engines]
    for engine in engines:
        await engine.listen()
    print("ready", *(engine.port for engine in engines), flush=True)
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(sys.stdin, lambda: over.done() or over.set_result(None))  # the parent has gone
    loop.call_later(arguments.lifetime, lambda: over.done() or over.set_result(None))
    await over


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lifetime", type=float, default=300, help="seconds")
    parser.add_argument("engines", nargs="+", help="options of an engine, as JSON")
    asyncio.run(run_alone(parser.parse_args()))


if __name__ == "__main__":
    main()
