"""Traffic for the tests of cache-aware routing: requests and their order.

A workload is a list of conversations.  A conversation is a generator that yields one Ask after
another and gets the text of each response, since a chat repeats the engine's responses.  Everything
follows from a seed: the same workload can be sent to a router, and replayed in the cache of a
single engine for the upper bound.

    replay_one(groups(seed=1), cache_blocks=16000)      one cache as large as the fleet's
    replay_turns(groups(seed=1), 8, cache_blocks=2000)  eight caches, in turn
"""
import json
import random

import engine

PATH = "/v1/chat/completions"
TOKENIZER = engine.Tokenizer()
OUTPUT = 16  # tokens of a response

# Of different lengths, so that nothing is aligned by luck; some need escapes in JSON.
WORDS = ["a", "of", "the", "and", "cache", "prefix", "replica", "warm", "because", "whoever", "\n\n", "\"quoted\"",
         "naïve", "Straße", "日本語", "back\\slash"]
WORDS = [f"{first}{second}" for first in WORDS for second in ("", "s", "ing", "-1", "7", ",", ".", ": ", "ed", "en",
                                                              "ly", "er", "est", "!", "?", "_x")]


def text(rng, token_count):
    """About that many tokens, and never the same text again."""
    words = [f"{rng.getrandbits(64):x}"]
    size = token_count * TOKENIZER.size
    length = len(words[0])
    while length < size:
        more = [WORDS[byte] for byte in rng.randbytes(64)]
        words += more
        length += sum(map(len, more)) + len(more)
    return " ".join(words).encode()[:size].decode(errors="ignore")


class Ask:
    """One request.  `shared` is the number of its first tokens that others share: the part worth
    caching.
    """

    def __init__(self, group, messages=None, shared=0, path=PATH, **more):
        self.group = group
        self.path = path
        self.body = {"model": "test-model", "max_tokens": OUTPUT, "stream": True, **more}
        if messages is not None:
            self.body["messages"] = messages
        self.shared = shared

    @property
    def shared_cached(self):
        """The least that an engine with the shared part reports as cached."""
        return self.shared // engine.BLOCK_TOKENS * engine.BLOCK_TOKENS

    def encode(self):
        return json.dumps(self.body).encode()

    def text_of(self, response):
        choice = response["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]


def once(ask):
    yield ask


def system(content):
    return {"role": "system", "content": content}


def user(content):
    return {"role": "user", "content": content}


def shared_tokens(messages, tools=None):
    # Without the generation prompt.
    return (len(TOKENIZER.chat(messages, tools)) // TOKENIZER.size) - 1


def evenly(rng, count, requests):
    """The group of each request: in random order, all about equally often, so that balance can be
    perfect.
    """
    picks = [number % count for number in range(requests)]
    rng.shuffle(picks)
    return picks


def groups(seed, count=40, requests=1400, shared=3000, own=300, **more):
    """Groups of requests with a system prompt each, and a question of their own."""
    rng = random.Random(seed)
    prompts = [system(text(rng, shared)) for _ in range(count)]
    sizes = [shared_tokens([prompt]) for prompt in prompts]
    picks = evenly(rng, count, requests)
    return [once(Ask(pick, [prompts[pick], user(text(rng, own))], sizes[pick], **more)) for pick in picks]


TOOLS = [{"type": "function", "function": {"name": f"tool_{number}", "description": "Looks \"it\" up.", "parameters": {
    "type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}}} for number in range(6)]


def hot(seed, requests=1000, share=0.8, shared=2000, own=200, **more):
    """One prompt, tools included, that most requests begin with; the others share nothing."""
    rng = random.Random(seed)
    prompt = system(text(rng, shared))
    size = shared_tokens([prompt], TOOLS)
    workload = []
    for number in range(requests):
        if rng.random() < share:
            ask = Ask("hot", [prompt, user(text(rng, own))], size, tools=TOOLS, **more)
        else:
            ask = Ask(f"cold-{number}", [user(text(rng, shared + own))], **more)
        workload.append(once(ask))
    return workload


# Lengths of prompts in the published stress mix: 10% short, 20% medium, 30% of 2 to 4 thousand
# tokens, 40% of 4 to 8 thousand.
MIX = [300, 800, 1400, 2200, 3000, 3800, 4300, 5200, 6100, 7400]


def sharing(seed, ratio, requests=600, **more):
    """A few prompts of the published lengths, of which each request shares `ratio` with its group.
    """
    rng = random.Random(seed)
    prompts = [(system(text(rng, int(size * ratio))), int(size * (1 - ratio))) for size in MIX]
    sizes = [shared_tokens([prompt]) for prompt, _ in prompts]
    picks = evenly(rng, len(MIX), requests)
    return [once(Ask(pick, [prompts[pick][0], user(text(rng, prompts[pick][1]))], sizes[pick], **more))
            for pick in picks]


def chat(rng, group, turns, first, question, response, **more):
    messages = [user(text(rng, first))]
    shared = 0
    for _ in range(turns):
        ask = Ask(group, list(messages), shared, max_tokens=response, **more)
        reply = yield ask
        # The last token of a response is in no cache.
        shared = shared_tokens(messages) + 1 + response - 1
        messages += [{"role": "assistant", "content": reply}, user(text(rng, question))]


def chats(seed, count=42, turns=6, first=600, question=60, response=48, **more):
    """Conversations, each with its own growing history."""
    rng = random.Random(seed)
    return [chat(random.Random(rng.getrandbits(64)), number, turns, first, question, response, **more)
            for number in range(count)]


def token_groups(seed, count=10, requests=200, shared=1000, own=100, **more):
    """As groups, by clients that send token ids."""
    rng = random.Random(seed)

    def ids(length):
        return [rng.randrange(1 << 16) for _ in range(length)]

    prompts = [ids(shared) for _ in range(count)]
    picks = evenly(rng, count, requests)
    return [once(Ask(pick, None, shared, "/v1/completions", prompt=prompts[pick] + ids(own), **more))
            for pick in picks]


def tenants(seed, salts=4, requests=80, shared=1000, own=100, **more):
    """The same system prompt under several salts: as many prompts as tenants."""
    rng = random.Random(seed)
    prompt = system(text(rng, shared))
    size = shared_tokens([prompt])
    picks = evenly(rng, salts, requests)
    return [once(Ask(pick, [prompt, user(text(rng, own))], size, cache_salt=f"tenant-{pick}", **more))
            for pick in picks]


# Upper bounds.


class Replay:
    """The outcome of a workload in caches alone: as hits and as tokens."""

    def __init__(self):
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.rows = []  # (ask, cached tokens)

    @property
    def hit_rate(self):
        return self.cached_tokens / self.prompt_tokens


def replay(workload, caches, choose):
    """One request after another; choose(number) names the cache.  Turns of a conversation do not
    overlap, and conversations begin in their order, one for each turn of the others."""
    result = Replay()
    lanes = [(conversation, next(conversation)) for conversation in workload]
    number = 0
    while lanes:
        more = []
        for conversation, ask in lanes:
            cache = caches[choose(number)]
            prompt, cached = engine.replay(cache, ask.path, ask.body, TOKENIZER)
            sequence = engine.sequences_of(ask.path, ask.body, TOKENIZER)[0]
            result.prompt_tokens += prompt
            result.cached_tokens += cached
            result.rows.append((ask, cached))
            number += 1
            try:
                more.append((conversation, conversation.send("".join(sequence.response_tokens()))))
            except StopIteration:
                pass
        lanes = more
    return result


def replay_one(workload, cache_blocks):
    return replay(workload, [engine.Cache(cache_blocks)], lambda _: 0)


def replay_turns(workload, count, cache_blocks):
    return replay(workload, [engine.Cache(cache_blocks) for _ in range(count)], lambda number: number % count)
