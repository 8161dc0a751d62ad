"""TLS on both sides."""
import signal
import socket
import ssl
import time

import pytest
from certificates import Authority
from client import Ended, chat, json_request, request
from harness import eventually, is_sanitized, within
from standin import LAST_CHUNK, RESET, SSE_HEAD, STALL, Gate, chunk, event, head

QUIET = {"health_interval": 0, "models_learn": False}


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def connect(router, tls, **options):
    return router.connect(tls=tls, server_name="127.0.0.1", **options)


# Clients.


@pytest.fixture
def secure(authority, standin, warmpath):
    """A stand-in and a router that speaks TLS."""
    certificate, key = authority.issue("router", "IP:127.0.0.1")
    engine = standin("a")
    return engine, warmpath(engine, tls_certificate=certificate, tls_key=key)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_are_served_over_tls(authority, secure, version):
    engine, router = secure
    tls = authority.client()
    tls.minimum_version = tls.maximum_version = version
    with connect(router, tls) as client:
        for number in range(3):
            client.send(request("POST", f"/{number}", body=b"x" * 100_000))
            assert client.read_response().json() == {
                "engine": "a", "method": "POST", "target": f"/{number}", "size": 100_000}
        client.send(json_request("/v1/chat/completions", chat(stream=True, events=5)))
        assert client.read_response().events()[-1] == "[DONE]"
    assert len(engine.requests) == 4


def test_events_arrive_one_by_one_over_tls(authority, secure):
    engine, router = secure
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, chunk(event(b"2")) + LAST_CHUNK)
    with connect(router, authority.client()) as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        assert client.read_chunk(response)
        gate.open()
        client.read_body(response)
    assert response.complete and response.events() == ["1", "2"]


def test_a_slow_reader_gets_a_large_response_over_tls(authority, secure):
    engine, router = secure
    engine.respond("/x", head(200, "Transfer-Encoding: chunked"), *[chunk(bytes(65536))] * 400, LAST_CHUNK)
    before = router.memory()
    with connect(router, authority.client(), receive_buffer=16384) as client:
        client.send(request("GET", "/x"))
        seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")

        def stands_still():
            size = seen.sent_size
            time.sleep(0.3)
            return seen.sent_size == size > 0

        eventually(stands_still, "all buffers are full")
        assert seen.sent_size < 20_000_000
        assert router.memory() - before < 8_000_000 * (4 if is_sanitized() else 1)
        response = client.read_response()
    assert response.complete and response.body == bytes(65536 * 400)


@pytest.mark.parametrize("leave", ["close", "reset"])
def test_a_client_that_leaves_over_tls_is_noticed(authority, secure, leave):
    engine, router = secure
    engine.respond("/x", STALL)
    client = connect(router, authority.client())
    client.send(request("GET", "/x"))
    seen = eventually(lambda: engine.requests and engine.requests[0], "the request arrives")
    getattr(client, leave)()
    assert seen.gone.wait(within(5))


def test_a_broken_stream_is_seen_as_broken_over_tls(authority, secure):
    engine, router = secure
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, RESET)
    with connect(router, authority.client()) as client:
        client.send(request("GET", "/x"))
        response = client.read_head()
        assert client.read_chunk(response)
        gate.open()
        client.read_body(response)
    assert not response.complete and response.events()[0] == "1" and "error" in response.events()[-1]


def test_plain_text_on_the_tls_port_is_not_served(secure):
    engine, router = secure
    with router.connect() as client:
        client.send(request("GET", "/x"))
        try:
            client.receive()
            assert b"200" not in client.buffer[:20]
        except Ended:
            pass
    assert engine.requests == []


def test_a_missing_handshake_times_out(authority, standin, warmpath):
    certificate, key = authority.issue("router", "IP:127.0.0.1")
    router = warmpath(standin(), tls_certificate=certificate, tls_key=key, timeouts_header="1s")
    clients = [router.connect() for _ in range(2)]
    begun = time.monotonic()
    for client, begin in zip(clients, (b"", b"\x16\x03\x01\x02\x00\x01")):
        client.send(begin)
    for client in clients:
        with pytest.raises(Ended):
            while True:
                client.receive()
        assert time.monotonic() - begun < within(3)
    with connect(router, authority.client()) as client:
        client.send(request("GET", "/x"))
        assert client.read_response().status == 200


def test_garbage_in_the_handshake_does_not_disturb_others(authority, secure):
    engine, router = secure
    for number in range(20):
        with router.connect() as client:
            client.send(bytes((number * at) % 256 for at in range(300)))
    with connect(router, authority.client()) as client:
        client.send(request("GET", "/x"))
        assert client.read_response().status == 200
    assert len(engine.requests) == 1


def test_a_client_that_prefers_http2_gets_http1(authority, secure):
    _, router = secure
    tls = authority.client()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    with connect(router, tls) as client:
        assert client.sock.selected_alpn_protocol() in ("http/1.1", None)
        client.send(request("GET", "/x"))
        assert client.read_response().status == 200


def test_a_new_certificate_is_taken_on_reload(authority, standin, warmpath):
    engine = standin("a")
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, chunk(event(b"2")) + LAST_CHUNK)
    certificate, key = authority.issue("router", "IP:127.0.0.1")
    router = warmpath(config=f"""
backends: ["{engine.url}"]
tls:
  certificate: {certificate}
  key: {key}
""")
    tls = authority.client()

    def subject():
        with connect(router, tls) as client:
            return client.sock.getpeercert()["serialNumber"]

    old = subject()
    streaming = connect(router, tls)
    streaming.send(request("GET", "/x"))
    response = streaming.read_head()
    authority.issue("router", "IP:127.0.0.1")  # the same files, a new certificate
    router.signal(signal.SIGHUP)
    eventually(lambda: subject() != old, "the new certificate is shown")
    gate.open()
    streaming.read_body(response)
    assert response.complete and response.events() == ["1", "2"]
    new = subject()
    certificate.write_text("not a certificate")
    router.signal(signal.SIGHUP)
    eventually(lambda: "the old configuration stays in force" in router.stderr(), "the error is logged")
    assert subject() == new


def test_certificate_and_key_must_match(authority, tmp_path, standin, warmpath):
    certificate, _ = authority.issue("one", "IP:127.0.0.1")
    _, key = authority.issue("two", "IP:127.0.0.1")
    router = warmpath(start=False)
    with pytest.raises(AssertionError, match="exited with [12] at start"):
        router.start([standin()], tls_certificate=certificate, tls_key=key)
    router.process = None
    with socket.socket() as sock:
        assert sock.connect_ex(router.address) != 0


# Backends.


def test_a_backend_is_used_over_tls(authority, standin, warmpath):
    engine = standin("a", tls=authority.server("engine", "IP:127.0.0.1"))
    router = warmpath(engine, backend_tls_ca=authority.certificate)
    body = bytes(range(256)) * 4000
    assert router.ask(request("POST", "/x", body=body)).json()["size"] == len(body)
    assert engine.requests[0].body == body
    router.wait_state(engine, "up")
    eventually(lambda: router.backend(engine)["models"] == ["test-model"], "its models are known")
    response = router.post("/v1/chat/completions", chat(stream=True, events=20), "X-Standin-Gap: 0.01")
    assert response.complete and len(response.events()) == 21
    with router.connect() as client:
        for _ in range(10):
            client.send(request("GET", "/x"))
            assert client.read_response().status == 200
    assert len({seen.connection for seen in engine.requests}) <= 4


@pytest.mark.parametrize("alternative, ca", [("IP:127.0.0.1", "other"), ("IP:127.0.0.9", "own"),
                                             ("DNS:localhost", "own"), ("IP:127.0.0.1", None)],
                         ids=["unknown authority", "other address", "name for address", "system's authorities"])
def test_a_backend_that_cannot_prove_its_name_is_not_used(authority, tmp_path, standin, warmpath, alternative, ca):
    other = Authority(tmp_path, "other")
    engine = standin("a", tls=authority.server("engine", alternative))
    trusted = {"own": authority.certificate, "other": other.certificate, None: None}[ca]
    router = warmpath(engine, backend_tls_ca=trusted, **QUIET)
    response = router.get("/x")
    assert response.status == 503 and response.error()["code"] == "backend_unreachable"
    assert response.header("retry-after")
    assert engine.requests == []


def test_verification_can_be_turned_off(authority, standin, warmpath):
    engine = standin("a", tls=authority.server("engine", "DNS:somewhere.else"))
    router = warmpath(engine, backend_tls_verify=False)
    assert router.get("/x").status == 200


def test_plain_and_tls_backends_that_are_mixed_up_fail_as_502(authority, standin, warmpath):
    plain = standin("plain")
    secured = standin("secured", tls=authority.server("engine", "IP:127.0.0.1"))
    for url in (plain.url.replace("http:", "https:"), secured.url.replace("https:", "http:")):
        router = warmpath(url, backend_tls_ca=authority.certificate, timeouts_connect="1s", retry_attempts=1, **QUIET)
        assert router.get("/x").status in (502, 503, 504)
    plain.misuse.clear()  # it was sent a TLS hello


def test_cancellation_reaches_a_tls_backend(authority, standin, warmpath):
    engine = standin("a", tls=authority.server("engine", "IP:127.0.0.1"))
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), STALL)
    router = warmpath(engine, backend_tls_ca=authority.certificate)
    client = router.connect()
    client.send(request("GET", "/x"))
    client.read_head()
    client.close()
    assert engine.requests[0].gone.wait(within(5))


def test_a_retry_leaves_a_tls_backend_that_hangs_in_its_handshake(authority, standin, warmpath):
    good = standin("good", tls=authority.server("engine", "IP:127.0.0.1"))
    mute = socket.socket()
    mute.bind(("127.0.0.1", 0))
    mute.listen(16)
    router = warmpath(f"https://127.0.0.1:{mute.getsockname()[1]}", good, backend_tls_ca=authority.certificate,
                      timeouts_connect="1s", policy="round_robin", workers=1, health_eject_failures=0, **QUIET)
    assert [router.get("/x").status for _ in range(2)] == [200] * 2
    mute.close()


def test_a_reload_with_authorities_that_cannot_be_read_is_refused(authority, tmp_path, standin, warmpath):
    engine = standin("a", tls=authority.server("engine", "IP:127.0.0.1"))
    bad = tmp_path / "bad.pem"
    bad.write_text("this is no certificate")
    lines = f"backends: ['{engine.url}']\nbackend_tls:\n  ca: "
    router = warmpath(config=lines + f"{authority.certificate}\n")
    assert router.get("/x").status == 200
    router.write_config(lines + f"{bad}\n")
    router.signal(signal.SIGHUP)
    eventually(lambda: "the old configuration stays in force" in router.stderr(), "the reload is refused")
    assert router.get("/x").status == 200
