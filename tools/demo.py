#!/usr/bin/env python3
"""A router in front of two stand-in engines, on this machine: what `make run` shows.

    tools/demo.py build/release/warmpath          runs until Ctrl-C or SIGTERM, then drains
    tools/demo.py build/release/warmpath --once   sends one streaming request itself and ends

The engines speak enough of OpenAI's API for a client to be happy and say one word at a time, so that
streaming can be seen.  Each takes its time over what is new to it in a prompt and none over a beginning that it
has seen before, as engines with a prefix cache do.  Python's standard library alone.
"""
import argparse
import collections
import contextlib
import http.client
import http.server
import json
import os.path
import signal
import socket
import subprocess
import sys
import threading
import time

HOST = "127.0.0.1"
MODEL = "demo"
PACE_S = 0.12  # between two words
START_S = 10  # for the router to answer its first request
DRAIN_S = 10  # for answers that are under way when it is told to stop
BYTES_PER_TOKEN = 4
TOKENS_PER_S = 1000  # of prompts; slow enough to be felt
PREFILL_MAX_S = 3
CACHED_PROMPTS = 64  # that an engine remembers
TOKEN = "demo"  # of the admin API
WORDS = ("This is engine {name}. One word at a time, each in an event of its own, it passes through "
         "the router the moment it is said. A prompt that begins like this one will come here again.")


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a stand-in engine; the server's `name` says which."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        if self.path == "/health":
            self.answer(200, {"status": "ok"})
        elif self.path == "/v1/models":
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "warmpath"}
            self.answer(200, {"object": "list", "data": [model]})
        else:
            self.refuse(404, "there is nothing at this path")

    def do_POST(self):
        if "content-length" not in self.headers:
            self.close_connection = True  # what follows would have to be understood to be skipped
            self.refuse(411, "a content-length is needed")
            return
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path != "/v1/chat/completions":
            self.refuse(404, "there is nothing at this path")
            return
        try:
            request = json.loads(body)
            stream = bool(request.get("stream"))
        except (ValueError, AttributeError):
            self.refuse(400, "the body is not a JSON object")
            return
        words = WORDS.format(name=self.server.name).split(" ")
        usage = self.prefill(json.dumps(request.get("messages")))
        if stream:
            self.stream(words)
        else:
            self.complete(words, usage)

    def prefill(self, prompt):
        """Takes as long as what is new in it; what an engine tells of it afterwards."""
        seen = self.server.prompts
        cached = max((len(os.path.commonprefix([prompt, old])) for old in list(seen)), default=0)
        seen.append(prompt)
        time.sleep(min((len(prompt) - cached) / BYTES_PER_TOKEN / TOKENS_PER_S, PREFILL_MAX_S))
        return {"prompt_tokens": len(prompt) // BYTES_PER_TOKEN,
                "prompt_tokens_details": {"cached_tokens": cached // BYTES_PER_TOKEN}}

    def complete(self, words, usage):
        time.sleep(PACE_S * 4)
        usage = {**usage, "completion_tokens": len(words), "total_tokens": usage["prompt_tokens"] + len(words)}
        message = {"role": "assistant", "content": " ".join(words)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        self.answer(200, {**head_of("chat.completion"), "choices": [choice], "usage": usage})

    def stream(self, words):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for index, word in enumerate(words):
            self.say({"content": word if index == 0 else " " + word}, None)
            time.sleep(PACE_S)
        self.say({}, "stop")
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def say(self, delta, finish_reason):
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        event = {**head_of("chat.completion.chunk"), "choices": [choice]}
        self.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, message):
        self.answer(status, {"error": {"message": message, "type": "invalid_request_error", "param": None,
                                       "code": None}})

    def handle(self):
        with contextlib.suppress(ConnectionError):  # the router hung up: its client did
            super().handle()

    def log_message(self, *_):
        pass


def head_of(kind):
    return {"id": "chatcmpl-demo", "object": kind, "created": int(time.time()), "model": MODEL}


class Engine(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, name):
        super().__init__((HOST, 0), Handler)
        self.name = name
        self.prompts = collections.deque(maxlen=CACHED_PROMPTS)
        self.url = f"http://{HOST}:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


def port_is_free(port):
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port):
    connection = http.client.HTTPConnection(HOST, port, timeout=1)
    try:
        connection.request("GET", "/v1/models")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def free_port(first):
    return next((port for port in range(first, first + 100) if port_is_free(port)), None)


def start_router(binary, engines, port, admin_port):
    """The router on that port once it answers; None when it ended instead."""
    command = [binary, "serve", "--listen", f"{HOST}:{port}", "--workers", "1", "--log-level", "warn",
               "--timeouts-drain", f"{DRAIN_S}s", "--admin-listen", f"{HOST}:{admin_port}", "--admin-token", TOKEN]
    for engine in engines:
        command += ["--backend", engine.url]
    # A process group of its own: Ctrl-C is for us, and we tell the router in our own time.
    router = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        deadline = time.monotonic() + START_S
        while router.poll() is None and time.monotonic() < deadline:
            if answers(port):
                return router
            time.sleep(0.05)
    except BaseException:
        router.kill()
        raise
    router.kill()
    router.wait()
    return None


def find_router(binary, engines):
    """The router and its ports: 8080 and 9090, or the first free ones after them."""
    while (ports := (free_port(8080), free_port(9090))) and None not in ports:
        router = start_router(binary, engines, *ports)
        # Someone may have been quicker; a router that fails on free ports fails on all.
        if router or all(map(port_is_free, ports)):
            return router, ports
    return None, None


def stop_router(router):
    """Drains; its exit status."""
    router.terminate()
    try:
        return router.wait(DRAIN_S + 5)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        router.kill()
        return router.wait()


def say_what_to_try(ports, engines):
    url, admin = (f"http://{HOST}:{port}" for port in ports)
    ask = f"curl -iN {url}/v1/chat/completions -H 'x-warmpath-decision: 1' --json"
    system = """{"role":"system","content":"'"$(seq -s ' ' 1000)"'"}"""
    user = """{"role":"user","content":"'"$1"'"}"""
    print(f"""\
warmpath listens on {url} in front of two stand-in engines, {" and ".join(e.url for e in engines)}.
In another terminal, where the numbers to 1000 stand for a long system prompt:

    body() {{ echo '{{"model":"{MODEL}","stream":true,"messages":[{system},{user}]}}'; }}
    {ask} "$(body hello)"
    {ask} "$(body goodbye)"
    curl {admin}/explain -H 'authorization: Bearer {TOKEN}' --json "$(body why)"

The first answer takes a second to begin.  The second begins at once: it comes from the same engine, as
x-warmpath-backend says, which had most of its prompt, as x-warmpath-decision says.  The last line asks where a
third one would go, and why.  Ctrl-C ends.""", flush=True)


def ask_once(port):
    """One streaming request, shown as it comes; whether all of it came."""
    connection = http.client.HTTPConnection(HOST, port, timeout=START_S)
    body = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "hello"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"content-type": "application/json"})
    answer = connection.getresponse()
    print(f"{answer.status} from {answer.getheader('x-warmpath-backend')}:", flush=True)
    event_count = 0
    last = None
    for line in answer:
        last = line.strip() or last
        if line.startswith(b"data: {"):
            event_count += 1
            delta = json.loads(line[len(b"data: "):])["choices"][0]["delta"]
            print(delta.get("content", ""), end="", flush=True)
    print(f"\n{event_count} events", flush=True)
    connection.close()
    return answer.status == 200 and event_count > 1 and last == b"data: [DONE]"


def main():
    arguments = argparse.ArgumentParser(description="a router in front of two stand-in engines")
    arguments.add_argument("warmpath", help="the program to run")
    arguments.add_argument("--once", action="store_true", help="send one streaming request and end")
    options = arguments.parse_args()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    engines = [Engine("A"), Engine("B")]
    router = None
    good = True
    try:
        router, ports = find_router(options.warmpath, engines)
        if router is None:
            print("demo: the router does not start", file=sys.stderr)
            return 1
        if options.once:
            good = ask_once(ports[0])
        else:
            say_what_to_try(ports, engines)
            router.wait()
            print("demo: the router ended by itself", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        print("\ndraining", flush=True)
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
        print(f"demo: {error!r}", file=sys.stderr)
        good = False
    status = stop_router(router) if router else 0
    return 0 if good and status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
