"""Malformed requests are refused, and no part of them reaches a backend."""
import random
import time

import pytest
from client import Ended, request
from standin import LAST_CHUNK, chunk

HOST = b"Host: a\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"


def get(*lines, first=b"GET /x HTTP/1.1", host=HOST):
    return first + b"\r\n" + host + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def post(*lines, body=b"", first=b"POST /x HTTP/1.1"):
    return get(*lines, first=first) + body


CHUNKED = b"Transfer-Encoding: chunked"

MALFORMED = {
    # Framing: every one of these has smuggled requests past some proxy.
    "both content-length and chunked": post(b"Content-Length: 5", CHUNKED, body=LAST_CHUNK),
    "both, the other way round": post(CHUNKED, b"Content-Length: 5", body=LAST_CHUNK),
    "both, content-length 0": post(b"Content-Length: 0", CHUNKED, body=LAST_CHUNK),
    "content-length twice, unequal": post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello!"),
    "content-length twice, equal": post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
    "content-length as a list": post(b"Content-Length: 5, 5", body=b"hello"),
    "content-length with plus": post(b"Content-Length: +5", body=b"hello"),
    "content-length negative": post(b"Content-Length: -5", body=b"hello"),
    "content-length hex": post(b"Content-Length: 0x5", body=b"hello"),
    "content-length empty": post(b"Content-Length:", body=b""),
    "content-length blank": post(b"Content-Length:   ", body=b""),
    "content-length fraction": post(b"Content-Length: 5.0", body=b"hello"),
    "content-length with space inside": post(b"Content-Length: 5 0", body=b"hello"),
    "content-length overflow": post(b"Content-Length: 18446744073709551621", body=b"hello"),
    "content-length overflow by digits": post(b"Content-Length: " + b"9" * 40, body=b"hello"),
    "content-length with underscore": post(b"Content-Length: 1_0", body=b"0123456789"),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked", body=LAST_CHUNK),
    "chunked, gzip": post(b"Transfer-Encoding: chunked, gzip", body=LAST_CHUNK),
    "identity": post(b"Transfer-Encoding: identity", body=b""),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity", body=LAST_CHUNK),
    "chunked, chunked": post(b"Transfer-Encoding: chunked, chunked", body=LAST_CHUNK),
    "chunked twice": post(CHUNKED, CHUNKED, body=LAST_CHUNK),
    "xchunked": post(b"Transfer-Encoding: xchunked", body=LAST_CHUNK),
    "chunkedx": post(b"Transfer-Encoding: chunkedx", body=LAST_CHUNK),
    "chunked with vertical tab": post(b"Transfer-Encoding: \x0bchunked", body=LAST_CHUNK),
    "chunked quoted": post(b'Transfer-Encoding: "chunked"', body=LAST_CHUNK),
    "chunked with parameter": post(b"Transfer-Encoding: chunked;q=1", body=LAST_CHUNK),
    "transfer-encoding empty": post(b"Transfer-Encoding:", body=LAST_CHUNK),
    "chunked on HTTP/1.0": post(CHUNKED, body=LAST_CHUNK, first=b"POST /x HTTP/1.0"),
    # Lines.
    "folded header": get(b"X-A: b\r\n folded"),
    "folded header with tab": get(b"X-A: b\r\n\tfolded"),
    "first header begins with space": get(b"X-A: b", host=b" Host: a\r\n"),
    "space before colon": get(b"X-A : b"),
    "space before colon of content-length": post(b"Content-Length : 5", body=b"hello"),
    "space in a name": get(b"X A: b"),
    "no colon": get(b"X-A"),
    "empty name": get(b": b"),
    "name with a control character": get(b"X\x01A: b"),
    "name with a letter beyond ASCII": get(b"X-\xe9: b"),
    "NUL in a value": get(b"X-A: b\x00c"),
    "NUL in a name": get(b"X-\x00A: b"),
    "control character in a value": get(b"X-A: b\x07c"),
    "DEL in a value": get(b"X-A: b\x7fc"),
    "bare CR in a value": get(b"X-A: b\rc"),
    "bare CR, then a header": get(b"X-A: b\rContent-Length: 5"),
    "bare LF after the request line": b"GET /x HTTP/1.1\nHost: a\r\n\r\n",
    "bare LF after a header": b"GET /x HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
    "bare LF at the end of the head": b"GET /x HTTP/1.1\r\nHost: a\r\n\n",
    "only bare LF": b"GET /x HTTP/1.1\nHost: a\n\n",
    # The request line.
    "HTTP/1.2": get(first=b"GET /x HTTP/1.2"),
    "HTTP/2.0": get(first=b"GET /x HTTP/2.0"),
    "HTTP/0.9": get(first=b"GET /x HTTP/0.9"),
    "HTTP/1.10": get(first=b"GET /x HTTP/1.10"),
    "HTTP/1": get(first=b"GET /x HTTP/1"),
    "lower-case http": get(first=b"GET /x http/1.1"),
    "no version": get(first=b"GET /x"),
    "other protocol": get(first=b"GET /x ICE/1.0"),
    "garbage method": get(first=b"G@T /x HTTP/1.1"),
    "lower-case method": get(first=b"get /x HTTP/1.1"),
    "method with NUL": get(first=b"GE\x00T /x HTTP/1.1"),
    "no target": get(first=b"GET HTTP/1.1"),
    "target without slash": get(first=b"GET x HTTP/1.1"),
    "two spaces": get(first=b"GET  /x HTTP/1.1"),
    "space at the start": get(first=b" GET /x HTTP/1.1"),
    "tab instead of space": get(first=b"GET\t/x HTTP/1.1"),
    "space in the target": get(first=b"GET /x y HTTP/1.1"),
    "control character in the target": get(first=b"GET /x\x01y HTTP/1.1"),
    "NUL in the target": get(first=b"GET /x\x00y HTTP/1.1"),
    "DEL in the target": get(first=b"GET /x\x7fy HTTP/1.1"),
    "fragment in the target": get(first=b"GET /x#y HTTP/1.1"),
    "star with GET": get(first=b"GET * HTTP/1.1"),
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "random bytes": bytes(range(128, 256)) + b"\r\n\r\n",
    # Host.
    "no host": get(host=b""),
    "host twice": get(host=HOST + HOST),
    "host twice, unequal": get(host=HOST + b"Host: b\r\n"),
    "host with a list": get(host=b"Host: a, b\r\n"),
    "host with a space": get(host=b"Host: a b\r\n"),
    "host with a path": get(host=b"Host: a/b\r\n"),
    "host with user": get(host=b"Host: u@a\r\n"),
    "absolute-form with another authority": get(first=b"GET http://b/x HTTP/1.1"),
    "absolute-form with another port": get(first=b"GET http://a:81/x HTTP/1.1"),
    "absolute-form with a user": get(first=b"GET http://u@a/x HTTP/1.1"),
    "absolute-form without authority": get(first=b"GET http:///x HTTP/1.1"),
    # Chunks.
    "chunk size with plus": post(CHUNKED, body=b"+5\r\nhello\r\n" + LAST_CHUNK),
    "chunk size negative": post(CHUNKED, body=b"-5\r\nhello\r\n" + LAST_CHUNK),
    "chunk size with 0x": post(CHUNKED, body=b"0x5\r\nhello\r\n" + LAST_CHUNK),
    "chunk size empty": post(CHUNKED, body=b"\r\nhello\r\n" + LAST_CHUNK),
    "chunk size not hex": post(CHUNKED, body=b"g\r\nhello\r\n" + LAST_CHUNK),
    "chunk size with space before": post(CHUNKED, body=b" 5\r\nhello\r\n" + LAST_CHUNK),
    "chunk size with space after": post(CHUNKED, body=b"5 \r\nhello\r\n" + LAST_CHUNK),
    "chunk size with space inside": post(CHUNKED, body=b"0 5\r\nhello\r\n" + LAST_CHUNK),
    "chunk size overflow": post(CHUNKED, body=b"10000000000000005\r\nhello\r\n" + LAST_CHUNK),
    "chunk size overflow, many digits": post(CHUNKED, body=b"f" * 40 + b"\r\nhello\r\n" + LAST_CHUNK),
    "chunk size ends with LF": post(CHUNKED, body=b"5\nhello\r\n" + LAST_CHUNK),
    "chunk size ends with CR": post(CHUNKED, body=b"5\rhello\r\n" + LAST_CHUNK),
    "chunk longer than its size": post(CHUNKED, body=b"5\r\nhello!\r\n" + LAST_CHUNK),
    "chunk ends with LF": post(CHUNKED, body=b"5\r\nhello\n" + LAST_CHUNK),
    "chunk without its end": post(CHUNKED, body=b"5\r\nhello0\r\n\r\n"),
    "chunk extension with LF": post(CHUNKED, body=b"5;a\nb\r\nhello\r\n" + LAST_CHUNK),
    "chunk extension with NUL": post(CHUNKED, body=b"5;a\x00b\r\nhello\r\n" + LAST_CHUNK),
    "last chunk ends with LF": post(CHUNKED, body=b"5\r\nhello\r\n0\n\r\n"),
    "trailer without colon": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nX-A\r\n\r\n"),
    "trailer with a folded line": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n"),
    "trailer with NUL": post(CHUNKED, body=b"5\r\nhello\r\n0\r\nX-A: \x00\r\n\r\n"),
}


@pytest.fixture
def pair(standin, warmpath):
    engine = standin()
    return engine, warmpath(engine)


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_requests_get_400_and_a_closed_connection(pair, case):
    engine, router = pair
    with router.connect() as client:
        client.send(MALFORMED[case] + SMUGGLED)
        response = client.read_response()
        assert response.status == 400, response
        assert response.error()["type"] == "invalid_request_error"
        assert response.header("connection") == "close"
        assert client.wait_closed()
    assert engine.targets() == []


def test_a_malformed_request_after_valid_ones_is_refused_after_their_responses(pair):
    engine, router = pair
    with router.connect() as client:
        client.send(request("GET", "/1") + request("GET", "/2") + MALFORMED["both content-length and chunked"])
        assert client.read_response().json()["target"] == "/1"
        assert client.read_response().json()["target"] == "/2"
        assert client.read_response().status == 400
        assert client.wait_closed()
    assert engine.targets() == ["/1", "/2"]


def test_a_refused_client_reads_its_error_though_it_was_still_sending(pair):
    """Closing with unread bytes resets the connection, and the reset would overtake the response.
    """
    engine, router = pair
    with router.connect() as client:
        client.send(MALFORMED["space before colon"])
        for _ in range(20):
            client.send(b"x" * 50_000)
            time.sleep(0.001)
        assert client.read_response().status == 400


VALID = {
    "get": request("GET", "/x?y=1", "X-A: b", "Accept: */*"),
    "sized": request("POST", "/x", "X-A: b", body=b"hello, world"),
    "chunked": request("POST", "/x", "Transfer-Encoding: chunked") + chunk(b"hello, ", b";a=b") + chunk(b"world")
    + b"0\r\nX-Sum: 1\r\n\r\n",
    "chunk size with zeros before": post(CHUNKED, body=b"00000c\r\nhello, world\r\n000\r\n\r\n"),
    "capital Chunked": post(b"TRANSFER-ENCODING: Chunked", body=chunk(b"hello, world") + LAST_CHUNK),
    "content-length with zeros before": post(b"Content-Length: 0012", body=b"hello, world"),
    "host with port": get(host=b"Host: a.b-c:8080\r\n"),
    "host with an IPv6 address": get(host=b"Host: [::1]:8080\r\n"),
    "absolute-form": get(first=b"GET http://a/x HTTP/1.1"),
    "unusual value": get(b"X-A: \t!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~\xff"),
    "unusual name": get(b"!#$%&'*+-.^_`|~0: b"),
    "empty line before": b"\r\n" + get(),
}


@pytest.mark.parametrize("case", VALID)
def test_valid_requests_are_accepted(pair, case):
    engine, router = pair
    response = router.ask(VALID[case])
    assert response.status == 200, response
    [seen] = engine.requests
    assert seen.body == (b"" if seen.method == "GET" else b"hello, world")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", ["get", "sized", "chunked"])
def test_a_valid_request_may_be_split_anywhere(pair, case):
    engine, router = pair
    whole = VALID[case]
    with router.connect() as client:
        for at in range(1, len(whole)):
            client.send(whole[:at])
            time.sleep(0.002)  # so that the parts arrive in two reads
            client.send(whole[at:])
            assert client.read_response().status == 200, f"split at {at}"
        for byte in whole:
            client.send(bytes([byte]))
            time.sleep(0.0005)
        assert client.read_response().status == 200
    bodies = {seen.body for seen in engine.requests}
    assert bodies == {b"" if case == "get" else b"hello, world"}
    assert len(engine.requests) == len(whole)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", ["folded header", "chunk longer than its size", "bare LF after a header",
                                  "both content-length and chunked", "NUL in a value", "chunk ends with LF",
                                  "trailer without colon", "content-length hex", "host twice"])
def test_a_malformed_request_may_be_split_anywhere_too(pair, case):
    engine, router = pair
    whole = MALFORMED[case]
    for at in range(1, len(whole), 3):
        with router.connect() as client:
            client.send(whole[:at])
            time.sleep(0.002)
            try:
                client.send(whole[at:] + SMUGGLED)
            except OSError:
                pass  # already refused
            assert client.read_response().status == 400, f"split at {at}"
    assert engine.targets() == []


@pytest.mark.timeout(120)
def test_damaged_requests_never_do_more_than_fail(pair):
    """For any input the response is valid HTTP, and the backend's strict stand-in sees only valid
    HTTP.
    """
    engine, router = pair
    rng = random.Random(20)
    seeds = [*VALID.values(), *MALFORMED.values()]
    special = [b"\r", b"\n", b"\0", b" ", b":", b"\t", b"\r\n", b"\r\n\r\n", b";", b"0", b"\xff",
               b"Content-Length: 3\r\n"]
    for number in range(400):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at:at + rng.randrange(3)] = rng.choice(special)
        with router.connect(timeout=5) as client:
            client.send(bytes(data))
            client.half_close()
            try:
                while True:
                    response = client.read_response("HEAD" if data.startswith(b"HEAD") else "GET")
                    assert response.status in (200, 400, 404, 408, 413, 414, 431, 501, 505), (number, bytes(data))
            except Ended:
                assert client.buffer == b"", (number, bytes(data), client.buffer)
    assert router.get("/still-alive").status == 200
    assert engine.misuse == []
