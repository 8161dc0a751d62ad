"""A stand-in for a trace collector: takes OTLP over HTTP in JSON, and checks every word of it.

It checks each post twice: by hand against the rules of OTLP's JSON, and against the schema itself
with OpenTelemetry's own message types.
"""
import base64
import contextlib
import http.server
import json
import re
import threading
import time

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPAN_KEYS = {"traceId", "spanId", "parentSpanId", "name", "flags", "kind", "startTimeUnixNano", "endTimeUnixNano",
             "attributes", "events", "status"}
SERVER = 2
ERROR = 2


def attributes_of(rows):
    """As a dictionary, each key once, each value of one known kind."""
    values = {}
    for row in rows:
        assert set(row) == {"key", "value"} and len(row["value"]) == 1, row
        (kind, value), = row["value"].items()
        assert row["key"] not in values, f"{row['key']} came twice"
        if kind == "intValue":
            assert isinstance(value, str) and re.fullmatch("0|[1-9][0-9]*", value), row
            value = int(value)
        else:
            assert isinstance(value, {"stringValue": str, "boolValue": bool, "doubleValue": float}[kind]), row
        values[row["key"]] = value
    return values


def time_of(text):
    assert isinstance(text, str) and re.fullmatch("[1-9][0-9]{18}", text), text
    return int(text)


def id_of(text, size):
    assert re.fullmatch(f"[0-9a-f]{{{size}}}", text) and text.strip("0"), text
    return text


class Event:
    def __init__(self, value):
        assert {"timeUnixNano", "name"} <= set(value) <= {"timeUnixNano", "name", "attributes"}, value
        self.time = time_of(value["timeUnixNano"])
        self.name = value["name"]
        self.attributes = attributes_of(value.get("attributes", []))


class Span:
    def __init__(self, value):
        assert SPAN_KEYS - {"parentSpanId"} <= set(value) <= SPAN_KEYS, set(value) ^ SPAN_KEYS
        self.trace = id_of(value["traceId"], 32)
        self.id = id_of(value["spanId"], 16)
        self.parent = id_of(value["parentSpanId"], 16) if "parentSpanId" in value else None
        self.name = value["name"]
        self.begin = time_of(value["startTimeUnixNano"])
        self.end = time_of(value["endTimeUnixNano"])
        self.attributes = attributes_of(value["attributes"])
        self.events = [Event(event) for event in value["events"]]
        self.is_error = value["status"].get("code", 0) == ERROR
        assert value["kind"] == SERVER and self.name, value
        assert value["flags"] == (0x301 if self.parent else 0x101), value["flags"]
        assert set(value["status"]) <= {"code", "message"}, value["status"]
        times = [self.begin, *(event.time for event in self.events), self.end]
        assert times == sorted(times), f"out of order: {[(event.name, event.time) for event in self.events]}"
        assert abs(time.time() - self.end / 1e9) < 300, "the clock is wrong"

    def event(self, name):
        found = [event for event in self.events if event.name == name]
        assert len(found) <= 1, f"{name} came {len(found)} times"
        return found[0] if found else None


def with_base64_ids(value):
    """OTLP writes ids as hexadecimal digits, where Protobuf's own JSON has base64."""
    if isinstance(value, list):
        return [with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: base64.b64encode(bytes.fromhex(item)).decode() if key in ("traceId", "spanId", "parentSpanId")
            else with_base64_ids(item) for key, item in value.items()}


class Post:
    def __init__(self, path, headers, body):
        self.path = path
        self.body = body
        self.arrived_at = time.monotonic()
        assert headers.get_all("content-type") == ["application/json"], headers.items()
        document = json.loads(body.decode("utf-8", "strict"))
        self.message = json_format.ParseDict(with_base64_ids(document), ExportTraceServiceRequest())
        assert set(document) == {"resourceSpans"}, document
        resource, = document["resourceSpans"]
        scope, = resource["scopeSpans"]
        assert set(resource) == {"resource", "scopeSpans"} and set(scope) == {"scope", "spans"}, document
        self.resource = attributes_of(resource["resource"]["attributes"])
        self.scope = scope["scope"]
        self.spans = [Span(span) for span in scope["spans"]]
        assert self.spans, "a post without spans"
        assert len(self.message.resource_spans[0].scope_spans[0].spans) == len(self.spans)


class Collector:
    """A collector on a port of its own.  `status` is its response, None: no response; `at_first`
    are the statuses before that.
    """

    def __init__(self, port, status=200, at_first=()):
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.status = status
        self.at_first = list(at_first)
        self.posts = []  # posts that it accepted
        self.faults = []
        self.asked = 0
        self.released = threading.Event()
        self.server = None

    def start(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), self.handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self):
        self.released.set()
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None

    def handler(self):
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                collector.take(self)

            def log_message(self, *_):
                pass

        return Handler

    def take(self, request):
        self.asked += 1
        status = self.at_first.pop(0) if self.at_first else self.status
        body = request.rfile.read(int(request.headers["content-length"]))
        if status is None:
            self.released.wait(60)
            request.close_connection = True
            return
        if status == 200:
            try:
                self.posts.append(Post(request.path, request.headers, body))
            except Exception as error:  # the test must see every error
                self.faults.append(f"{type(error).__name__}: {error}")
        with contextlib.suppress(OSError):
            request.send_response(status)
            request.send_header("Content-Type", "application/json")
            request.send_header("Content-Length", "2")
            request.end_headers()
            request.wfile.write(b"{}")

    @property
    def spans(self):
        return [span for post in list(self.posts) for span in post.spans]
