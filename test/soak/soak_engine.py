#!/usr/bin/env python3
"""A stand-in engine with faults, for the soak test: a program of its own, so that it can be killed.

    soak_engine.py --port 8001 --name a --journal FILE --seed 1

`POST /_fault` with `{"kind": ...}` begins a fault and `{"kind": null}` ends it; its kinds:

    stall     responses wait, before the head or between words, until the fault ends
    reset     connections are reset: before the head, right behind it, or between words
    storm     every request gets 500, 502, 503 or 504
    hole      every request gets a response without output at once; `form` names it
    loading   probes and requests get 503

The journal has a line for all that a judge needs to know about a request, written before the bytes:
time, event and request id.  Events: in (it arrived), out (the response is complete), death (reset
before a byte of the response), cut (reset behind the first), bad (5xx), refused (by a hole), and
altered (the body differs from the one that the client sent).
"""
import argparse
import asyncio
import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import content  # noqa: E402
from standin import (  # noqa: E402
    LAST_CHUNK, RESET, SSE_HEAD, Engine, Gate, chunk, event, head, json_response, plain_response)

ERROR = {"error": {"message": "soak hole", "type": "invalid_request_error", "param": None, "code": None}}
HOLES = {"400": (json_response(400, ERROR),), "404": (json_response(404, ERROR),),
         "empty 200": (head(200, "Content-Length: 0"),), "empty stream": (SSE_HEAD, LAST_CHUNK),
         "error stream": (SSE_HEAD, chunk(event(ERROR)), LAST_CHUNK)}
HOLE_BODIES = (b"", event(ERROR), json_response(400, ERROR).split(b"\r\n\r\n", 1)[1])


class SoakEngine(Engine):
    def __init__(self, name, port, journal, seed):
        super().__init__(name, (content.MODEL,), port=port)
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.rng = random.Random(seed)
        self.fault = {"kind": None}
        self.gate = Gate()

    def note(self, what, ask):
        os.write(self.journal, f"{time.monotonic():.6f} {what} {ask.id}\n".encode())

    def record_of(self, request):
        """Keeps nothing: a soak has more requests than memory."""
        return []

    def steps_for(self, request):
        if request.path == "/_fault":
            return [self.begin_fault(request.json())]
        if request.path == "/health" and self.fault["kind"] == "loading":
            return [plain_response(503, b"")]
        if request.path not in content.PATHS:
            return super().steps_for(request)
        return self.generate(request)

    def begin_fault(self, fault):
        self.fault = fault
        self.gate.open()
        self.gate = Gate()
        return json_response(200, {})

    def generate(self, request):
        body = request.json()
        ask = content.Ask(request.header("x-request-id"), request.path, body["stream"], body["max_tokens"],
                          len(request.body), body.get("soak_invalid", False))
        self.note("in", ask)
        if request.header("x-soak-digest") != content.body_digest(request.body):
            self.note("altered", ask)
        kind = self.fault["kind"]
        if kind in ("storm", "loading"):
            self.note("bad", ask)
            return [json_response(503 if kind == "loading" else self.rng.choice((500, 502, 503, 504)), ERROR)]
        if kind == "hole":
            self.note("refused", ask)
            return HOLES[self.fault["form"]]
        if kind == "reset":
            return self.reset_steps(ask)
        if ask.is_invalid:
            return [plain_response(400, content.invalid(ask), "Content-Type: application/json")]
        return self.good_steps(request, ask)

    def reset_steps(self, ask):
        pieces = [] if ask.is_invalid or self.rng.random() < 0.5 else self.pieces(ask)[:self.rng.randint(1, ask.count)]
        for piece in pieces:
            yield piece
            yield self.rng.uniform(0, 0.1)
        self.note("cut" if pieces else "death", ask)
        yield RESET

    @staticmethod
    def pieces(ask):
        """The response in the pieces in which it is written."""
        if not ask.streamed:
            body = content.whole(ask)
            return [head(200, "Content-Type: application/json", f"Content-Length: {len(body)}") + body[:1], body[1:]]
        return [SSE_HEAD, *(chunk(data) for data in content.events(ask)), LAST_CHUNK]

    def good_steps(self, request, ask):
        yield float(request.header("x-standin-delay", "0"))
        gap = float(request.header("x-standin-gap", "0"))
        pieces = self.pieces(ask)
        for number, piece in enumerate(pieces):
            if self.fault["kind"] == "stall" and self.rng.random() < 0.5:
                yield self.gate
            if number == len(pieces) - 1:
                self.note("out", ask)
            yield piece
            if 0 < number <= ask.count:
                yield gap


async def serve(arguments):
    engine = SoakEngine(arguments.name, arguments.port, arguments.journal, arguments.seed)
    await engine.listen()
    print(f"ready {engine.port}", flush=True)
    # The input ends with the soak, however that ends.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", required=True)
    parser.add_argument("--seed", required=True)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
