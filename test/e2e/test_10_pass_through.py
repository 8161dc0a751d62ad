"""A request and its response pass unchanged."""
import json
import random
import socket

import pytest
from client import chat, request
from harness import eventually, free_port, within
from standin import CLOSE, LAST_CHUNK, RESET, STALL, Gate, chunk, head, json_response, plain_response

HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect"}


def names(headers):
    return [name.lower() for name, _ in headers]


# The request.


def test_a_request_arrives_as_it_was_sent(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(
        b"GET /a//b/../c%20d?x=1&y=%C3%A9&z HTTP/1.1\r\n"
        b"hOsT: some.host:1234\r\n"
        b"X-Zebra: z\r\n"
        b"accept: */*\r\n"
        b"X-Twice: one\r\n"
        b"X-Empty:\r\n"
        b"X-Twice: two\r\n"
        b"X-Spaces:   a  b \t \r\n"
        b"X-Latin: caf\xe9\r\n"
        b"Cookie: a=b; c=d\r\n"
        b"traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
        b"\r\n")
    assert response.status == 200
    [seen] = engine.requests
    assert (seen.method, seen.target, seen.version) == ("GET", "/a//b/../c%20d?x=1&y=%C3%A9&z", "1.1")
    assert [(name, value) for name, value in seen.headers if name.lower() != "x-request-id"] == [
        ("hOsT", "some.host:1234"), ("X-Zebra", "z"), ("accept", "*/*"), ("X-Twice", "one"), ("X-Empty", ""),
        ("X-Twice", "two"), ("X-Spaces", "a  b"), ("X-Latin", "caf\xe9"), ("Cookie", "a=b; c=d"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    assert seen.body == b""


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("body", [None, b"", b"\x00\xffbody"], ids=["none", "empty", "bytes"])
def test_every_method_goes_through_with_and_without_a_body(standin, warmpath, method, body):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(request(method, "/any/path", body=body))
    assert response.status == 200
    assert response.json()["method"] == method
    [seen] = engine.requests
    assert seen.body == (body or b"")
    assert seen.header("content-length") == (None if body is None else str(len(body)))


def test_bodies_arrive_byte_for_byte(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    rng = random.Random(1)
    bodies = [bytes(range(256)), b"\r\n\r\n0\r\n\r\n", rng.randbytes(16384), rng.randbytes(1_000_003)]
    for body in bodies:
        assert router.ask(request("POST", "/upload", body=body)).json()["size"] == len(body)
    assert [seen.body for seen in engine.requests] == bodies


def test_a_chunked_request_arrives_with_its_body_and_trailers(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    rng = random.Random(2)
    parts = [rng.randbytes(size) for size in (1, 2, 15, 16, 17, 1000, 70000, 1)]
    with router.connect() as client:
        client.send(request("POST", "/upload", "Transfer-Encoding: chunked", "Trailer: X-Sum"))
        for number, part in enumerate(parts):
            client.send(chunk(part, b";name=value" if number % 2 else b""))
        client.send(b"0\r\nX-Sum: 12345\r\n\r\n")
        response = client.read_response("POST")
        assert response.status == 200
        client.send(request("GET", "/after"))
        assert client.read_response().json()["target"] == "/after"
    seen = engine.requests[0]
    assert seen.body == b"".join(parts)
    assert seen.trailers == [("X-Sum", "12345")]


def test_an_empty_chunked_request_arrives_empty(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(request("POST", "/upload", "Transfer-Encoding: chunked") + LAST_CHUNK)
    assert response.status == 200
    [seen] = engine.requests
    assert seen.body == b""
    assert seen.header("transfer-encoding") == "chunked" or seen.header("content-length") == "0"


def test_hop_by_hop_headers_of_the_request_stay_behind(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(request(
        "GET", "/x", "Connection: keep-alive, X-Private", "X-Private: secret", "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive", "TE: trailers", "Upgrade: foo", "X-Public: open"))
    assert response.status == 200
    [seen] = engine.requests
    assert not (HOP_BY_HOP | {"x-private"}) & (set(names(seen.headers)) - {"connection"})
    assert "private" not in (seen.header("connection") or "").lower()
    assert seen.header("x-public") == "open"


def test_connection_cannot_name_a_header_that_the_backend_must_see(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    body = b"12345"
    response = router.ask(request("POST", "/x", "Connection: content-length, host", body=body))
    if response.status == 200:
        [seen] = engine.requests
        assert (seen.body, seen.header("host")) == (body, "test.example")
    else:
        assert response.status == 400 and engine.requests == []


def test_a_client_that_expects_100_gets_it_before_its_body(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("POST", "/upload", "Expect: 100-continue", "Content-Length: 5"))
        assert client.take_through(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        assert client.buffer == b""
        client.send(b"hello")
        response = client.read_response("POST")
        assert response.status == 200 and response.interim == []
    [seen] = engine.requests
    assert seen.body == b"hello"
    assert seen.all("expect") == []


def test_a_body_sent_without_waiting_for_100_is_taken_too(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(request("POST", "/upload", "Expect: 100-continue", body=b"hello"))
    assert response.status == 200
    assert all(interim.status == 100 for interim in response.interim)
    assert engine.requests[0].body == b"hello"


def test_options_star_arrives_as_star(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    assert router.ask(request("OPTIONS", "*")).json()["target"] == "*"


def test_absolute_form_with_the_same_authority_is_taken(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    assert router.ask(request("GET", "http://test.example/x?y")).status == 200
    [seen] = engine.requests
    assert seen.target.removeprefix("http://test.example") == "/x?y"
    assert seen.header("host") == "test.example"


def test_a_request_id_is_made_once_for_each_request(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    responses = [router.get("/x") for _ in range(20)]
    ids = [seen.header("x-request-id") for seen in engine.requests]
    assert len(set(ids)) == 20 and all(ids)
    assert [response.header("x-request-id") for response in responses] == ids


def test_the_request_id_of_the_client_is_kept(standin, warmpath):
    engine = standin()
    engine.respond("/echo", json_response(200, {}, "X-Request-Id: from-the-engine"))
    router = warmpath(engine)
    assert router.get("/x", "X-REQUEST-ID: my-id").header("x-request-id") == "my-id"
    assert len(router.get("/echo", "x-request-id: my-id").all("x-request-id")) == 1
    assert [seen.header("x-request-id") for seen in engine.requests] == ["my-id", "my-id"]


# Authorization.


@pytest.mark.parametrize("mode, expected", [
    ("forward", "Bearer of-the-client"), ("replace", "Bearer of-the-backend"), ("strip", None)])
def test_authorization_is_treated_as_configured(standin, warmpath, mode, expected):
    engine = standin()
    router = warmpath(engine, authorization=mode, api_key="of-the-backend" if mode == "replace" else None)
    assert router.get("/x", "Authorization: Bearer of-the-client").status == 200
    assert engine.requests[0].header("authorization") == expected


def test_a_replaced_authorization_is_sent_for_clients_without_one(standin, warmpath):
    engine = standin()
    router = warmpath(engine, authorization="replace", api_key="of-the-backend")
    assert router.get("/x").status == 200
    assert engine.requests[0].header("authorization") == "Bearer of-the-backend"


def test_keys_may_be_in_files_and_differ_by_backend(standin, warmpath, tmp_path):
    a, b = standin("a"), standin("b")
    (tmp_path / "key").write_text("of-the-file\n")
    router = warmpath(workers=1, config=f"""
authorization: replace
api_key_file: {tmp_path / "key"}
backends:
  - url: {a.url}
  - url: {b.url}
    api_key: of-b-alone
""")
    for _ in range(4):
        assert router.get("/x", "Authorization: Bearer of-the-client").status == 200
    assert {seen.header("authorization") for seen in a.requests} == {"Bearer of-the-file"}
    assert {seen.header("authorization") for seen in b.requests} == {"Bearer of-b-alone"}


@pytest.mark.parametrize("before, after", [
    ([], "127.0.0.1"), (["10.1.2.3, 10.4.5.6"], "10.1.2.3, 10.4.5.6, 127.0.0.1")])
def test_forwarded_for_adds_the_address_of_the_client(standin, warmpath, before, after):
    engine = standin()
    router = warmpath(engine, forwarded_for=True)
    assert router.get("/x", *(f"X-Forwarded-For: {value}" for value in before)).status == 200
    assert ", ".join(engine.requests[0].all("x-forwarded-for")) == after


# The response.


def test_a_response_comes_back_as_it_was_sent(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(
        299, "X-B: 2", "x-a: 1", "Set-Cookie: a=1; Path=/", "X-B: 3", "Set-Cookie: b=2", "X-Empty:",
        "Content-Type: text/plain; charset=utf-8", "Content-Length: 5", "Server: engine/1.0",
        "Date: Thu, 01 Jan 1970 00:00:00 GMT", reason="Very Fine") + b"\x00\xff\r\n!")
    router = warmpath(engine)
    response = router.get("/x")
    assert (response.version, response.status, response.reason) == ("HTTP/1.1", 299, "Very Fine")
    ours = ("x-request-id", "x-warmpath-backend", "connection", "keep-alive")
    assert [(name, value) for name, value in response.headers if name.lower() not in ours] == [
        ("X-B", "2"), ("x-a", "1"), ("Set-Cookie", "a=1; Path=/"), ("X-B", "3"), ("Set-Cookie", "b=2"),
        ("X-Empty", ""), ("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", "5"),
        ("Server", "engine/1.0"), ("Date", "Thu, 01 Jan 1970 00:00:00 GMT")]
    assert response.body == b"\x00\xff\r\n!"
    assert response.header("x-warmpath-backend") == engine.url


def test_the_backend_header_can_be_turned_off(standin, warmpath):
    router = warmpath(standin(), backend_header=False)
    response = router.get("/x")
    assert response.status == 200 and response.header("x-warmpath-backend") is None


@pytest.mark.parametrize("status", [201, 206, 301, 400, 401, 403, 404, 405, 409, 418, 422, 500, 501, 502, 504])
def test_an_engines_own_status_and_body_are_untouched(standin, warmpath, status):
    engine = standin()
    body = {"object": "error", "message": "said the engine", "code": status}
    engine.respond("/x", json_response(status, body, "X-Engine-Says: hello"))
    router = warmpath(engine)
    response = router.get("/x")
    assert (response.status, response.json()) == (status, body)
    assert response.header("x-engine-says") == "hello"
    assert len(engine.requests) == 1


@pytest.mark.parametrize("status, lines", [
    (204, ()), (304, ("Content-Length: 100", 'ETag: "x"')), (200, ("Content-Length: 0",))])
def test_responses_without_a_body_leave_the_connection_usable(standin, warmpath, status, lines):
    engine = standin()
    engine.respond("/x", head(status, *lines))
    router = warmpath(engine)
    with router.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/x"))
            response = client.read_response()
            assert (response.status, response.body) == (status, b"")
            assert response.all("content-length") == [line.split(": ")[1] for line in lines if "Length" in line]
            assert response.all("transfer-encoding") == []


def test_head_gets_the_head_alone(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        for target in ("/one", "/two"):
            client.send(request("HEAD", target))
            response = client.read_response("HEAD")
            assert (response.status, response.header("content-length")) == (200, "1234")
        client.send(request("GET", "/three"))
        assert client.read_response().json()["target"] == "/three"
    assert [seen.method for seen in engine.requests] == ["HEAD", "HEAD", "GET"]


def test_a_chunked_response_to_head_has_no_body(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"))
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("HEAD", "/x"))
        assert client.read_response("HEAD").status == 200
        client.send(request("GET", "/y"))
        assert client.read_response().json()["target"] == "/y"


def test_hop_by_hop_headers_of_the_response_stay_behind(standin, warmpath):
    engine = standin()
    engine.respond("/x", plain_response(
        200, b"ok", "Connection: keep-alive, X-Private", "X-Private: secret", "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive", "Upgrade: foo", "X-Public: open"))
    router = warmpath(engine)
    response = router.get("/x")
    assert not {"x-private", "proxy-connection", "upgrade"} & set(names(response.headers))
    assert response.header("keep-alive") != "timeout=5"
    assert response.header("x-public") == "open"


def test_early_hints_are_forwarded_and_100_is_not(standin, warmpath):
    engine = standin()
    gate = Gate()
    engine.respond("/x", head(100), head(103, "Link: </a>; rel=preload"), gate, plain_response(200, b"done"))
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        assert client.take_through(b"\r\n\r\n").startswith(b"HTTP/1.1 103 ")
        gate.open()
        response = client.read_response()
    assert (response.status, response.body, response.interim) == (200, b"done", [])


def test_trailers_and_chunk_extensions_are_understood(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked", "Trailer: X-Sum"), chunk(b"hello ", b";a=b"),
                  chunk(b"world", b';c="d;e"'), b"0;last\r\nX-Sum: 99\r\nX-More: m\r\n\r\n")
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x", "TE: trailers"))
        response = client.read_response()
        assert response.body == b"hello world"
        assert response.trailers == [("X-Sum", "99"), ("X-More", "m")]
        client.send(request("GET", "/y"))
        assert client.read_response().json()["target"] == "/y"


def test_a_body_that_ends_with_the_connection_ends_cleanly(standin, warmpath):
    engine = standin()
    data = random.Random(3).randbytes(300_000)
    engine.respond("/x", head(200, "Content-Type: text/plain"), data[:1000], 0.05, data[1000:], CLOSE)
    router = warmpath(engine)
    response = router.get("/x")
    assert response.complete and response.body == data


def test_a_large_body_comes_through_exactly(standin, warmpath):
    engine = standin()
    data = random.Random(4).randbytes(20_000_000)
    engine.respond("/sized", plain_response(200, data))
    pieces = [chunk(data[at:at + 77_777]) for at in range(0, len(data), 77_777)]
    engine.respond("/chunked", head(200, "Transfer-Encoding: chunked"), *pieces, LAST_CHUNK)
    router = warmpath(engine)
    assert router.get("/sized").body == data
    assert router.get("/chunked").body == data


def test_a_response_in_single_bytes_is_the_same_response(standin, warmpath):
    engine = standin()
    whole = (head(103, "Link: </a>") + head(200, "Transfer-Encoding: chunked", "X-A: b") + chunk(b"hello", b";x=y")
             + b"0\r\nX-Sum: 1\r\n\r\n")
    steps = [step for byte in whole for step in (bytes([byte]), 0.001)]
    engine.respond("/x", *steps)
    router = warmpath(engine)
    response = router.get("/x")
    assert (response.status, response.body, response.header("x-a")) == (200, b"hello", "b")
    assert response.trailers == [("X-Sum", "1")] and response.complete


def test_large_response_headers_pass_and_absurd_ones_are_502(standin, warmpath):
    engine = standin()
    engine.respond("/large", plain_response(200, b"ok", "X-Large: " + "a" * 6000))
    engine.respond("/absurd", plain_response(200, b"ok", *(f"X-{n}: " + "a" * 4000 for n in range(500))))
    router = warmpath(engine)
    assert router.get("/large").header("x-large") == "a" * 6000
    response = router.get("/absurd")
    assert response.status == 502 and response.error()


# Connections.


def test_a_connection_serves_many_requests_and_reuses_the_backends(standin, warmpath):
    engine = standin()
    router = warmpath(engine, workers=1, health_interval=0, models_learn=False, load_scrape=False,
                      timeouts_backend_keepalive="60s")
    accepted = engine.accepted
    with router.connect() as client:
        for number in range(20):
            client.send(request("POST", f"/{number}", body=b"x" * number))
            response = client.read_response()
            assert response.json()["target"] == f"/{number}" and response.json()["size"] == number
    assert len({seen.connection for seen in engine.requests}) == 1
    assert engine.accepted - accepted == 1


def test_pipelined_responses_come_in_order(standin, warmpath):
    slow, fast = standin("slow"), standin("fast")
    slow.respond("/1", 0.2, plain_response(200, b"one"))
    fast.respond("/1", 0.2, plain_response(200, b"one"))
    router = warmpath(slow, fast)
    with router.connect() as client:
        client.send(request("GET", "/1") + request("POST", "/2", body=b"abc") + request("HEAD", "/3")
                    + request("POST", "/4", "Transfer-Encoding: chunked") + chunk(b"de") + LAST_CHUNK
                    + request("GET", "/5"))
        assert client.read_response().body == b"one"
        assert client.read_response().json()["size"] == 3
        assert client.read_response("HEAD").header("content-length") == "1234"
        assert client.read_response().json()["size"] == 2
        assert client.read_response().json()["target"] == "/5"


def test_connection_close_is_obeyed(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x", "Connection: close"))
        response = client.read_response()
        assert response.status == 200 and response.header("connection") == "close"
        assert client.wait_closed()


def test_connection_close_of_a_backend_does_not_close_the_client(standin, warmpath):
    engine = standin()
    engine.respond("/x", plain_response(200, b"ok", "Connection: close"), CLOSE)
    router = warmpath(engine)
    with router.connect() as client:
        for _ in range(5):
            client.send(request("GET", "/x"))
            response = client.read_response()
            assert (response.status, response.body) == (200, b"ok")
            assert response.header("connection") != "close"


def test_clients_never_see_stale_backend_connections(standin, warmpath):
    engine = standin()
    engine.respond("/x", plain_response(200, b"ok"), CLOSE)  # closes without announcing it
    engine.respond("/y", plain_response(200, b"ok"), RESET)
    router = warmpath(engine, retry_attempts=1)
    with router.connect() as client:
        for number in range(30):
            client.send(request("POST", "/x" if number % 2 else "/y", body=b"some body"))
            response = client.read_response()
            assert (response.status, response.body) == (200, b"ok"), f"request {number}"
    assert [seen.body for seen in engine.requests] == [b"some body"] * 30


def test_idle_backend_connections_that_close_later_are_dropped(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    for _ in range(5):
        assert router.get("/x").status == 200
        eventually(lambda: engine.open == 0, "the stand-in counts the connection as idle")
        engine.close_idle_connections()


def test_all_listeners_serve_the_same_fleet(standin, warmpath):
    engine = standin()
    router = warmpath(start=False)
    ports = [router.port, free_port(), free_port()]
    router.start([engine], listen=[f"127.0.0.1:{ports[0]}", f"127.0.0.2:{ports[1]}", f"[::1]:{ports[2]}"])
    for address in (("127.0.0.1", ports[0]), ("127.0.0.2", ports[1]), ("::1", ports[2])):
        with socket.create_connection(address, within(5)) as sock:
            sock.sendall(request("GET", "/x", "Connection: close"))
            assert sock.recv(100).startswith(b"HTTP/1.1 200 ")
    assert len(engine.requests) == 3


def test_a_backend_may_have_an_ipv6_address(standin, warmpath):
    engine = standin("six", host="::1")
    router = warmpath(engine)
    response = router.get("/x")
    assert (response.json()["engine"], response.header("x-warmpath-backend")) == ("six", engine.url)


def test_a_request_after_connection_close_is_not_served(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/1", "Connection: close") + request("GET", "/2"))
        assert client.read_response().json()["target"] == "/1"
        assert client.wait_closed()
    assert engine.targets() == ["/1"]


def test_hundreds_of_pipelined_requests_are_served(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"".join(request("POST", f"/{number}", body=b"x" * number) for number in range(300)))
        for number in range(300):
            assert client.read_response().json()["size"] == number


# HTTP/1.0.


def test_an_old_client_gets_a_body_without_chunks_and_the_end_of_the_connection(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), chunk(b"hello "), chunk(b"world"), LAST_CHUNK)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"GET /x HTTP/1.0\r\nHost: test.example\r\n\r\n")
        response = client.read_head()
        assert response.all("transfer-encoding") == [] and response.all("content-length") == []
        client.read_to_end(response)
    assert (response.status, response.body) == (200, b"hello world")


def test_an_old_client_gets_a_sized_body_and_the_end_of_the_connection(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"POST /x HTTP/1.0\r\nHost: test.example\r\nContent-Length: 3\r\n\r\nabc")
        response = client.read_response()
        assert response.json()["size"] == 3
        assert client.wait_closed()


def test_an_old_client_may_keep_its_connection(standin, warmpath):
    engine = standin()
    engine.respond("/chunked", head(200, "Transfer-Encoding: chunked"), chunk(b"hello"), LAST_CHUNK)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"GET /1 HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
        response = client.read_response()
        assert response.status == 200
        if response.header("connection", "").lower() != "keep-alive":
            assert client.wait_closed()
            return
        client.send(b"GET /chunked HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
        response = client.read_response()  # only the end of the connection can end it
        assert response.body == b"hello" and response.header("connection", "close").lower() == "close"


@pytest.mark.parametrize("line", [b"Content-Length: 5\r\n", b""], ids=["sized", "to the end"])
def test_an_old_backend_is_understood(standin, warmpath, line):
    engine = standin()
    engine.respond("/x", b"HTTP/1.0 200 OK\r\n" + line + b"\r\nhello", 0.02, CLOSE)
    router = warmpath(engine)
    with router.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/x"))
            response = client.read_response()
            assert (response.version, response.body, response.complete) == ("HTTP/1.1", b"hello", True)
            if response.header("connection") == "close":
                break


def test_many_interim_responses_are_passed_on_or_refused(standin, warmpath):
    engine = standin()
    engine.respond("/some", *[head(103, "Link: </a>")] * 20, plain_response(200, b"ok"))
    engine.respond("/endless", *[head(103, "Link: </a>" + "x" * 500)] * 20_000, plain_response(200, b"ok"))
    router = warmpath(engine)
    response = router.get("/some")
    assert (response.status, len(response.interim)) == (200, 20)
    response = router.get("/endless")
    assert response.status in (200, 502)


def test_an_old_client_need_not_send_host(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    with router.connect() as client:
        client.send(b"GET /x HTTP/1.0\r\n\r\n")
        assert client.read_response().status == 200
    assert len(engine.requests) == 1  # the stand-in insists on exactly one Host


# Engines that send invalid HTTP.


@pytest.mark.parametrize("invalid", [
    b"\x00\x01\x02\x03garbage\r\n\r\n",
    b"HTTP/1.1 abc Hello\r\n\r\n",
    b"HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nNo colon here\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nX-Space : 1\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
], ids=lambda invalid: repr(invalid[:40]))
def test_an_invalid_http_response_is_502(standin, warmpath, invalid):
    engine = standin()
    engine.respond("/x", invalid, CLOSE)
    router = warmpath(engine)
    response = router.get("/x")
    assert response.status == 502
    assert response.error()["message"]


@pytest.mark.parametrize("steps", [
    (RESET,), (CLOSE,), (b"HTTP/1.1 200 OK\r\nContent-Le", RESET), (b"HTTP/1.1 200 OK\r\nContent-Le", CLOSE)],
    ids=["reset", "close", "reset mid-head", "close mid-head"])
def test_a_backend_that_leaves_before_its_head_is_complete_is_502(standin, warmpath, steps):
    engine = standin()
    engine.respond("/x", *steps)
    router = warmpath(engine)
    response = router.post("/x", {"model": "test-model"})
    assert response.status == 502 and response.error()
    assert response.header("x-request-id")


def test_invalid_chunks_truncate_the_response(standin, warmpath):
    engine = standin()
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), chunk(b"good"), 0.05, b"zz\r\nbad\r\n", STALL)
    router = warmpath(engine)
    with router.connect() as client:
        client.send(request("GET", "/x"))
        response = client.read_response()
        assert response.status == 200 and response.body == b"good" and not response.complete


def test_bytes_after_the_response_are_not_the_next_response(standin, warmpath):
    engine = standin()
    engine.respond("/x", plain_response(200, b"ok") + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse")
    router = warmpath(engine, workers=1)
    with router.connect() as client:
        for _ in range(3):
            client.send(request("GET", "/x"))
            assert client.read_response().body == b"ok"
            client.send(request("GET", "/y"))
            assert client.read_response().json()["target"] == "/y"


def test_an_early_response_reaches_a_client_whose_body_was_not_read(standin, warmpath):
    engine = standin()
    engine.early.add("/x")
    engine.respond("/x", json_response(413, {"error": "too much for me"}, "Connection: close"), CLOSE)
    router = warmpath(engine)
    response = router.ask(request("POST", "/x", body=b"x" * 4_000_000))
    assert response.status in (413, 502)  # the reset may overtake the response in the kernel
    small = router.ask(request("POST", "/x", body=b"x" * 100))
    assert (small.status, small.json()) == (413, {"error": "too much for me"})


def test_a_backend_that_reads_slowly_gets_the_whole_body(standin, warmpath):
    engine = standin()
    engine.slow_reader = True
    router = warmpath(engine)
    data = random.Random(5).randbytes(8_000_000)
    assert router.ask(request("POST", "/x", body=data)).json()["size"] == len(data)
    assert engine.requests[0].body == data


# OpenAI's requests.


def test_a_chat_request_gets_the_response_of_the_engine(standin, warmpath):
    engine = standin("a")
    router = warmpath(engine)
    body = json.dumps(chat(events=2), indent=3).encode()
    response = router.ask(request("POST", "/v1/chat/completions", "Content-Type: application/json", body=body))
    assert response.json()["choices"][0]["message"]["content"] == "a-0 a-1 "
    assert engine.requests[0].body == body


def test_a_body_that_is_not_json_is_left_to_the_engine(standin, warmpath):
    engine = standin()
    router = warmpath(engine)
    response = router.ask(request("POST", "/v1/chat/completions", body=b"{not json"))
    assert (response.status, response.json()["error"]["message"]) == (400, "not JSON")


def test_each_of_many_connections_gets_its_own_response(standin, warmpath):
    engine = standin()
    gate = Gate()
    router = warmpath(engine)
    clients = [router.connect() for _ in range(200)]
    for number, client in enumerate(clients):
        engine.respond(f"/{number}", gate, lambda seen: [json_response(200, {"target": seen.target})])
        client.send(request("GET", f"/{number}"))
    eventually(lambda: engine.open == 200, "all run at the same time")
    gate.open()
    for number, client in enumerate(clients):
        assert client.read_response().json()["target"] == f"/{number}"
    eventually(lambda: engine.open == 0, "all answered")
