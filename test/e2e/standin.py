#!/usr/bin/env python3
"""A stand-in for an inference engine: sends scripted bytes and records the requests it gets.

It shares no code with the router, so that it cannot share its misreadings.  In a test it runs on a
thread of the test process; for `kill -9` it runs as a program of its own:

    standin.py --port 8001 --name a --models m1,m2

A response is a script: a list of steps for a path.

    engine.respond("/x", head(200, "Content-Length: 4"), b"ab", 0.5, b"cd")  # half a second between
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), chunk(b"abc"), RESET)
    engine.respond_once("/x", json_response(429, {}, "Retry-After: 1"))  # the next request only

Bytes are sent; a number is seconds to wait; a Gate waits until the test opens it; RESET, CLOSE and
STALL are ends; a function of the request gives more steps.  Paths without a script behave like an
engine with OpenAI's API.  A request may have the headers `x-standin-delay` (seconds before the
head),
`x-standin-gap` (seconds between events) and `x-standin-events` (their number).
"""
import argparse
import asyncio
import contextlib
import json
import re
import socket
import struct
import threading
import time

RESET = "reset"  # the connection ends with RST
CLOSE = "close"  # it ends with FIN, after all that was sent
STALL = "stall"  # sends nothing more until the other side leaves

TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP/(1\.[01])")


class Gate:
    """A step that waits for the test."""

    def __init__(self):
        self.is_open = False

    def open(self):
        self.is_open = True


def head(status, *lines, reason="Whatever"):
    """A response head of exactly these lines."""
    text = "".join(line + "\r\n" for line in (f"HTTP/1.1 {status} {reason}", *lines))
    return text.encode("latin-1") + b"\r\n"


def chunk(data, extension=b""):
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


LAST_CHUNK = b"0\r\n\r\n"


def plain_response(status, body, *lines):
    return head(status, *lines, f"Content-Length: {len(body)}") + body


def json_response(status, value, *lines):
    return plain_response(status, json.dumps(value).encode(), "Content-Type: application/json", *lines)


def event(value):
    return b"data: %s\n\n" % (value if isinstance(value, bytes) else json.dumps(value).encode())


SSE_HEAD = head(200, "Content-Type: text/event-stream", "Transfer-Encoding: chunked")


class Misuse(Exception):
    """The router sent invalid HTTP/1.1."""


class Request:
    """One request as it came over the wire."""

    def __init__(self, raw_head, connection_number):
        self.arrived_at = time.monotonic()
        self.connection = connection_number  # counts from 1 within an engine
        self.raw_head = raw_head
        self.body = b""
        self.chunk_sizes = None  # a list when the body came chunked
        self.trailers = []
        self.sent_at = []  # when each step of bytes was handed over
        self.sent_size = 0  # what the kernel took
        self.gone_at = None  # when the other side left before the response was complete
        self.responded_at = None
        self.gone = threading.Event()
        lines = raw_head[:-4].split(b"\r\n")
        first = REQUEST_LINE.fullmatch(lines[0])
        if not first:
            raise Misuse(f"request line {lines[0]!r}")
        self.method, self.target, self.version = (part.decode() for part in first.groups())
        self.headers = [parse_field(line) for line in lines[1:]]
        if len(self.all("host")) != 1:
            raise Misuse(f"Host headers: {self.all('host')}")
        if self.all("content-length") and self.all("transfer-encoding"):
            raise Misuse("both Content-Length and Transfer-Encoding")
        if len(self.all("content-length")) > 1:
            raise Misuse("several Content-Length")

    @property
    def path(self):
        return self.target.split("?")[0]

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name, default=None):
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else default

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.method} {self.target} {len(self.body)} bytes>"


def parse_field(line):
    name, colon, value = line.partition(b":")
    if not colon or not TOKEN.fullmatch(name):
        raise Misuse(f"header line {line!r}")
    if re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value):
        raise Misuse(f"control character in header line {line!r}")
    return name.decode("latin-1"), value.strip(b" \t").decode("latin-1")


class Connection(asyncio.Protocol):
    def __init__(self, engine):
        self.engine = engine
        self.buffer = bytearray()
        self.ended = False
        self.changed = asyncio.Event()
        self.writable = asyncio.Event()
        self.script = None
        self.request = None

    # Callbacks of asyncio.

    def connection_made(self, transport):
        self.transport = transport
        self.transport.set_write_buffer_limits(high=65536)
        self.writable.set()
        self.engine.accepted += 1
        self.number = self.engine.accepted
        self.engine.connections.add(self)
        self.task = asyncio.ensure_future(self.serve())

    def data_received(self, data):
        self.buffer += data
        if self.engine.slow_reader and self.request is None:
            self.transport.pause_reading()
        self.changed.set()

    def eof_received(self):
        self.end()
        return True

    def connection_lost(self, error):
        self.end()
        self.writable.set()
        self.engine.connections.discard(self)

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def end(self):
        self.ended = True
        self.changed.set()
        if self.script:
            self.script.cancel()

    # Requests and responses.

    async def serve(self):
        try:
            while await self.serve_one():
                pass
        except Misuse as error:
            self.engine.misuse.append(f"{error} (after {bytes(self.buffer[:200])!r})")
        finally:
            self.transport.close()

    async def serve_one(self):
        engine = self.engine
        raw_head = await self.take_through(b"\r\n\r\n")
        if raw_head is None:
            if self.buffer:
                engine.half_requests += 1
            return False
        request = Request(raw_head, self.number)
        engine.record_of(request).append(request)
        if request.path not in engine.early and not await self.take_body(request):
            engine.half_requests += 1
            request.gone_at = time.monotonic()
            request.gone.set()
            return False
        return await self.run_script(request)

    async def run_script(self, request):
        self.request = request
        engine = self.engine
        engine.open += 1
        engine.open_max = max(engine.open_max, engine.open)
        self.script = asyncio.ensure_future(self.play(request, engine.steps_for(request)))
        if self.ended:
            self.script.cancel()
        try:
            go_on = await self.script
            request.responded_at = time.monotonic()
            return go_on and not self.ended
        except asyncio.CancelledError:
            request.gone_at = time.monotonic()
            request.gone.set()
            return False
        finally:
            self.script = None
            self.request = None
            engine.open -= 1

    async def play(self, request, steps):
        for step in steps:
            if callable(step):
                if not await self.play(request, step(request)):
                    return False
            elif isinstance(step, (bytes, bytearray)):
                await self.send(request, step)
            elif isinstance(step, (int, float)):
                await asyncio.sleep(step)
            elif isinstance(step, Gate):
                while not step.is_open:
                    await asyncio.sleep(0.005)
            elif step == STALL:
                await asyncio.Event().wait()
            elif step == CLOSE:
                return False
            elif step == RESET:
                self.reset()
                return False
            else:
                raise TypeError(f"not a step: {step!r}")
        return True

    async def send(self, request, data):
        request.sent_at.append(time.monotonic())
        self.transport.write(data)
        request.sent_size += len(data)
        await self.writable.wait()

    def reset(self):
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # Reading.

    async def more(self):
        """False at the end of what comes."""
        if self.ended:
            return False
        self.changed.clear()
        if self.engine.slow_reader:
            await asyncio.sleep(0.01)
            self.transport.resume_reading()
        await self.changed.wait()
        return True

    async def take_through(self, mark):
        while (at := self.buffer.find(mark)) < 0:
            if not await self.more():
                return None
        taken = bytes(self.buffer[: at + len(mark)])
        del self.buffer[: at + len(mark)]
        return taken

    async def take(self, size):
        while len(self.buffer) < size:
            if not await self.more():
                return None
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    async def take_body(self, request):
        """False when the other side left within the body."""
        encoding = request.header("transfer-encoding")
        if encoding is not None:
            if encoding.lower() != "chunked":
                raise Misuse(f"Transfer-Encoding: {encoding}")
            return await self.take_chunked(request)
        length = request.header("content-length", "0")
        if not re.fullmatch("[0-9]+", length):
            raise Misuse(f"Content-Length: {length}")
        body = await self.take(int(length))
        request.body = body or b""
        return body is not None

    async def take_chunked(self, request):
        request.chunk_sizes = []
        parts = []
        while True:
            line = await self.take_through(b"\r\n")
            if line is None:
                return False
            size_text = line[:-2].split(b";")[0]
            if not re.fullmatch(rb"[0-9A-Fa-f]+", size_text):
                raise Misuse(f"chunk size line {line!r}")
            size = int(size_text, 16)
            if size == 0:
                break
            data = await self.take(size + 2)
            if data is None:
                return False
            if data[-2:] != b"\r\n":
                raise Misuse(f"chunk ends with {data[-2:]!r}")
            parts.append(data[:-2])
            request.chunk_sizes.append(size)
        request.body = b"".join(parts)
        while (line := await self.take_through(b"\r\n")) != b"\r\n":
            if line is None:
                return False
            request.trailers.append(parse_field(line[:-2]))
        return True


class Engine:
    """A listening stand-in.  start() and stop() may be called again and again: the port stays."""

    def __init__(self, name="engine", models=("test-model",), host="127.0.0.1", port=0, tls=None):
        self.name = name
        self.models = list(models)
        self.host = host
        self.port = port
        self.tls = tls
        self.health_status = 200
        self.slow_reader = False  # True: reads request bodies in small pieces
        self.early = set()  # paths whose script begins before the body was read
        self.scripts = {}
        self.scripts_once = {}
        self.requests = []
        self.probes = []  # /health and /v1/models
        self.scrapes = []  # /metrics, which exists only if a test scripts it
        self.misuse = []  # received bytes that are invalid HTTP/1.1
        self.half_requests = 0  # connections that ended within a request
        self.accepted = 0
        self.connections = set()
        self.open = 0
        self.open_max = 0
        self.server = None

    @property
    def url(self):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"

    def respond(self, path, *steps):
        self.scripts[path] = steps

    def respond_once(self, path, *steps):
        self.scripts_once.setdefault(path, []).append(steps)

    def targets(self):
        return [request.target for request in list(self.requests)]

    # On the event loop.

    async def listen(self):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(
            lambda: Connection(self), self.host, self.port, ssl=self.tls, backlog=1024)
        self.port = self.server.sockets[0].getsockname()[1]

    async def leave(self, reset=False):
        if self.server:
            self.server.close()
            self.server = None
        for connection in list(self.connections):
            if reset:
                connection.reset()
            else:
                # asyncio's TLS transport forgets its protocol when it is already gone.
                with contextlib.suppress(AttributeError):
                    connection.transport.abort()

    async def drop_idle(self):
        for connection in list(self.connections):
            if connection.request is None:
                connection.transport.close()

    # From the test's thread.

    def start(self):
        on_loop(self.listen())
        return self

    def stop(self, reset=False):
        on_loop(self.leave(reset))

    def close_idle_connections(self):
        on_loop(self.drop_idle())

    # Scripts and responses.

    def record_of(self, request):
        if request.method == "GET" and request.path in ("/health", "/v1/models"):
            return self.probes
        if request.method == "GET" and request.path in ("/metrics", "/prometheus/metrics"):
            return self.scrapes
        return self.requests

    def steps_for(self, request):
        once = self.scripts_once.get(request.path)
        if once:
            return once.pop(0)
        if request.path in self.scripts:
            return self.scripts[request.path]
        return self.openai_steps(request)

    def openai_steps(self, request):
        delay = float(request.header("x-standin-delay", "0"))
        if request.path == "/health":
            return [plain_response(self.health_status, b"")]
        if request.path == "/v1/models":
            rows = [{"id": m, "object": "model", "created": 1, "owned_by": self.name} for m in self.models]
            return [json_response(200, {"object": "list", "data": rows})]
        if request.path in ("/metrics", "/prometheus/metrics"):
            return [plain_response(404, b"")]
        if request.method == "HEAD":
            return [delay, head(200, "Content-Length: 1234", "X-Engine: " + self.name)]
        if request.path not in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            echo = {"engine": self.name, "method": request.method, "target": request.target,
                    "size": len(request.body)}
            return [delay, json_response(200, echo, "X-Engine: " + self.name)]
        try:
            body = json.loads(request.body)
        except ValueError:
            error = {"message": "not JSON", "type": "BadRequestError", "param": None, "code": 400}
            return [delay, json_response(400, {"error": error})]
        if request.path == "/v1/embeddings":
            return [delay, json_response(200, self.embeddings(body))]
        count = int(request.header("x-standin-events", body.get("max_tokens") or 3))
        if body.get("stream"):
            gap = float(request.header("x-standin-gap", "0"))
            return [delay, *self.event_steps(request, body, count, gap)]
        return [delay, json_response(200, self.completion(request, body, count))]

    def words(self, count):
        return [f"{self.name}-{number} " for number in range(count)]

    def usage(self, count):
        return {"prompt_tokens": 7, "completion_tokens": count, "total_tokens": 7 + count}

    def embeddings(self, body):
        inputs = body["input"] if isinstance(body["input"], list) else [body["input"]]
        rows = [{"object": "embedding", "index": i, "embedding": [0.25, -0.5, float(len(text))]}
                for i, text in enumerate(inputs)]
        return {"object": "list", "model": body.get("model"), "data": rows,
                "usage": {"prompt_tokens": 7, "total_tokens": 7}}

    def completion(self, request, body, count):
        text = "".join(self.words(count))
        chat = request.path == "/v1/chat/completions"
        choice = {"index": 0, "finish_reason": "stop"}
        choice.update({"message": {"role": "assistant", "content": text}} if chat else {"text": text})
        return {"id": "cmpl-1", "object": "chat.completion" if chat else "text_completion", "created": 1,
                "model": body.get("model"), "choices": [choice], "usage": self.usage(count)}

    def event_steps(self, request, body, count, gap):
        chat = request.path == "/v1/chat/completions"
        base = {"id": "cmpl-1", "object": "chat.completion.chunk" if chat else "text_completion", "created": 1,
                "model": body.get("model")}
        yield SSE_HEAD
        for number, word in enumerate(self.words(count)):
            choice = {"index": 0, "finish_reason": "stop" if number == count - 1 else None}
            choice.update({"delta": {"role": "assistant", "content": word}} if chat else {"text": word})
            if number and gap:
                yield gap
            yield chunk(event({**base, "choices": [choice]}))
        if (body.get("stream_options") or {}).get("include_usage"):
            yield chunk(event({**base, "choices": [], "usage": self.usage(count)}))
        yield chunk(event(b"[DONE]")) + LAST_CHUNK


class BlackHole:
    """An address where connecting never succeeds: a listener whose queue is full."""

    def __init__(self):
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(0)
        self.port = self.sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.fillers = []
        while len(self.fillers) < 8:
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self.fillers.append(filler)

    def stop(self):
        for sock in (*self.fillers, self.sock):
            sock.close()


class LoopThread:
    """One event loop for all stand-ins of the process."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()


LOOP_THREAD = None


def on_loop(coroutine):
    global LOOP_THREAD
    if LOOP_THREAD is None:
        LOOP_THREAD = LoopThread()
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP_THREAD.loop).result(10)


async def run_alone(arguments):
    engine = Engine(arguments.name, arguments.models.split(","), arguments.host, arguments.port)
    await engine.listen()
    print(f"ready {engine.port}", flush=True)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--name", default="engine")
    parser.add_argument("--models", default="test-model")
    try:
        asyncio.run(run_alone(parser.parse_args()))
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
