"""Routers that share what they learn, directly and through a store."""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading

import client
import pytest
from drive import drive
from engine import Tokenizer
from harness import TOKEN, eventually, free_port, within
from name_server import NameServer
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


class Wire:
    """Stands between two routers, and can be cut: then bytes vanish, and nobody is told."""

    def __init__(self, target):
        self.target = target
        self.is_cut = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                self.sockets.append(near)
                with contextlib.suppress(OSError):
                    far = socket.create_connection(("127.0.0.1", self.target))
                    self.sockets.append(far)
                    for here, there in ((near, far), (far, near)):
                        threading.Thread(target=self.carry, args=(here, there), daemon=True).start()

    def carry(self, here, there):
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                if not self.is_cut:
                    there.sendall(data)
        for sock in (here, there):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def heal(self):
        """Bytes on their way are lost, so the connections of before cannot go on."""
        for sock in self.sockets:
            sock.close()
        self.is_cut = False

    def close(self):
        self.listener.close()
        self.heal()


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

    def command(self, *words, password=None, expect="OK"):
        login = ["-a", password, "--no-auth-warning"] if password else []
        done = subprocess.run(["redis-cli", "-p", str(self.port), *login, *words], capture_output=True, text=True,
                              check=True, timeout=within(10))
        assert expect is None or expect in done.stdout, done

    @contextlib.contextmanager
    def paused(self):
        os.kill(self.process.pid, signal.SIGSTOP)
        yield
        os.kill(self.process.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def killed(self):
        """It comes back empty."""
        self.kill()
        yield
        self.start()

    @contextlib.contextmanager
    def full(self):
        self.command("CONFIG", "SET", "maxmemory", "1")
        yield
        self.command("CONFIG", "SET", "maxmemory", "0")

    @contextlib.contextmanager
    def locked(self):
        """Those who are logged in stay so; the others are thrown out and refused."""
        self.command("CONFIG", "SET", "requirepass", "secret")
        self.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes", password="secret", expect=None)
        yield
        self.command("CONFIG", "SET", "requirepass", "", password="secret")

    @contextlib.contextmanager
    def read_only(self):
        self.command("REPLICAOF", "127.0.0.1", "1")
        yield
        self.command("REPLICAOF", "NO", "ONE")

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


def test_srv_records_name_hosts_and_ports_of_all_routers(warmpath, caching):
    """The third router dials no one: the others find it when the records name it."""
    service = "_warmpath._tcp.routers.test"
    engines = caching(2, **ENGINES)
    ports = [free_port() for _ in range(3)]
    with contextlib.closing(NameServer()) as names:
        names.addresses["host.routers.test"] = ["127.0.0.1"]
        names.services[service] = [("host.routers.test", port) for port in ports[:2]]
        routers = [warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{port}",
                            cluster_peers=f"dns+srv://{service}", cluster_secret=SECRET, dns_servers=[names.address])
                   for port in ports[:2]]
        for router in routers:
            eventually(lambda router=router: peers_there(router) == 1, router.status, 10)
        routers.append(warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{ports[2]}",
                                cluster_secret=SECRET))
        assert peers_there(routers[2]) == 0
        names.services[service] = [("host.routers.test", port) for port in ports]
        for router in routers:
            eventually(lambda router=router: peers_there(router) == 2, router.status, 10)
        ask = long_ask("told by all")
        home = send(routers[2], ask)
        for router in routers[:2]:
            learns(router, ask, home)


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


@pytest.mark.timeout(120)
@pytest.mark.parametrize("trouble", ["paused", "killed", "full", "locked", "read_only"])
def test_requests_go_on_through_trouble_of_the_store(warmpath, caching, store, trouble):
    """Under load, with three routers; afterwards they share again, without a restart."""
    engines = caching(3, **ENGINES)
    routers = [warmpath(*engines, policy="warm", cluster_store=store.url, cluster_secret=SECRET) for _ in range(3)]
    for router in routers:
        eventually(lambda router=router: peers_there(router) == 2, router.status, 10)
    is_over = threading.Event()
    results = []

    def load(lane):
        while not is_over.is_set():
            results.extend(drive(routers[lane].url, [once(long_ask(f"group {number}")) for number in range(6)], 2))

    lanes = [threading.Thread(target=load, args=(lane,)) for lane in range(3)]
    for lane in lanes:
        lane.start()
    with getattr(store, trouble)():
        for router in routers:
            eventually(lambda router=router: peers_there(router) == 0, router.status, 10)
        before = len(results)
        eventually(lambda: len(results) > before, "requests go on", 10)
    for router in routers:
        eventually(lambda router=router: peers_there(router) == 2, router.status, 20)
    is_over.set()
    for lane in lanes:
        lane.join()
    assert all(result.is_good for result in results)
    ask = long_ask("together again")
    home = send(routers[0], ask)
    learns(routers[1], ask, home)
    learns(routers[2], ask, home)
    for router in routers:
        words = [line for line in router.stderr().splitlines() if "cluster: store" in line]
        assert sum("lost" in line for line in words) == 1, words
        assert sum("connected" in line for line in words) == 2, words


@pytest.mark.timeout(60)
def test_a_partition_of_the_mesh_heals_by_itself(warmpath, caching):
    engines = caching(2, **ENGINES)
    port = free_port()
    first = warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{port}", cluster_secret=SECRET)
    wire = Wire(port)
    second = warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{free_port()}", cluster_secret=SECRET,
                      cluster_peers=wire.address)
    both = (first, second)
    for router in both:
        eventually(lambda router=router: peers_there(router) == 1, router.status, 10)
    wire.is_cut = True
    for router in both:
        eventually(lambda router=router: peers_there(router) == 0, router.status, 10)
    asks = [long_ask("of the first"), long_ask("of the second")]
    homes = [send(router, ask) for router, ask in zip(both, asks)]
    assert not knows(second, asks[0], homes[0])
    wire.heal()
    learns(second, asks[0], homes[0])
    learns(first, asks[1], homes[1])
    for router in both:
        assert router.stderr().count(": lost: ") == 1, router.stderr()
    wire.close()


def test_another_block_size_shares_nothing_and_says_so(warmpath, caching):
    engines = caching(2, **ENGINES)
    ports = [free_port(), free_port()]
    routers = [warmpath(*engines, policy="warm", cluster_listen=f"127.0.0.1:{ports[i]}", cluster_secret=SECRET,
                        cluster_peers=f"127.0.0.1:{ports[1 - i]}", prefix_block_size=size)
               for i, size in enumerate([256, 128])]
    for router in routers:
        eventually(lambda router=router: "shares nothing with this one" in router.stderr(), router.stderr, 10)
    ask = long_ask("alone")
    home = send(routers[0], ask)
    eventually(lambda: routers[1].status()["cluster"]["foreign"] > 0, routers[1].status)
    assert not knows(routers[1], ask, home)
