"""A client that sends exactly the given bytes and parses responses strictly, with the arrival time
of each part.
"""
import json
import re
import socket
import struct
import time

STATUS_LINE = re.compile(rb"(HTTP/1\.[01]) ([1-5][0-9][0-9]) ([\t\x20-\x7e\x80-\xff]*)")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\x00-\x08\x0a-\x1f\x7f]*)")


class Ended(Exception):
    """The connection ended where more was due."""


class Response:
    def __init__(self, raw_head):
        lines = raw_head[:-4].split(b"\r\n")
        first = STATUS_LINE.fullmatch(lines[0])
        assert first, f"status line {lines[0]!r}"
        self.version, self.status, self.reason = first[1].decode(), int(first[2]), first[3].decode("latin-1")
        self.headers = [field(line) for line in lines[1:]]
        self.raw_head = raw_head
        self.head_at = time.monotonic()
        self.interim = []  # 1xx responses that came before
        self.pieces = []  # (when, bytes): chunks as they came, or the bytes of one read
        self.trailers = []
        self.complete = False  # ended as its framing promised

    @property
    def body(self):
        return b"".join(data for _, data in self.pieces)

    def all(self, name):
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name, default=None):
        values = self.all(name)
        assert len(values) <= 1, f"{name} came {len(values)} times: {values}"
        return values[0] if values else default

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The error object of a response of the router itself; checks its shape."""
        assert self.header("content-type", "").startswith("application/json"), self.headers
        value = self.json()
        assert set(value) == {"error"}, value
        error = value["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        assert isinstance(error["message"], str) and error["message"], error
        assert isinstance(error["type"], str) and error["type"], error
        assert error["code"] is None or isinstance(error["code"], str), error
        return error

    def events(self):
        return sse_events(self.body)

    def __repr__(self):
        return f"<{self.status} {self.reason}; {self.headers}; {self.body[:300]!r}>"


def field(line):
    match = FIELD.fullmatch(line)
    assert match, f"header line {line!r}"
    return match[1].decode(), match[2].strip(b" \t").decode("latin-1")


def sse_events(body):
    """The data of each complete event."""
    events, data = [], []
    for line in body.decode().replace("\r\n", "\n").split("\n")[:-1]:
        if line == "":
            if data:
                events.append("\n".join(data))
            data = []
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
    return events


class Client:
    """One connection."""

    def __init__(self, address, timeout, receive_buffer=None, tls=None, server_name=None):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self.sock = tls.wrap_socket(self.sock, server_hostname=server_name)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data)

    def close(self):
        self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def half_close(self):
        self.sock.shutdown(socket.SHUT_WR)

    def receive(self):
        """More bytes into the buffer; raises Ended at the end."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            raise Ended("connection reset") from None
        if not data:
            raise Ended("connection closed")
        self.buffer += data

    def take_through(self, mark):
        while mark not in self.buffer:
            self.receive()
        taken, self.buffer = self.buffer.split(mark, 1)
        return taken + mark

    def wait_closed(self):
        """True when the router closes the connection without another byte."""
        try:
            while not self.buffer:
                self.receive()
            return False
        except Ended:
            return True

    def read_head(self):
        """The head of the final response, with the interim ones."""
        interim = []
        while True:
            response = Response(self.take_through(b"\r\n\r\n"))
            if response.status >= 200:
                response.interim = interim
                return response
            interim.append(response)

    def read_response(self, method="GET"):
        response = self.read_head()
        self.read_body(response, method)
        return response

    def read_body(self, response, method="GET"):
        try:
            if method == "HEAD" or response.status in (204, 304):
                pass
            elif response.all("transfer-encoding"):
                assert response.header("transfer-encoding").lower() == "chunked"
                assert not response.all("content-length")
                self.read_chunks(response)
            elif response.all("content-length"):
                self.read_sized(response, int(response.header("content-length")))
            else:
                self.read_to_end(response)
            response.complete = True
        except Ended:
            pass

    def note(self, response, size):
        response.pieces.append((time.monotonic(), self.buffer[:size]))
        self.buffer = self.buffer[size:]

    def read_sized(self, response, size):
        while size > 0:
            if not self.buffer:
                self.receive()
            part = min(size, len(self.buffer))
            self.note(response, part)
            size -= part

    def read_to_end(self, response):
        try:
            while True:
                if self.buffer:
                    self.note(response, len(self.buffer))
                self.receive()
        except Ended as end:
            if "reset" in str(end):
                raise

    def read_chunk(self, response):
        """One chunk; False for the last."""
        line = self.take_through(b"\r\n")
        assert re.fullmatch(rb"[0-9A-Fa-f]+(;[^\r\n]*)?\r\n", line), f"chunk size line {line!r}"
        size = int(line[:-2].split(b";")[0], 16)
        if size == 0:
            return False
        while len(self.buffer) < size + 2:
            try:
                self.receive()
            except Ended:
                self.note(response, min(size, len(self.buffer)))
                raise
        assert self.buffer[size : size + 2] == b"\r\n", "chunk without its end"
        self.note(response, size)
        self.buffer = self.buffer[2:]
        return True

    def read_chunks(self, response):
        while self.read_chunk(response):
            pass
        while (line := self.take_through(b"\r\n")) != b"\r\n":
            response.trailers.append(field(line[:-2]))


def request(method, target, *lines, body=None, host="test.example"):
    """The bytes of a request with exactly these header lines after Host."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *lines]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "".join(line + "\r\n" for line in lines).encode("latin-1") + b"\r\n" + (body or b"")


def json_request(target, value, *lines, method="POST"):
    return request(method, target, "Content-Type: application/json", *lines, body=json.dumps(value).encode())


def chat(stream=False, events=3, model="test-model", **more):
    """The body of a chat request."""
    return {"model": model, "messages": [{"role": "user", "content": "hello"}], "stream": stream,
            "max_tokens": events, **more}
