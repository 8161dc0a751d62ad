"""KV events of simulated engines, as the libraries of real routers see them: ZeroMQ and msgpack."""
import json
import socket as tcp
import subprocess

import harness
import msgpack
import pytest
import zmq
from test_71_engine import Fleet

KEY = 0xa4c717290894d44f  # above 2^63: negative for engines whose hashes are signed
SIGNED = KEY - 2**64
PARENT = 0x2ceabcfae6d332ea
SECONDS = 1755907200.5
END = b"\xff" * 8


class Publisher:
    """One `kv_publish`, which gets the changes of a cache line by line."""

    def __init__(self, program, format_name, topic, batches, *more):
        self.process = subprocess.Popen([program, format_name, topic, "4", str(batches), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        word, self.port, self.replay_port = self.process.stdout.readline().split()
        assert word == "ports"

    def tell(self, *lines):
        self.process.stdin.write("".join(line + "\n" for line in lines))
        self.process.stdin.flush()

    def status(self):
        self.tell("status")
        return json.loads(self.process.stdout.readline())

    def say_all(self):
        """One event of each kind, in one batch."""
        self.tell(f"stored {PARENT} {KEY} 1 2 3 300", f"removed {KEY}", "cleared", f"flush {SECONDS}")


@pytest.fixture
def publisher(binary):
    program = binary.parent / "kv_publish"
    made = []

    def make(format_name="vllm", topic="kv@engine", batches=1000, *more):
        made.append(Publisher(program, format_name, topic, batches, *more))
        return made[-1]

    yield make
    for one in made:
        one.process.stdin.close()
        assert one.process.wait(harness.within(5)) == 0


@pytest.fixture
def sockets():
    """Makes connected sockets: sockets(zmq.SUB, port, option=value)."""
    with zmq.Context() as context:

        def make(kind, port, **options):
            socket = context.socket(kind)
            socket.linger = 0
            socket.rcvtimeo = int(harness.within(5) * 1000)
            for name, value in options.items():
                setattr(socket, name, value)
            socket.connect(f"tcp://127.0.0.1:{port}")
            return socket

        yield make
        context.destroy(linger=0)


@pytest.fixture
def subscribe(sockets):
    def make(publisher, topic="", **options):
        before = publisher.status()["subscribers"]
        socket = sockets(zmq.SUB, publisher.port, **options)
        socket.subscribe(topic)
        harness.eventually(lambda: publisher.status()["subscribers"] > before, "the subscription is known")
        return socket

    return make


def sequence_of(frame):
    assert len(frame) == 8
    return int.from_bytes(frame, "big")


def stored_map(**more):
    return {"type": "BlockStored", "block_hashes": [KEY], "parent_block_hash": PARENT, "token_ids": [1, 2, 3, 300],
            "block_size": 4, "lora_id": None, "medium": "GPU", "lora_name": None, **more}


VLLM_MAPS = [stored_map(extra_keys=[None], group_idx=0, kv_cache_spec_kind="full_attention"),
             {"type": "BlockRemoved", "block_hashes": [KEY], "medium": "GPU", "group_idx": 0},
             {"type": "AllBlocksCleared"}]


def arrays(key, stored_length, removed_length):
    stored = ["BlockStored", [key], PARENT, [1, 2, 3, 300], 4, None, "GPU", None, [None], 0, "full_attention", None]
    removed = ["BlockRemoved", [key], "GPU", 0]
    return [stored[:stored_length], removed[:removed_length], ["AllBlocksCleared"]]


FORMATS = {
    "vllm": VLLM_MAPS,
    "vllm-0.24": VLLM_MAPS,
    "vllm-0.22": arrays(KEY, 12, 4),
    "vllm-0.20": arrays(KEY, 10, 4),
    "vllm-0.17": arrays(KEY, 9, 3),
    "vllm-0.14": arrays(KEY, 8, 3),
    "vllm-0.10.2": arrays(KEY, 7, 3),
    "vllm-0.9.1": arrays(SIGNED, 6, 2),
    "vllm-0.9.0": arrays(SIGNED, 6, 2),
    "sglang": arrays(SIGNED, 7, 3),
    "trtllm": [stored_map(block_hashes=[SIGNED]),
               {"type": "BlockRemoved", "block_hashes": [SIGNED], "medium": "GPU"},
               {"type": "AllBlocksCleared"}],
}


@pytest.mark.parametrize("name", FORMATS)
def test_events_arrive_in_the_form_of_each_engine(publisher, subscribe, name):
    engine = publisher(name)
    socket = subscribe(engine)
    engine.say_all()
    topic, sequence, payload = socket.recv_multipart()
    assert (topic, sequence_of(sequence)) == (b"kv@engine", 0)
    rank = [] if name == "vllm-0.9.0" else [0]
    assert msgpack.unpackb(payload) == [SECONDS, FORMATS[name], *rank]


def test_hashes_may_be_whole_digests(publisher, subscribe):
    engine = publisher("vllm", "", 1000, "digest")
    socket = subscribe(engine)
    engine.say_all()
    stored, removed, _ = msgpack.unpackb(socket.recv_multipart()[2])[1]
    assert [len(stored["block_hashes"][0]), len(stored["parent_block_hash"])] == [32, 32]
    assert stored["block_hashes"] == removed["block_hashes"]
    assert stored["block_hashes"][0][-8:] == KEY.to_bytes(8, "big")


def test_subscriptions_match_by_the_prefix_of_the_topic(publisher, subscribe, sockets):
    engine = publisher()
    other = sockets(zmq.SUB, engine.port)
    other.subscribe("kv@another")
    socket = subscribe(engine, "kv@")
    harness.eventually(lambda: engine.status()["subscriptions"] == 2, "both have subscribed")
    engine.say_all()
    assert socket.recv_multipart()[0] == b"kv@engine"
    other.subscribe("")
    harness.eventually(lambda: engine.status()["subscribers"] == 2, "the other subscribes to everything")
    engine.say_all()
    assert sequence_of(other.recv_multipart()[1]) == 1  # it did not get the first message
    socket.unsubscribe("kv@")
    harness.eventually(lambda: engine.status()["subscribers"] == 1, "the first has cancelled")


def test_several_subscribers_get_the_same_messages(publisher, subscribe):
    engine = publisher()
    sockets = [subscribe(engine) for _ in range(8)]
    for _ in range(100):
        engine.say_all()
    for socket in sockets:
        assert [sequence_of(socket.recv_multipart()[1]) for _ in range(100)] == list(range(100))


def replay(socket, start):
    """All replies up to the end marker, without the empty frame in front."""
    socket.send_multipart([b"", start.to_bytes(8, "big")])
    responses = []
    while not responses or responses[-1][-2] != END:
        empty, *frames = socket.recv_multipart()
        assert empty == b""
        responses.append(frames)
    return responses


@pytest.mark.parametrize("name,topic", [("vllm", [b"kv@engine"]), ("trtllm", [b"kv@engine"]),
                                        ("vllm-0.24", []), ("vllm-0.9.1", []), ("sglang", [])])
def test_replays_have_the_form_of_each_engine(publisher, sockets, name, topic):
    engine = publisher(name, batches=5)
    for _ in range(9):
        engine.say_all()
    assert engine.status()["next_sequence"] == 9
    socket = sockets(zmq.DEALER, engine.replay_port)
    *batches, end = replay(socket, 0)
    assert end == [b"" for _ in topic] + [END, b""]
    assert [sequence_of(frames[-2]) for frames in batches] == [4, 5, 6, 7, 8]  # five are kept
    for frames in batches:
        assert frames[:-2] == topic
        assert msgpack.unpackb(frames[-1])[:2] == [SECONDS, FORMATS[name]]
    assert [sequence_of(frames[-2]) for frames in replay(socket, 7)[:-1]] == [7, 8]
    assert replay(socket, 9) == [end]


def test_a_slow_subscriber_sees_a_gap_that_a_replay_fills(publisher, subscribe, sockets):
    engine = publisher(batches=200)
    socket = subscribe(engine, rcvhwm=1, rcvbuf=4096)
    block = " ".join(["100000"] * 4)
    blocks = [f"stored {key} {key + 1} {block}" for key in range(1000, 1100)]
    count = 2000  # about 20 kB each: 40 MB are more than the queue of 200 and the kernel hold
    for number in range(count):
        engine.tell(*blocks, f"flush {number}")
    assert engine.status()["next_sequence"] == count
    seen = [sequence_of(socket.recv_multipart()[1])]
    while seen[-1] != count - 1:
        if socket.poll(100):
            _, sequence, payload = socket.recv_multipart()
            seen.append(sequence_of(sequence))
            assert len(msgpack.unpackb(payload)[1]) == 100
        else:  # the newest were dropped: one more shows the gap
            engine.tell(*blocks, f"flush {count}")
            count += 1
    gaps = [(a, b) for a, b in zip(seen, seen[1:]) if b != a + 1]
    assert gaps and all(a < b for a, b in gaps)
    kept = [sequence_of(frames[-2]) for frames in replay(sockets(zmq.DEALER, engine.replay_port, rcvhwm=0), 0)[:-1]]
    assert kept == list(range(count - 200, count))


def test_heartbeats_are_answered(publisher, subscribe):
    engine = publisher()
    # Without replies the library closes the connection after any timeout.  With replies that a busy
    # machine delays, it stays open at one of the longer ones.
    for timeout_ms in (100, 500, 2500):
        socket = subscribe(engine, heartbeat_ivl=20, heartbeat_timeout=timeout_ms)
        monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        is_open = monitor.poll(2 * timeout_ms) == 0
        if is_open:
            break
        socket.disable_monitor()
        socket.close()
        harness.eventually(lambda: engine.status()["subscribers"] == 0, "the subscription has ended")
    assert is_open
    engine.say_all()
    assert sequence_of(socket.recv_multipart()[1]) == 0
    socket.disable_monitor()


def test_after_a_restart_numbers_begin_at_0_again(publisher, subscribe):
    engine = publisher()
    socket = subscribe(engine, reconnect_ivl=10)
    for _ in range(3):
        engine.say_all()
    assert [sequence_of(socket.recv_multipart()[1]) for _ in range(3)] == [0, 1, 2]
    engine.tell("restart")
    # The library repeats its subscriptions only in calls of the thread that owns the socket.
    harness.eventually(lambda: not socket.poll(1) and engine.status()["subscribers"] == 1,
                       "the library has connected again")
    engine.say_all()
    assert sequence_of(socket.recv_multipart()[1]) == 0


def is_refused(port):
    with tcp.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) != 0


def test_a_crashed_engine_is_silent_and_starts_again_at_number_0(binary, tmp_path, sockets):
    ports = [harness.free_port(), harness.free_port()]
    engines = Fleet(binary, tmp_path / "engine.stderr", 1, speed=20, kv_events_port=ports[0], kv_replay_port=ports[1])

    def tokens_replayed():
        batches = [msgpack.unpackb(frames[-1]) for frames in replay(sockets(zmq.DEALER, ports[1]), 0)[:-1]]
        return [event["token_ids"] for _, events, _ in batches for event in events]

    try:
        for first in (0, 100):
            engines.post("/v1/completions", {"prompt": list(range(first, first + 33)), "max_tokens": 1})
        assert tokens_replayed() == [list(range(32)), list(range(100, 132))]
        engines.post("/sim/faults", {"crash_s": 2})
        harness.eventually(lambda: all(is_refused(port) for port in ports), "the ports are closed")
        harness.eventually(lambda: not any(is_refused(port) for port in ports), "it is back")
        assert tokens_replayed() == []
        engines.post("/v1/completions", {"prompt": list(range(33)), "max_tokens": 1})
        assert tokens_replayed() == [list(range(32))]
        assert sequence_of(replay(sockets(zmq.DEALER, ports[1]), 0)[0][-2]) == 0
    finally:
        engines.stop()
