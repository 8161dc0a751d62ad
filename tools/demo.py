#!/usr/bin/env python3
"""A router in front of two stand-in engines, on this machine: what `make run` shows.

    tools/demo.py build/release/warmpath          runs until Ctrl-C or SIGTERM, then drains
    tools/demo.py build/release/warmpath --once   sends one streaming request itself and ends

The engines speak enough of OpenAI's API for a client to be happy and say one word at a time, so that
streaming can be seen.  Python's standard library alone.
"""
import argparse
import contextlib
import http.client
import http.server
import json
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
WORDS = ("This is engine {name}. One word at a time, each in an event of its own, it passes through "
         "the router the moment it is said. Ask again and the other engine will answer.")


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
        if stream:
            self.stream(words)
        else:
            self.complete(words)

    def complete(self, words):
        time.sleep(PACE_S * 4)
        usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": len(words) + 1}
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


def start_router(binary, engines, port):
    """The router on that port once it answers; None when it ended instead."""
    command = [binary, "serve", "--listen", f"{HOST}:{port}", "--workers", "1", "--log-level", "warn",
               "--timeouts-drain", f"{DRAIN_S}s"]
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
    """The router and its port: 8080, or the first free one after it."""
    for port in range(8080, 8180):
        if port_is_free(port):
            router = start_router(binary, engines, port)
            # Someone may have been quicker; a router that fails on a free port fails on all.
            if router or port_is_free(port):
                return router, port
    return None, None


def stop_router(router):
    """Drains; its exit status."""
    router.terminate()
    try:
        return router.wait(DRAIN_S + 5)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        router.kill()
        return router.wait()


def say_what_to_try(port, engines):
    url = f"http://{HOST}:{port}"
    ask = f"{url}/v1/chat/completions -H 'content-type: application/json' -d"
    hello = f'"model":"{MODEL}","messages":[{{"role":"user","content":"hello"}}]'
    print(f"""\
warmpath listens on {url} in front of two stand-in engines, {" and ".join(e.url for e in engines)}.
In another terminal:

    curl -iN {ask} '{{"stream":true,{hello}}}'
    curl -i {ask} '{{{hello}}}'
    curl {url}/v1/models

The header x-warmpath-backend names the engine that answered; they take turns.  Ctrl-C ends.""", flush=True)


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
        router, port = find_router(options.warmpath, engines)
        if router is None:
            print("demo: the router does not start", file=sys.stderr)
            return 1
        if options.once:
            good = ask_once(port)
        else:
            say_what_to_try(port, engines)
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
