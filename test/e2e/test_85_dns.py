"""Backends with DNS names: every address is a backend, and changes are followed."""
import time

import pytest
from client import request
from harness import eventually, free_port, within
from name_server import NameServer
from standin import LAST_CHUNK, SSE_HEAD, Gate, chunk, event

QUIET = {"policy": "round_robin", "health_interval": 0, "models_learn": False, "dns_ttl_min": "100ms"}
NAME = "engines.test"


@pytest.fixture
def names():
    server = NameServer()
    yield server
    server.close()


def twins(standin, *hosts):
    """Stand-ins on one port of several addresses."""
    port = free_port()
    return [standin(host, host=host, port=port) for host in hosts]


def addresses(router):
    rows = router.admin("GET", "/backends").json()["backends"]
    return {row["address"].rsplit(":", 1)[0] for row in rows if row["state"] != "draining"}


def responding(router, count=8):
    return {router.get("/x").json()["engine"] for _ in range(count)}


def start(warmpath, names, port, **keys):
    router = warmpath(f"http://{NAME}:{port}", dns_servers=[names.address], **{**QUIET, **keys})
    if NAME in names.addresses:
        wait_addresses(router, *names.addresses[NAME])
    return router


def wait_addresses(router, *hosts):
    # The router starts without a name whose resolution takes longer than a second.
    eventually(lambda: addresses(router) == set(hosts), lambda: str(addresses(router)), 10)


def test_every_address_is_a_backend(standin, warmpath, names):
    one, two = twins(standin, "127.0.0.1", "127.0.0.2")
    names.addresses[NAME] = [one.host, two.host]
    router = start(warmpath, names, one.port)
    assert responding(router) == {"127.0.0.1", "127.0.0.2"}
    rows = router.admin("GET", "/backends").json()["backends"]
    assert all(row["url"].startswith(f"http://{NAME}:{one.port}") for row in rows)
    assert sorted(row["address"] for row in rows) == [f"127.0.0.1:{one.port}", f"127.0.0.2:{one.port}"]
    assert router.get("/x").header("x-warmpath-backend") in {row["url"] for row in rows}
    assert names.questions[0][0] == NAME


def test_a_failing_address_is_replaced_by_its_twin(standin, warmpath, names):
    one, two = twins(standin, "127.0.0.1", "127.0.0.2")
    names.addresses[NAME] = [one.host, two.host]
    router = start(warmpath, names, one.port)
    one.stop()
    assert [router.get("/x").json()["engine"] for _ in range(6)] == ["127.0.0.2"] * 6


def test_changes_are_followed(standin, warmpath, names):
    one, two, three = twins(standin, "127.0.0.1", "127.0.0.2", "127.0.0.3")
    names.addresses[NAME] = [one.host, two.host]
    router = start(warmpath, names, one.port)
    assert addresses(router) == {"127.0.0.1", "127.0.0.2"}
    names.addresses[NAME] = [two.host, three.host]
    eventually(lambda: addresses(router) == {"127.0.0.2", "127.0.0.3"}, "the new addresses", 6)
    # The admin API shows a change just before the workers have it.
    eventually(lambda: responding(router) == {"127.0.0.2", "127.0.0.3"}, "they get the requests")


def test_a_stream_outlives_its_address(standin, warmpath, names):
    one, two = twins(standin, "127.0.0.1", "127.0.0.2")
    gate = Gate()
    one.respond("/stream", SSE_HEAD, chunk(event(b"1")), gate, chunk(event(b"2")) + LAST_CHUNK)
    names.addresses[NAME] = [one.host]
    router = start(warmpath, names, one.port)
    with router.connect() as client:
        client.send(request("GET", "/stream"))
        response = client.read_head()
        assert client.read_chunk(response)
        names.addresses[NAME] = [two.host]
        eventually(lambda: responding(router, 3) == {"127.0.0.2"}, "the other address took over", 6)
        gate.open()
        client.read_body(response)
    assert response.complete and response.events() == ["1", "2"]


def test_a_name_that_does_not_exist_yet_is_followed_later(standin, warmpath, names):
    [one] = twins(standin, "127.0.0.1")
    router = start(warmpath, names, one.port)
    response = router.get("/x")
    assert response.status == 503 and response.error()
    response = router.post("/v1/embeddings", {"model": "m", "input": "x"})
    assert (response.status, response.error()["code"]) == (503, "no_backend")
    assert response.header("retry-after") == "1"
    names.addresses[NAME] = [one.host]
    eventually(lambda: router.get("/x").status == 200, "the name is found", 10)


@pytest.mark.parametrize("trouble", ["mute", "failing"])
def test_a_name_server_in_trouble_takes_no_backend_away(standin, warmpath, names, trouble):
    [one] = twins(standin, "127.0.0.1")
    names.addresses[NAME] = [one.host]
    router = start(warmpath, names, one.port)
    assert router.get("/x").status == 200
    setattr(names, trouble, True)
    asked = len(names.questions)
    eventually(lambda: len(names.questions) >= asked + 2, "it is asked again", 10)
    assert router.get("/x").status == 200
    setattr(names, trouble, False)
    names.addresses[NAME] = ["127.0.0.1", "127.0.0.2"]
    eventually(lambda: addresses(router) == {"127.0.0.1", "127.0.0.2"}, "names are followed again", 15)


def test_a_time_to_live_of_zero_does_not_flood_the_name_server(standin, warmpath, names):
    [one] = twins(standin, "127.0.0.1")
    names.addresses[NAME] = [one.host]
    names.ttl = 0
    router = start(warmpath, names, one.port, dns_ttl_min="500ms")
    begun, asked = time.monotonic(), len(names.questions)
    time.sleep(1.6)
    assert router.get("/x").status == 200
    kinds = len({kind for _, kind in names.questions})  # A, and perhaps AAAA
    more = len(names.questions) - asked
    assert more <= kinds * ((time.monotonic() - begun) / 0.5 + 2)


def test_a_long_time_to_live_is_cut(standin, warmpath, names):
    one, two = twins(standin, "127.0.0.1", "127.0.0.2")
    names.addresses[NAME] = [one.host]
    names.ttl = 86400
    router = start(warmpath, names, one.port, dns_ttl_max="300ms")
    names.addresses[NAME] = [two.host]
    eventually(lambda: addresses(router) == {"127.0.0.2"}, "the new address", 5)


def test_many_addresses_are_many_backends(standin, warmpath, names):
    hosts = [f"127.0.0.{number}" for number in range(1, 21)]
    engines = twins(standin, *hosts)
    names.addresses[NAME] = hosts
    router = start(warmpath, names, engines[0].port, workers=1)
    assert addresses(router) == set(hosts)
    assert responding(router, 20) == set(hosts)


def test_names_and_addresses_work_side_by_side(standin, warmpath, names):
    one, two = twins(standin, "127.0.0.1", "127.0.0.2")
    other = standin("other")
    names.addresses[NAME] = [one.host, two.host]
    router = warmpath(other, f"http://{NAME}:{one.port}", dns_servers=[names.address], workers=1, **QUIET)
    wait_addresses(router, "127.0.0.1", "127.0.0.2")
    assert responding(router, 9) == {"127.0.0.1", "127.0.0.2", "other"}


def test_a_silent_name_server_does_not_keep_the_router_from_starting(standin, warmpath, names):
    other = standin("other")
    names.mute = True
    begun = time.monotonic()
    router = warmpath(other, f"http://{NAME}:1", dns_servers=[names.address], **QUIET)
    assert time.monotonic() - begun < within(4)
    assert responding(router, 3) == {"other"}
