"""Routers that share what they learn, directly and through a store."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess

import client
import pytest
from drive import drive
from engine import Tokenizer
from harness import TOKEN, eventually, free_port, within
from workloads import PATH, Ask, once, system, user

SECRET = "a-secret-of-all-routers"
ENGINES = {"cache_blocks": 4000, "prefill_speed": 20_000, "step": 0.001}
LONG = "All the rules of the house, one after the other. " * 120


def long_ask(name):
    """A prompt of its own, long enough to be predicted."""
    return Ask(name, [system(f"{name}: {LONG}"), user("What now?")], max_tokens=4)


def explain(router, ask):
    data = client.request("POST", f"/explain?path={PATH}", f"Authorization: Bearer {TOKEN}", "Connection: close",
                          "Content-Type: application/json", body=ask.encode())
    with client.Client(("127.0.0.1", router.admin_port), within(5)) as connection:
        connection.send(data)
        response = connection.read_response("POST")
    assert response.status == 200, response
    return response.json()


def matched(router, ask):
    """Tokens that each backend is believed to have of a prompt, by URL."""
    return {row["url"]: row["matched_tokens"] for row in explain(router, ask)["backends"]}


def send(router, ask):
    """The backend that served one request."""
    result, = drive(router.url, [once(ask)], 1)
    assert result.is_good, result
    return result.backend


def knows(router, ask, url):
    size = len(Tokenizer().chat(ask.body["messages"])) / 4
    return matched(router, ask).get(url, 0) >= 0.9 * size


def learns(router, ask, url):
    eventually(lambda: knows(router, ask, url), lambda: (matched(router, ask), router.status()["cluster"]), 5)


def peers_there(router):
    return sum(peer["there"] for peer in router.status()["cluster"]["peers"])


class Store:
    """A redis-server that can be killed, stopped and started again."""

    def __init__(self, directory):
        self.port = free_port()
        self.directory = directory
        self.process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
                   "--dir", str(self.directory)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        eventually(self.is_listening, "redis-server listens", 10)
        return self

    def is_listening(self):
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self):
        if self.process and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait()


@pytest.fixture
def store(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed")
    made = Store(tmp_path)
    yield made.start()
    made.kill()


@pytest.fixture(params=["mesh", "redis"])
def cluster(request, warmpath):
    """Makes routers of one cluster: cluster(3, *engines)."""
    mesh_ports = []
    url = request.getfixturevalue("store").url if request.param == "redis" else None

    def options():
        if url:
            return {"cluster_store": url, "cluster_secret": SECRET}
        mesh_ports.append(free_port())
        return {"cluster_listen": f"127.0.0.1:{mesh_ports[-1]}", "cluster_secret": SECRET,
                "cluster_peers": [f"127.0.0.1:{port}" for port in mesh_ports]}

    def make(count, *engines, **keys):
        made = [warmpath(*engines, **{"policy": "warm", "ask_usage": True, **options(), **keys}) for _ in range(count)]
        if count > 1:
            for router in made:
                eventually(lambda router=router: peers_there(router) >= count - 1, router.status, 10)
        return made

    make.kind = request.param
    return make


def test_all_routers_know_where_one_sent_a_prompt(cluster, caching):
    engines = caching(4, **ENGINES)
    routers = cluster(3, *engines)
    for number, router in enumerate(routers):
        ask = long_ask(f"prompt {number}")
        home = send(router, ask)
        assert home is not None
        for other in routers:
            learns(other, ask, home)


def test_a_router_that_joins_gets_a_snapshot(cluster, caching):
    engines = caching(4, **ENGINES)
    first, second = cluster(2, *engines)
    asks = [long_ask(f"before {number}") for number in range(12)]
    homes = [send(first if number % 2 else second, ask) for number, ask in enumerate(asks)]
    third, = cluster(1, *engines)
    for ask, home in zip(asks, homes):
        learns(third, ask, home)
    eventually(lambda: third.status()["cluster"]["snapshots_taken"] > 0, third.status)
    assert not third.status()["cluster"]["joining"]


def test_a_killed_router_takes_only_its_load_along(cluster, caching):
    engines = caching(1, **{**ENGINES, "step": 0.05})
    first, second = cluster(2, *engines)
    gone_id = first.status()["cluster"]["router"]
    connection = first.connect()
    connection.send(client.json_request(PATH, {**long_ask("slow").body, "max_tokens": 2000}))

    def load_of_first():
        return sum(peer.get("in_flight", 0) for peer in second.status()["cluster"]["peers"]
                   if peer["router"] == gone_id)

    eventually(lambda: load_of_first() == 1, second.status)
    first.kill()
    first.finished = True
    eventually(lambda: load_of_first() == 0, second.status, 4)
    send(second, long_ask("after it"))


def test_another_secret_shares_nothing(warmpath, caching):
    engines = caching(2, **ENGINES)
    ports = [free_port(), free_port()]
    routers = [warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{ports[i]}",
                        cluster_peers=f"127.0.0.1:{ports[1 - i]}", cluster_secret=secret)
               for i, secret in enumerate([SECRET, "the-secret-of-others"])]
    eventually(lambda: all("key" in router.stderr() for router in routers), lambda: [r.stderr() for r in routers], 10)
    ask = long_ask("alone")
    home = send(routers[0], ask)
    assert knows(routers[0], ask, home)
    assert not knows(routers[1], ask, home)
    assert all(peers_there(router) == 0 for router in routers)


def test_requests_go_on_while_the_store_is_gone(cluster, caching, request):
    if cluster.kind != "redis":
        pytest.skip("the mesh has no store")
    store = request.getfixturevalue("store")
    engines = caching(2, **ENGINES)
    first, second = cluster(2, *engines)
    store.kill()
    eventually(lambda: not first.status()["cluster"]["up"], first.status)
    for number in range(5):
        send(first, long_ask(f"alone {number}"))
    store.start()
    for router in (first, second):
        eventually(lambda router=router: peers_there(router) == 1, router.status, 10)
    ask = long_ask("together again")
    learns(second, ask, send(first, ask))
    home = matched(first, long_ask("alone 3"))
    learns(second, long_ask("alone 3"), max(home, key=home.get))
    for router in (first, second):
        lost = [line for line in router.stderr().splitlines() if "cluster: store" in line and "lost" in line]
        assert len(lost) == 1, router.stderr()


def test_draining_and_weight_hold_on_every_router_and_on_one_that_joins(cluster, caching):
    engines = caching(2, **ENGINES)
    first, second = cluster(2, *engines)
    url = engines[0].url
    backend = first.backend(url)
    assert first.admin("POST", f"/backends/{backend['id']}/drain").status == 200
    assert first.admin("PATCH", f"/backends/{backend['id']}", {"weight": 7}).status == 200

    def is_set(router):
        row = router.backend(url)
        return row["state"] == "draining" and row["weight"] == 7

    eventually(lambda: is_set(second), second.backends)
    third, = cluster(1, *engines)
    eventually(lambda: is_set(third), third.backends)
    backend = second.backend(url)
    assert second.admin("POST", f"/backends/{backend['id']}/ready").status == 200
    for router in (first, third):
        eventually(lambda router=router: router.backend(url)["state"] != "draining", router.backends)
