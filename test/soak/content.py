"""The bytes of every response of the soak test, which engine and client compute from the request.

Word n of a response names its request and its place and carries a digest of both, so a byte that is
lost, repeated, swapped or taken from another response shows.  Some words are long, so that events
do not fit one read.
"""
import collections
import hashlib
import json

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PATHS = (CHAT, COMPLETIONS)
MODEL = "test-model"
LONG_WORD = 6000  # bytes

# One request as both sides see it; prompt_size in bytes of the body.
Ask = collections.namedtuple("Ask", "id path streamed count prompt_size is_invalid")


def words(ask):
    for number in range(ask.count):
        place = f"{ask.id}.{number}"
        digest = hashlib.sha256(place.encode()).hexdigest()
        yield f"{place}.{digest[:8] * (LONG_WORD // 8 if digest[0] == '0' else 1)} "


def usage(ask):
    prompt = ask.prompt_size // 4
    return {"prompt_tokens": prompt, "completion_tokens": ask.count, "total_tokens": prompt + ask.count}


def whole(ask):
    """The body of a response that is not streamed."""
    text = "".join(words(ask))
    choice = {"index": 0, "finish_reason": "stop"}
    choice.update({"message": {"role": "assistant", "content": text}} if ask.path == CHAT else {"text": text})
    return json.dumps({"id": ask.id, "object": "response", "created": 1, "model": MODEL, "choices": [choice],
                       "usage": usage(ask)}).encode()


def events(ask):
    """The events of a stream, one for each word, as they go over the wire."""
    base = {"id": ask.id, "object": "chunk", "created": 1, "model": MODEL}
    for number, word in enumerate(words(ask)):
        choice = {"index": 0, "finish_reason": "stop" if number == ask.count - 1 else None}
        choice.update({"delta": {"role": "assistant", "content": word}} if ask.path == CHAT else {"text": word})
        yield b"data: %s\n\n" % json.dumps({**base, "choices": [choice]}).encode()
    yield b"data: %s\n\n" % json.dumps({**base, "choices": [], "usage": usage(ask)}).encode()
    yield b"data: [DONE]\n\n"


def invalid(ask):
    """The 400 that every engine sends for an invalid request."""
    return json.dumps({"error": {"message": f"invalid: {ask.id}", "type": "BadRequestError", "param": None,
                                 "code": 400}}).encode()


def expected(ask):
    """Status and body of a complete response."""
    if ask.is_invalid:
        return 400, invalid(ask)
    return 200, b"".join(events(ask)) if ask.streamed else whole(ask)


def body_digest(body):
    return hashlib.sha256(body).hexdigest()[:16]
