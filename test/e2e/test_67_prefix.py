"""Requests go to the backend that has their prefix cached, without overloading it.

The engines have real prefix caches (engine.py).  Cached tokens are those that the engines reused,
never the router's belief.  Upper bounds come from replaying the same requests in the cache of a
single engine.
"""
import collections
import hashlib
import json
import random

import client
import pytest
import workloads
from drive import Account, drive
from engine import Tokenizer
from harness import TOKEN, eventually, within
from standin import LAST_CHUNK, SSE_HEAD, Gate, chunk, event
from workloads import PATH, Ask, system, text, user

# Each engine holds ten of the groups' prompts.  A warm request takes 8 ms to its first token, a
# cold one 80 ms, and each 150 ms to its last.
ENGINES = {"cache_blocks": 2000, "prefill_speed": 40_000, "step": 0.01, "stream_interval": 8}
QUICK = {"prefill_speed": 1_000_000, "step": 0.0}
WARM = {"policy": "warm", "ask_usage": True}


def explain(router, ask, raw=None):
    """The router's explanation of a request."""
    data = client.request("POST", f"/explain?path={ask.path}", f"Authorization: Bearer {TOKEN}", "Connection: close",
                          "Content-Type: application/json", body=raw or ask.encode())
    with client.Client(("127.0.0.1", router.admin_port), within(5)) as connection:
        connection.send(data)
        response = connection.read_response("POST")
    assert response.status == 200, response
    return response.json()


def matched(router, ask, raw=None):
    """Tokens that each backend is believed to have of a prompt, by URL."""
    return {row["url"]: row["matched_tokens"] for row in explain(router, ask, raw)["backends"]}


def send(router, ask, *lines):
    """The result of one request on a connection of its own."""
    result, = drive(router.url, [workloads.once(ask)], 1, lines=lines)
    assert result.is_good, result
    return result


def learned(router, ask, url, share=0.9):
    """Waits until the router believes that the backend has nearly all of the prompt."""
    size = len(Tokenizer().chat(ask.body["messages"])) / 4
    eventually(lambda: matched(router, ask)[url] >= share * size, lambda: explain(router, ask))


# Hits and balance.


@pytest.mark.timeout(300)
@pytest.mark.parametrize("is_told", [True, False], ids=["engines tell what was cached", "engines tell nothing"])
def test_eight_caches_hit_like_one_as_large_as_all(caching, warmpath, is_told):
    engines = caching(4, 4, report_cached=is_told, **ENGINES)
    router = warmpath(*engines, policy="warm", ask_usage=is_told)
    account = Account(drive(router.url, workloads.groups(1), 32), engines)
    print(account)
    possible = workloads.replay_one(workloads.groups(1), 8 * ENGINES["cache_blocks"])
    assert account.failures == []
    assert account.hit_rate >= possible.hit_rate - 0.03, account
    assert account.peak(account.requests) <= 1.25, account
    assert account.peak(account.prompt_tokens) <= 1.25, account


@pytest.mark.timeout(300)
def test_one_hot_prompt_overloads_no_backend(caching, warmpath):
    engines = caching(4, 4, **ENGINES)
    router = warmpath(*engines, **WARM)
    account = Account(drive(router.url, workloads.hot(1), 32), engines)
    print(account)
    assert account.failures == []
    assert account.peak(account.requests) <= 1.5, account
    assert account.peak(account.prompt_tokens) <= 1.5, account
    assert account.hits() >= 0.95, account


@pytest.mark.timeout(300)
@pytest.mark.parametrize("percent, hits", [(50, 0.91), (70, 0.90), (90, 0.97)])
def test_hits_follow_the_share_of_the_common_prefix(caching, warmpath, percent, hits):
    """Published hits are requests sent to the backend of the one before; here the shared part must
    be cached.

    Published runs last half an hour, so the first quarter of this one is a warm-up.  Their thirty
    users think between requests, so that about ten requests run at one time.
    """
    engines = caching(4, 4, **{**ENGINES, "cache_blocks": 2500})
    router = warmpath(*engines, **WARM)
    account = Account(drive(router.url, workloads.sharing(1, percent / 100), 10), engines)
    assert account.failures == []
    steady = account.results[len(account.results) // 4:]
    reused = sum(min(result.cached_tokens, result.ask.shared_cached) for result in steady)
    shareable = sum(result.ask.shared_cached for result in steady)
    report = (f"{percent}% shared: hits {account.hits(steady):.1%}, of the tokens that are shared "
              f"{reused / shareable:.1%}, as published {account.repeats(steady):.1%}; {account}")
    print(report)
    assert account.hits(steady) >= hits, report
    assert reused / shareable >= hits, report


@pytest.mark.timeout(300)
def test_prompts_that_share_nothing_are_spread_evenly(caching, warmpath):
    engines = caching(4, 4, **{**ENGINES, "step": 0.002})
    router = warmpath(*engines, **WARM)
    account = Account(drive(router.url, workloads.hot(1, requests=600, share=0, shared=50), 32), engines)
    assert account.failures == []
    assert account.peak(account.requests) <= 1.25, account


@pytest.mark.timeout(300)
def test_a_killed_backend_takes_only_its_own_share_along(caching, warmpath):
    """Responses are not streamed: a stream that has begun cannot be retried."""
    engines = caching(4, 3, 1, **ENGINES)
    victim = engines[-1]
    router = warmpath(*engines, **WARM)
    killed_at = []

    def kill_once(results):
        if len(results) >= 700 and not killed_at:
            victim.host.kill()
            killed_at.append(results[-1].begun_at)

    account = Account(drive(router.url, workloads.groups(2, stream=False), 32, on_result=kill_once), engines[:-1])
    print(account)
    assert account.failures == []
    before = [result for result in account.results if result.begun_at < killed_at[0]]
    after = [result for result in account.results if result.begun_at > killed_at[0]]
    homes = collections.defaultdict(collections.Counter)
    for result in before:
        homes[result.ask.group][result.backend] += 1
    orphans = {group for group, counts in homes.items() if counts.most_common(1)[0][0] == victim.url}
    late = after[len(after) // 4:]
    assert orphans and victim.url not in {result.backend for result in late}
    assert len({result.backend for result in late if result.ask.group in orphans}) > 1, "its share is shared out"
    others = [result for result in after if result.ask.group not in orphans]
    assert account.hits(others) >= 0.9, account
    assert account.hits(late) >= 0.9, account
    seven = collections.Counter(result.backend for result in late)
    assert len(seven) == 7 and account.peak(seven) <= 1.5, seven


# Chats.


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_the_next_turn_goes_where_the_last_one_went(caching, warmpath, stream):
    engines = caching(4, **{**ENGINES, "step": 0.003})
    router = warmpath(*engines, **WARM)
    account = Account(drive(router.url, workloads.chats(1, stream=stream), 12), engines)
    print(account)
    assert account.failures == []
    chats = collections.defaultdict(list)
    for result in account.results:
        chats[result.ask.group].append(result)
    pairs = [pair for turns in chats.values() for pair in zip(turns, turns[1:])]
    stayed = [pair for pair in pairs if pair[0].backend == pair[1].backend]
    assert len(stayed) >= 0.95 * len(pairs), account
    assert [pair for pair in stayed if not pair[1].is_hit] == [], "prompt and response of the last turn are cached"
    assert account.peak(account.requests) <= 1.5, account


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_responses_are_believed_to_be_cached(caching, warmpath, stream):
    engines = caching(3, **QUICK)
    router = warmpath(*engines, **WARM)
    rng = random.Random(3)
    messages = [system(text(rng, 300)), user(text(rng, 100))]
    first = send(router, Ask(0, messages, max_tokens=800, stream=stream))
    follow = Ask(0, [*messages, {"role": "assistant", "content": first.text}, user(text(rng, 50))])
    eventually(lambda: matched(router, follow)[first.backend] >= 0.95 * 1200, lambda: explain(router, follow))
    assert sum(matched(router, follow).values()) <= 1270, "no other backend has any of it"
    assert explain(router, follow)["chosen"] == first.backend


# The router's belief.


def test_explain_shows_the_decision_and_changes_nothing(caching, warmpath):
    engines = caching(3, **QUICK)
    router = warmpath(*engines, **WARM)
    ask = Ask(0, [user(text(random.Random(1), 1000))])
    cold = explain(router, ask)
    assert cold["policy"] == "warm" and cold["chosen"] in {engine.url for engine in engines}
    assert 900 <= cold["prompt_tokens"] <= 1100 and cold["prompt_blocks"] > 0
    assert {row["url"] for row in cold["backends"]} == {engine.url for engine in engines}
    for row in cold["backends"]:
        assert set(row) >= {"url", "matched_blocks", "matched_tokens", "queued_tokens", "running_requests",
                            "predicted_ms", "cost", "chosen"}
        assert row["matched_blocks"] == row["matched_tokens"] == row["queued_tokens"] == row["running_requests"] == 0
        assert row["chosen"] == (row["url"] == cold["chosen"])
    assert [row["matched_tokens"] for row in explain(router, ask)["backends"]] == [0, 0, 0], "asking is not sending"
    assert [engine.log() for engine in engines] == [[], [], []]
    home = send(router, ask).backend
    learned(router, ask, home)
    warm = explain(router, ask)
    rows = {row["url"]: row for row in warm["backends"]}
    assert warm["chosen"] == home and rows[home]["chosen"] and rows[home]["matched_blocks"] > 0
    assert all(row["matched_tokens"] == 0 for url, row in rows.items() if url != home)
    assert all(rows[home]["predicted_ms"] < row["predicted_ms"] for url, row in rows.items() if url != home)
    assert all(rows[home]["cost"] < row["cost"] for url, row in rows.items() if url != home)


def test_a_decision_is_shown_on_request(caching, warmpath):
    router = warmpath(*caching(2, **QUICK), **WARM)
    ask = Ask(0, [user("hello")], stream=False)
    assert send(router, ask, "x-warmpath-decision: 1").decision
    assert send(router, ask).decision is None


def test_a_common_prefix_is_matched_to_its_end(caching, warmpath):
    router = warmpath(*caching(2, **QUICK), **WARM)
    rng = random.Random(4)
    prompt = system(text(rng, 2000))
    first = Ask(0, [prompt, user(text(rng, 1000))])
    home = send(router, first).backend
    learned(router, first, home)
    found = matched(router, Ask(0, [prompt, user(text(rng, 1000))]))[home]
    assert 1900 <= found <= 2010, "the system prompt, and no more than that"


def test_another_salt_is_another_prompt(caching, warmpath):
    engines = caching(3, **QUICK)
    router = warmpath(*engines, **WARM)
    messages = [user(text(random.Random(1), 1000))]
    first = Ask(0, messages, cache_salt="one")
    learned(router, first, send(router, first).backend)
    for other in (Ask(0, messages, cache_salt="two"), Ask(0, messages), Ask(0, messages, cache_salt="")):
        assert set(matched(router, other).values()) == {0}, other.body.get("cache_salt")
    account = Account(drive(router.url, workloads.tenants(1), 4), engines)
    assert account.hits() >= 0.9, account


def test_another_model_is_another_prompt(caching, warmpath):
    router = warmpath(*caching(2, models=["test-model", "other"], **QUICK), **WARM)
    messages = [user(text(random.Random(1), 1000))]
    first = Ask(0, messages)
    learned(router, first, send(router, first).backend)
    assert set(matched(router, Ask(0, messages, model="other")).values()) == {0}


def other_order(value):
    return dict(reversed(value.items()))


SPELLINGS = {
    "not escaped": lambda body: json.dumps(body, ensure_ascii=False),
    "all escaped": lambda body: json.dumps(body).replace("cache", "\\u0063ache").replace("!", "\\u0021"),
    "indented": lambda body: json.dumps(body, indent=2),
    "other order": lambda body: json.dumps(other_order(body)),
    "content before role": lambda body: json.dumps({**body, "messages": [*map(other_order, body["messages"])]}),
    "in parts": lambda body: json.dumps({**body, "messages": [
        {**message, "content": [{"type": "text", "text": message["content"]}]} for message in body["messages"]]}),
    "other settings": lambda body: json.dumps({**body, "temperature": 0.5, "max_tokens": 3, "stream": False}),
}


def test_the_same_prompt_in_another_spelling_is_the_same(caching, warmpath):
    router = warmpath(*caching(2, **QUICK), **WARM)
    rng = random.Random(6)
    ask = Ask(0, [system(text(rng, 500)), user(text(rng, 500))])
    learned(router, ask, send(router, ask).backend)
    expected = matched(router, ask)
    assert {name: matched(router, ask, spell(ask.body).encode()) for name, spell in SPELLINGS.items()} == dict.fromkeys(
        SPELLINGS, expected)


def test_tools_come_first_wherever_they_stand(caching, warmpath):
    router = warmpath(*caching(2, **QUICK), **WARM)
    messages = [user(text(random.Random(6), 1000))]
    ask = Ask(0, messages, tools=workloads.TOOLS)
    home = send(router, ask).backend
    eventually(lambda: matched(router, ask)[home] > 1000, lambda: explain(router, ask))
    assert matched(router, ask, json.dumps(other_order(ask.body)).encode()) == matched(router, ask)
    assert set(matched(router, Ask(0, messages)).values()) == {0}, "without them it begins otherwise"


def test_token_ids_are_matched_block_by_block(caching, warmpath):
    engines = caching(4, **QUICK)
    router = warmpath(*engines, **WARM)
    ids = [random.Random(1).randrange(1 << 16) for _ in range(1000)]
    ask = Ask(0, None, path="/v1/completions", prompt=ids, stream=False)
    assert explain(router, ask)["prompt_tokens"] == 1000
    home = send(router, ask).backend
    eventually(lambda: matched(router, ask)[home] >= 992, lambda: explain(router, ask))
    longer = Ask(0, None, path="/v1/completions", prompt=ids[:600] + [7] * 400)
    assert {url: tokens for url, tokens in matched(router, longer).items() if tokens} == {home: 592}
    account = Account(drive(router.url, workloads.token_groups(1), 8), engines)
    assert account.failures == []
    assert account.hits() >= 0.9, account


def test_how_much_text_makes_a_token_is_learned(caching, warmpath):
    """This tokenizer needs a third more tokens than the usual four bytes each."""
    router = warmpath(*caching(2, token_size=3, **QUICK), **WARM)
    rng = random.Random(2)
    for _ in range(40):
        send(router, Ask(0, [user(text(rng, 750))], stream=False, max_tokens=1))
    eventually(lambda: 900 <= explain(router, Ask(0, [user(text(rng, 750))]))["prompt_tokens"] <= 1100,
               lambda: explain(router, Ask(0, [user(text(rng, 750))])))


# Belief follows the engines' caches.


def settle(router, asks):
    """Sends each prompt until the router believes it to be cached; returns the backend of each."""
    homes = [send(router, ask).backend for ask in asks]
    for ask, home in zip(asks, homes):
        learned(router, ask, home)
    return homes


def test_a_cache_that_was_lost_is_noticed(caching, warmpath):
    engines = caching(2, **QUICK)
    router = warmpath(*engines, **WARM)
    rng = random.Random(7)
    asks = [Ask(number, [user(text(rng, 1000))], stream=number % 2 == 0, max_tokens=1) for number in range(24)]
    homes = settle(router, asks)
    lost = collections.Counter(homes).most_common(1)[0][0]
    next(engine for engine in engines if engine.url == lost).flush()
    gone = [ask for ask, home in zip(asks, homes) if home == lost]
    kept = [(ask, home) for ask, home in zip(asks, homes) if home != lost]
    for ask in gone[:4]:
        send(router, ask)
    for ask in gone[4:]:
        eventually(lambda: matched(router, ask)[lost] < 100, lambda: explain(router, ask))
    for ask, home in kept:
        assert matched(router, ask)[home] >= 900, "the other one still has its own"
    account = Account(drive(router.url, [workloads.once(ask) for ask in gone * 2], 1), engines)
    assert all(result.cached_tokens >= 900 for result in account.results[len(gone):]), "and it is learned anew"


def test_an_engine_that_came_back_is_believed_empty(caching, warmpath):
    engines = caching(1, 1, **QUICK)
    router = warmpath(*engines, health_interval="100ms", health_fall=1, health_rise=1, **WARM)
    rng = random.Random(8)
    asks = [Ask(number, [user(text(rng, 1000))], stream=False, max_tokens=1) for number in range(12)]
    homes = settle(router, asks)
    lost = next(engine for engine in engines if engine.url == homes[0])
    lost.host.kill()
    router.wait_state(lost, "down", "ejected")
    lost.host.start()
    router.wait_state(lost, "up", seconds=15)
    for ask, home in zip(asks, homes):
        if home == lost.url:
            eventually(lambda: matched(router, ask)[home] < 100, lambda: explain(router, ask))


def test_a_smaller_cache_than_the_traffic_needs_is_not_believed_to_hold_it(caching, warmpath):
    """One engine with room for 8 prompts: of 24, the first ones are evicted, and the router knows.
    """
    router = warmpath(*caching(1, cache_blocks=520, **QUICK), **WARM)
    rng = random.Random(9)
    asks = [Ask(number, [user(text(rng, 1000))], stream=False, max_tokens=1) for number in range(24)]
    for _ in range(2):
        for ask in asks:
            home = send(router, ask).backend
    learned(router, asks[-1], home)
    for ask in asks[:8]:
        eventually(lambda: matched(router, ask)[home] < 100, lambda: explain(router, ask))


# Usage: requested by the router, shown to clients that asked.


STREAM = {"model": "test-model", "messages": [user("hello")], "max_tokens": 6, "stream": True}
NOT_ASKING = {
    "no options": STREAM,
    "null": {**STREAM, "stream_options": None},
    "empty options": {**STREAM, "stream_options": {}},
    "other options": {**STREAM, "stream_options": {"continuous_usage_stats": False}},
    "false": {**STREAM, "stream_options": {"include_usage": False}},
    "options first": {"stream_options": {"include_usage": False}, **STREAM},
    "completion": {"model": "test-model", "prompt": "hello", "stream": True},
    "token ids": {"model": "test-model", "prompt": [1, 2, 3], "stream": True},
}


def path_of(body):
    return PATH if "messages" in body else "/v1/completions"


@pytest.mark.parametrize("name", NOT_ASKING)
@pytest.mark.parametrize("ask_usage", [True, False], ids=["asked for", "not asked for"])
def test_usage_is_hidden_from_clients_that_did_not_ask(caching, warmpath, name, ask_usage):
    engine, = caching(1, **QUICK)
    router = warmpath(engine, policy="warm", ask_usage=ask_usage)
    body = NOT_ASKING[name]
    direct = engine.post(path_of(body), body)
    through = router.post(path_of(body), body)
    assert through.complete and through.body == direct.body
    assert through.events()[-1] == "[DONE]" and b"usage" not in through.body
    first, second = engine.log()
    if not ask_usage:
        assert second["digest"] == first["digest"], "the body is the client's own"
    elif body.get("stream_options") is None:
        assert second["asks_usage"], "the engine was asked"


@pytest.mark.parametrize("ask_usage", [True, False], ids=["asked for", "not asked for"])
def test_usage_is_shown_once_to_clients_that_asked(caching, warmpath, ask_usage):
    engine, = caching(1, **QUICK)
    router = warmpath(engine, policy="warm", ask_usage=ask_usage)
    body = {**STREAM, "messages": [user("hello" * 100)], "stream_options": {"include_usage": True}}
    engine.post(PATH, body)
    direct = engine.post(PATH, body)  # with the same in its cache as the next
    through = router.post(PATH, body)
    assert through.complete and through.body == direct.body
    usages = [json.loads(data)["usage"] for data in through.events()[:-1] if "usage" in data]
    assert [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages] == [112]
    assert len({row["digest"] for row in engine.log()}) == 1, "the body is the client's own"


def test_whole_responses_need_no_usage_option(caching, warmpath):
    engine, = caching(1, **QUICK)
    router = warmpath(engine, **WARM)
    body = {**STREAM, "stream": False}
    assert router.post(PATH, body).json() == engine.post(PATH, body).json()
    assert len({row["digest"] for row in engine.log()}) == 1, "the body is the client's own"


def test_usage_events_are_removed_while_the_response_flows(standin, warmpath):
    """Events are relayed at once, although some of them must be inspected."""
    engine = standin()
    words = ["one", "two", "three"]
    gates = {word: Gate() for word in words}  # each waits until the client has the event before it
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    engine.respond(
        PATH, SSE_HEAD,
        *(step for word in words
          for step in (chunk(event({"choices": [{"index": 0, "delta": {"content": word}}]})), gates[word])),
        chunk(event({"choices": [], "usage": usage})), chunk(event(b"[DONE]")), LAST_CHUNK)
    router = warmpath(engine, **WARM)
    with router.connect() as connection:
        connection.send(client.json_request(PATH, STREAM))
        response = connection.read_head()
        for word in words:
            assert connection.read_chunk(response) and word.encode() in response.pieces[-1][1], "not all at the end"
            gates[word].open()
        connection.read_body(response)
    assert response.complete and response.events()[-1] == "[DONE]" and b"usage" not in response.body
    assert engine.requests[0].json()["stream_options"] == {"include_usage": True}


# Bodies that cannot be parsed.


GARBLED = {
    "nothing": b"",
    "not JSON": b"hello, engine",
    "broken off": b'{"model": "test-model", "messages": [{"role": "user", "content": "hel',
    "not UTF-8": b'{"model": "test-model", "messages": [{"role": "user", "content": \xff\xfe}]}',
    "a list": b"[1, 2, 3]",
    "a number": b"7",
    "no prompt": b'{"model": "test-model", "stream": true}',
    "messages is a text": b'{"model": "test-model", "messages": "hello", "stream": true}',
    "messages of numbers": b'{"model": "test-model", "messages": [1, 2], "stream": true}',
    "content is a number": b'{"model": "test-model", "messages": [{"role": "user", "content": 7}]}',
    "deep": b'{"model": "test-model", "messages": ' + b"[" * 50_000,
    "zero bytes": bytes(300),
    "trailing words": b'{"model": "test-model", "messages": [{"role": "user", "content": "x"}]} and more',
}


@pytest.mark.parametrize("name", GARBLED)
def test_an_invalid_body_is_left_to_the_engine(caching, warmpath, name):
    engines = caching(2, **QUICK)
    router = warmpath(*engines, **WARM)
    response = router.ask(client.request("POST", PATH, "Content-Type: application/json", body=GARBLED[name]))
    assert response.status == 400 and response.header("x-engine"), response
    assert response.json()["error"]["type"] == "BadRequestError" and response.json()["error"]["code"] == 400
    row, = [row for engine in engines for row in engine.log()]
    assert row["digest"] == hashlib.sha256(GARBLED[name]).hexdigest(), "byte for byte"
    assert send(router, Ask(0, [user("hello")])).is_good


def test_invalid_bodies_are_spread_by_load(caching, warmpath):
    engines = caching(2, **QUICK)
    router = warmpath(*engines, **WARM)
    for _ in range(80):
        router.ask(client.request("POST", PATH, "Content-Type: application/json", body=GARBLED["broken off"]))
    assert all(len(engine.log()) >= 16 for engine in engines)
