"""The stand-in engine that other tests rely on: its cache, its times, its responses.  Without a
router.
"""
import json
import random
import time

import client
import drive
import engine
import pytest
import workloads
from harness import eventually, within
from workloads import Ask, system, user

SEED = engine.seed_of("test-model")


def sequence(tokens, outputs=1, seed=SEED):
    return engine.Sequence(seed, b"".join(b"%04d" % token for token in tokens), 4, outputs)


def serve(cache, tokens, outputs=1, seed=SEED):
    """Cached tokens of a request that runs alone."""
    one = sequence(tokens, outputs, seed)
    assert one.admit(cache)
    for token in one.response_tokens()[:-1]:
        one.extend(cache, token.encode())
    one.release(cache)
    return one.cached_count


# The cache.


@pytest.mark.parametrize("length, cached", [(1, 0), (15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (100, 96)])
def test_only_whole_blocks_are_reused_and_the_last_token_never(length, cached):
    cache = engine.Cache(100)
    assert serve(cache, range(length)) == 0
    assert serve(cache, range(length)) == cached


def test_a_block_stands_for_all_before_it():
    cache = engine.Cache(100)
    serve(cache, range(100))
    assert serve(cache, [9999, *range(1, 100)]) == 0
    assert serve(cache, [*range(50), 9999, *range(51, 100)]) == 48


def test_models_and_salts_share_nothing():
    cache = engine.Cache(100)
    for seed in (SEED, engine.seed_of("other"), engine.seed_of("test-model", "salt"), engine.seed_of("test-model", "")):
        assert serve(cache, range(64), seed=seed) == 0
        assert serve(cache, range(64), seed=seed) == 48


def test_blocks_being_computed_already_count_as_cached():
    cache = engine.Cache(100)
    first, second = sequence(range(40)), sequence(range(40))
    assert first.admit(cache) and second.admit(cache)
    assert second.cached_count == 32
    assert cache.free_count == 100 - 4, "two blocks in common, and a tail each"


def test_the_response_is_cached_except_for_its_last_token():
    cache = engine.Cache(100)
    one = sequence(range(30), outputs=19)
    response = [token.encode() for token in one.response_tokens()]
    assert one.admit(cache)
    for token in response[:-1]:
        one.extend(cache, token)
    one.release(cache)
    follow = b"".join(b"%04d" % token for token in range(30)) + b"".join(response) + b"more"
    assert engine.Sequence(SEED, follow, 4, 1).admit(cache)
    more = engine.Sequence(SEED, follow, 4, 1)
    assert more.admit(cache)
    assert more.cached_count == 48, "30 and 18 tokens"


def test_the_end_of_a_prompt_is_evicted_before_its_prefix():
    cache = engine.Cache(10)
    serve(cache, range(96))
    serve(cache, range(1000, 1095))  # the four blank ones, and two of the first
    assert serve(cache, range(96)) == 64


def test_the_block_used_last_is_evicted_last():
    cache = engine.Cache(8)
    for begin in (0, 100, 200):
        serve(cache, range(begin, begin + 33))
    serve(cache, range(0, 33))
    serve(cache, range(300, 333))
    assert [len(cache.match(sequence(range(begin, begin + 33)).keys, 33)) for begin in (0, 100, 200)] == [2, 1, 2]


def test_blocks_in_use_are_not_evicted_and_a_request_that_does_not_fit_waits():
    cache = engine.Cache(8)
    running = sequence(range(60), outputs=4)
    assert running.admit(cache) and cache.free_count == 4
    assert not sequence(range(1000, 1060), outputs=8).admit(cache), "the response would not fit"
    other = sequence(range(1000, 1060), outputs=4)
    assert other.admit(cache) and cache.free_count == 0
    assert not sequence([1]).admit(cache)
    running.release(cache)
    assert serve(cache, range(60)) == 48


def test_the_number_of_blocks_never_changes():
    rng = random.Random(5)
    cache = engine.Cache(60)
    running = []
    for _ in range(3000):
        if running and rng.random() < 0.5:
            running.pop(rng.randrange(len(running))).release(cache)
        else:
            length = rng.randrange(1, 200)
            one = sequence(range(rng.randrange(3) * 1000, 10000)[:length], outputs=rng.randrange(1, 40))
            if one.admit(cache):
                for token in one.response_tokens()[: rng.randrange(one.output_count)]:
                    one.extend(cache, token.encode())
                running.append(one)
        used = {id(block) for one in running for block in one.blocks}
        assert len(used) + cache.free_count == 60
        assert cache.promised == sum(one.promised for one in running) <= cache.free_count
        assert all(block.users == 0 and block in cache.table[block.key] for block in cache.idle)
        assert all(block.users == 0 and block.key is None for block in cache.blank)


# The template.


def test_a_chat_is_a_prefix_of_its_continuation():
    tokenizer = engine.Tokenizer()
    turns = [system("be brief"), user("naïve \"question\" 日本")]
    before = tokenizer.chat(turns, workloads.TOOLS)
    assert tokenizer.chat([*turns, {"role": "assistant", "content": "abcdefgh"}, user("and?")],
                          workloads.TOOLS).startswith(before + b"abcdefgh")
    assert not tokenizer.chat(turns).startswith(tokenizer.chat(turns[:1])), "the user's turn is not a response"


# Over the wire.


def ask(one, body, *lines, path=workloads.PATH):
    return one.post(path, body, *lines)


def test_usage_reports_cached_tokens(caching):
    one, = caching(1)
    body = Ask(0, [user("x" * 4000)], stream=False, max_tokens=5).body
    first, second = ask(one, body).json(), ask(one, body).json()
    assert first["usage"] == {"prompt_tokens": 1003, "completion_tokens": 5, "total_tokens": 1008,
                              "prompt_tokens_details": {"cached_tokens": 0}}
    assert second["usage"]["prompt_tokens_details"] == {"cached_tokens": 992}
    assert first["choices"] == second["choices"] and len(first["choices"][0]["message"]["content"]) == 20
    one.flush()
    assert ask(one, body).json()["usage"] == first["usage"]
    counters = one.counters()
    assert (counters["requests"], counters["prompt_tokens"], counters["cached_tokens"]) == (3, 3009, 992)
    assert counters["by_model"] == {"test-model": {"prompt_tokens": 3009, "cached_tokens": 992, "output_tokens": 15}}


def test_usage_omits_cached_tokens_when_reporting_is_off(caching):
    one, = caching(1, report_cached=False)
    assert ask(one, Ask(0, [user("x")], stream=False).body).json()["usage"]["prompt_tokens_details"] is None


@pytest.mark.parametrize("path, value", [
    (workloads.PATH, {"messages": [user("hello")]}), ("/v1/completions", {"prompt": "hello"}),
    ("/v1/completions", {"prompt": [1, 2, 3]}), ("/v1/completions", {"prompt": [[1, 2, 3], [4]]}),
    ("/v1/completions", {"prompt": ["hello", "you"]})])
def test_a_stream_reports_the_same_as_a_whole_response(caching, path, value):
    one, = caching(1)
    whole = ask(one, {**value, "max_tokens": 9}, path=path).json()
    events = ask(one, {**value, "max_tokens": 9, "stream": True}, path=path).events()
    assert events.pop() == "[DONE]"
    texts = [""] * len(whole["choices"])
    for choice in (json.loads(data)["choices"][0] for data in events):
        texts[choice["index"]] += choice["delta"]["content"] if "delta" in choice else choice["text"]
    assert texts == [choice["message"]["content"] if "message" in choice else choice["text"]
                     for choice in whole["choices"]]
    assert not any("usage" in json.loads(data) for data in events)
    asked = ask(one, {**value, "max_tokens": 9, "stream": True, "stream_options": {"include_usage": True}}, path=path)
    usages = [json.loads(data) for data in asked.events()[:-1] if "usage" in json.loads(data)]
    assert [(usage["choices"], usage["usage"]["completion_tokens"]) for usage in usages] == [([], 9 * len(texts))]


@pytest.mark.quiet
def test_prefill_takes_time_for_uncached_tokens_and_prompts_wait_for_each_other(caching):
    one, = caching(1, prefill_speed=5000, step=0)

    def seconds(lanes, *bodies):
        results = drive.drive(one.url, [workloads.once(body) for body in bodies], lanes)
        return max(result.total_s for result in results)

    def prompt(letter, tokens):
        return Ask(0, [user(letter * 4 * tokens)], max_tokens=1)

    assert 0.4 <= seconds(1, prompt("a", 2000))
    assert seconds(1, prompt("a", 2000)) < 0.4
    assert 0.8 <= seconds(2, prompt("b", 2000), prompt("c", 2000)), "one after the other"
    assert 0.4 <= seconds(2, prompt("d", 2000), prompt("d", 2000)) < 0.8, "the second finds it computed"


@pytest.mark.quiet
def test_tokens_come_one_step_apart(caching):
    one, = caching(1, step=0.02)
    begun = time.monotonic()
    ask(one, Ask(0, [user("x")], max_tokens=11).body)
    assert 0.2 <= time.monotonic() - begun < 1


def test_a_client_that_leaves_frees_its_blocks(caching):
    one, = caching(1, step=0.05, prefill_speed=1000, cache_blocks=200)
    for prompt in ("short", "long " * 2000):  # leaves during decoding, and during prefill
        with client.Client(("127.0.0.1", one.port), within(5)) as connection:
            connection.send(client.json_request(workloads.PATH, Ask(0, [user(prompt)], max_tokens=100).body))
            connection.read_head()
            eventually(lambda: one.counters()["running"] == 1, "it runs")
        eventually(one.is_idle, "all blocks are free", 1)
    assert one.counters()["aborted"] == 2


def test_no_more_requests_run_than_the_limit_allows(caching):
    one, = caching(1, max_sequences=2, step=0.1)  # a response takes 0.4 s
    workload = [workloads.once(Ask(0, [user(f"{number}")], max_tokens=5)) for number in range(6)]
    seen = []
    drive.drive(one.url, workload, 6, on_result=lambda _: seen.append(one.log()))
    starts = sorted(row["first_token_at"] for row in seen[-1])
    assert starts[2] - starts[1] > 0.1 and starts[4] - starts[3] > 0.1


def test_metrics_have_the_names_of_vllm(caching):
    one, = caching(1, cache_blocks=321)
    ask(one, Ask(0, [user("x" * 400)], stream=False).body)
    text = one.ask(client.request("GET", "/metrics")).body.decode()
    labels = 'engine="0",model_name="test-model"'
    for line in (f"vllm:num_requests_running{{{labels}}} 0", f"vllm:num_requests_waiting{{{labels}}} 0",
                 f"vllm:kv_cache_usage_perc{{{labels}}} 0", f"vllm:prompt_tokens_total{{{labels}}} 103"):
        assert line in text
    assert 'block_size="16"' in text and 'num_gpu_blocks="321"' in text


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"{}", b'{"messages": "hello"}', b'{"messages": [1]}',
                                  b'{"messages": [{"role": "user", "content": 7}]}', b'{"prompt": 7}', b"\xff\xfe",
                                  b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}'])
def test_invalid_requests_are_refused(caching, data):
    one, = caching(1)
    response = one.ask(client.request("POST", workloads.PATH, "Content-Type: application/json", body=data))
    assert response.status == 400 and response.json()["error"]["code"] == 400
    assert one.ask(client.json_request(workloads.PATH, {"model": "other", "messages": []})).status == 404


# The workloads: hits of one large cache, and of eight caches in turn.


@pytest.mark.parametrize("make, blocks, possible, in_turn", [
    (lambda: workloads.groups(1), 2000, 0.87, 0.30),
    (lambda: workloads.sharing(1, 0.5), 1500, 0.48, 0.30),
    (lambda: workloads.sharing(1, 0.7), 1500, 0.67, 0.45),
    (lambda: workloads.sharing(1, 0.9), 1500, 0.87, 0.60),
    (lambda: workloads.chats(1), 2000, 0.80, 0.30),
], ids=["groups", "half", "seven tenths", "nine tenths", "chats"])
def test_the_workloads_tell_good_routing_from_bad(make, blocks, possible, in_turn):
    one = workloads.replay_one(make(), 8 * blocks)
    turns = workloads.replay_turns(make(), 8, blocks)
    assert one.hit_rate >= possible and turns.hit_rate <= in_turn, (one.hit_rate, turns.hit_rate)


def test_equal_seeds_give_equal_workloads():
    for make in (workloads.groups, workloads.hot, workloads.chats, workloads.token_groups, workloads.tenants):
        first, again, other = ([next(one).encode() for one in make(seed)] for seed in (1, 1, 2))
        assert first == again != other
