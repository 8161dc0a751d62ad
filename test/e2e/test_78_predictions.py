"""Engines publish their caches: a plain reader of their events predicts each hit, and so does the
router.
"""
import random

import client
import predictions
import pytest
import zmq
from test_71_engine import Fleet


@pytest.fixture
def mirror():
    with zmq.Context() as context:
        yield lambda port: predictions.Mirror(context, port)
        context.destroy(linger=0)


def words(rng, count):
    """Ids of words of three letters and a blank."""
    return [int.from_bytes(bytes(rng.choices(range(97, 123), k=3)) + b" ", "little") for _ in range(count)]


def ids_of(text):
    return [int.from_bytes(text[at:at + 4].encode(), "little") for at in range(0, len(text), 4)]


class Talk:
    """Conversations with one engine, in random order, each turn as ids; some repeat their last
    prompt.

    Each has an adapter and a salt, or neither.
    """

    def __init__(self, engines, seed, spaces=((None, ""),)):
        self.engines = engines
        self.rng = random.Random(seed)
        self.rank = 0
        self.common = words(self.rng, 64)
        self.talks = [(self.rng.choice(spaces), list(self.common)) for _ in range(12)]

    def turns(self, count):
        """Yields each prompt with its adapter and salt, and then its cached tokens."""
        for _ in range(count):
            number = self.rng.randrange(len(self.talks))
            space, said = self.talks[number]
            if len(said) > 600:
                said = list(self.common)
            # Often to the end of a block: a repetition then computes the last block again.
            more = self.rng.randrange(1, 60) if self.rng.random() < 0.5 else 16 - len(said) % 16
            said = said + words(self.rng, more)
            for _ in range(self.rng.choice([1, 1, 2])):
                yield space, said
                response = self.ask(space, said)
                yield response["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.talks[number] = space, said + ids_of(response["choices"][0]["text"])

    def ask(self, space, said):
        adapter, salt = space
        body = {"prompt": said, "max_tokens": self.rng.randrange(1, 40)}
        if adapter:
            body["model"] = adapter
        if salt:
            body["cache_salt"] = salt
        response = self.engines.ask(client.json_request("/v1/completions", body, f"X-data-parallel-rank: {self.rank}"))
        assert response.status == 200, response.body
        return response.json()


ALONE = [(None, "")]
APART = [(None, ""), ("a", ""), ("b", ""), ("a", "salt"), (None, "salt")]


@pytest.mark.parametrize("spaces,flags", [(ALONE, {}), (APART, {"lora": "a,b"}),
                                          (APART, {"lora": "a,b", "host_tokens": "2k"})], ids=["plain", "apart", "host"])
def test_a_reader_of_events_knows_each_hit_to_the_token(binary, tmp_path, mirror, spaces, flags):
    """A cache of 2,048 tokens for conversations of many more: blocks are stored, copied, evicted,
    stored again.
    """
    port = predictions.free_run(1)
    engines = Fleet(binary, tmp_path / "engine.stderr", 1, speed=1000, kv_tokens=2048,
                    kv_events_port=predictions.free_run(1), kv_replay_port=port, **flags)
    try:
        reader = mirror(port)
        turns = Talk(engines, 5, spaces).turns(250)
        hits = 0
        for space, prompt in turns:
            reader.catch_up()
            predicted = reader.cached(prompt, *space)
            found = next(turns)
            assert predicted == found
            hits += found > 0
        assert hits > 200
        assert reader.copies > 20 and reader.removed > 300
        assert bool(reader.tiers["CPU"]) == ("host_tokens" in flags)
    finally:
        engines.stop()


def test_flushed_blocks_are_known_to_be_gone(binary, tmp_path, mirror):
    port = predictions.free_run(1)
    engines = Fleet(binary, tmp_path / "engine.stderr", 1, speed=1000, kv_tokens=1024, host_tokens=1024,
                    kv_events_port=predictions.free_run(1), kv_replay_port=port)
    try:
        reader = mirror(port)
        turns = Talk(engines, 6).turns(120)
        for number, (_, prompt) in enumerate(turns):
            if number % 40 == 39:
                assert engines.post("/reset_prefix_cache", {}).status == 200
            reader.catch_up()
            predicted = reader.cached(prompt)
            assert predicted == next(turns)
            assert predicted == 0 or number % 40 != 39
    finally:
        engines.stop()


def test_each_rank_publishes_its_own_cache(binary, tmp_path, mirror):
    """Three engines behind one port: each conversation stays with one, and all have the common
    prefix.
    """
    ports = predictions.free_run(3)
    engines = Fleet(binary, tmp_path / "engine.stderr", 1, ranks=3, speed=1000, kv_tokens=1024,
                    kv_events_port=predictions.free_run(3), kv_replay_port=ports)
    try:
        readers = [mirror(ports + rank) for rank in range(3)]
        talk = Talk(engines, 7)
        turns = talk.turns(120)
        for number, (_, prompt) in enumerate(turns):
            talk.rank = number % 3
            readers[talk.rank].catch_up()
            predicted = readers[talk.rank].cached(prompt)
            assert predicted == next(turns)
        assert [reader.ranks for reader in readers] == [{0}, {1}, {2}]
        hits = [f'vllm:prefix_cache_hits_total{{engine="{rank}",model_name="codellama-13b"}} ' for rank in range(3)]
        page = engines.get("/metrics").body.decode()
        assert all(float(page.split(line)[1].split()[0]) > 1000 for line in hits)
    finally:
        engines.stop()


def test_a_run_reports_predicted_and_cached_tokens(binary, tmp_path):
    """Without events the router predicts by belief.  It does not know the ids of responses, so it
    predicts too little.
    """
    with predictions.Site(binary, tmp_path, count=2, events=False, speed=20) as site:
        report = site.measure(workload="chat", rate=60, requests=200)
        assert len(report.lines) == 200 and not report.failures, report
        assert report.summary["requests"]["succeeded"] == 200
        assert report.hit_rate > 0.3, report
        assert 0.2 < report.equal_share < 1, report
        assert report.under > report.over, report
        assert {line["backend"] for line in report.responses} == {site.fleet.url(0), site.fleet.url(1)}


# Two caches of 3,000 blocks, filled and emptied every few seconds.
SMALL = {"count": 2, "speed": 4, "kv_tokens": 48000}
LOAD = {"workload": "chat", "rate": 30}


def told(site, what):
    return sum(backend["events"]["told"][what] for backend in site.router.backends().values())


def measure_predictions(site, share, seed=1, before=lambda: None, **flags):
    """The report of a run in which that share of the requests is predicted to the token.

    Of three runs, each after a call of `before`, one must have it: a block may be evicted while a
    request for it is under way, and a delay of a process makes that more likely.
    """
    for number in range(3):
        before()
        report = site.measure(**LOAD, seed=seed + number, **flags)
        assert not report.failures, report
        if report.equal_share >= share:
            return report
    raise AssertionError(f"three runs are below {share:.0%}, the last with {report}")


def test_the_router_knows_what_is_cached_while_blocks_come_and_go(binary, tmp_path):
    with predictions.Site(binary, tmp_path, **SMALL) as site:
        report = measure_predictions(site, 0.98, duration="8s", warm_up="3s")
        assert told(site, "removed") > 2000
        assert report.hit_rate > 0.1, report
        assert report.over + report.under < 0.01, report


def test_a_rank_is_known_apart_from_its_neighbour(binary, tmp_path):
    with predictions.Site(binary, tmp_path, ranks=2, **{**SMALL, "count": 1}) as site:
        report = measure_predictions(site, 0.98, duration="7s", warm_up="3s")
        assert {line["backend"] for line in report.responses} == {f"{site.fleet.url(0)}#rank={rank}" for rank in (0, 1)}


def test_lost_events_are_requested_again(binary, tmp_path):
    with predictions.Site(binary, tmp_path, **SMALL) as site:
        def lose_events():
            assert site.fleet.post("/sim/faults/all", {"events_loss": 0.05}).status == 200
            measure_predictions(site, 0.95, duration="7s", warm_up="3s")
            assert sum(backend["events"]["stream"]["gaps"] for backend in site.router.backends().values()) > 10
            assert site.fleet.post("/sim/faults/all", {"events_loss": 0}).status == 200

        measure_predictions(site, 0.98, seed=2, before=lose_events, duration="8s", warm_up="4s")


def test_a_restarted_engine_is_known_again_within_seconds(binary, tmp_path):
    with predictions.Site(binary, tmp_path, **SMALL) as site:
        def crash():
            assert site.fleet.post("/sim/faults", {"crash_s": 1}).status == 200

        site.measure(**LOAD, duration="4s")
        # Requests count from five seconds after the crash on.
        after = measure_predictions(site, 0.98, seed=2, before=crash, duration="9s", warm_up="5s")
        assert {line["backend"] for line in after.responses} == {site.fleet.url(0), site.fleet.url(1)}
        assert all(backend["events"]["state"] == "live" for backend in site.router.backends().values())
        restarts = [backend["events"]["stream"]["restarts"] for backend in site.router.backends().values()]
        assert restarts[0] >= 1 and restarts[1] == 0
