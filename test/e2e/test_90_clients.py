"""Client libraries and programs in common use."""
import asyncio
import json
import re
import subprocess
import time

import httpx
import openai
import pytest
from client import chat
from harness import eventually, within
from standin import RESET, SSE_HEAD, STALL, Gate, chunk, event, json_response


@pytest.fixture
def engine(standin):
    return standin("a", models=["test-model"])


def connect(router, **options):
    return openai.OpenAI(base_url=router.url + "/v1", api_key="sk-test", max_retries=0, timeout=within(10), **options)


MESSAGES = [{"role": "user", "content": "hello"}]


# The openai package.


def test_openai_chats(engine, warmpath):
    with connect(warmpath(engine)) as client:
        response = client.chat.completions.create(model="test-model", messages=MESSAGES, max_tokens=4)
        assert response.choices[0].message.content == "a-0 a-1 a-2 a-3 "
        assert response.usage.completion_tokens == 4 and response.model == "test-model"
    assert engine.requests[0].header("authorization") == "Bearer sk-test"


def test_openai_chat_streams(engine, warmpath):
    with connect(warmpath(engine)) as client:
        stream = client.chat.completions.create(
            model="test-model", messages=MESSAGES, max_tokens=5, stream=True,
            stream_options={"include_usage": True}, extra_headers={"x-standin-gap": "0.05"})
        chunks = list(stream)
    assert "".join(part.choices[0].delta.content for part in chunks[:-1]) == "a-0 a-1 a-2 a-3 a-4 "
    assert chunks[-1].usage.total_tokens == 12


def test_openai_stream_closed_early_is_cancelled(engine, warmpath):
    with connect(warmpath(engine)) as client:
        stream = client.chat.completions.create(model="test-model", messages=MESSAGES, max_tokens=1000, stream=True,
                                                extra_headers={"x-standin-gap": "0.05"})
        next(iter(stream))
        stream.close()
        assert engine.requests[0].gone.wait(within(1))


def test_openai_completes_and_embeds(engine, warmpath):
    with connect(warmpath(engine)) as client:
        response = client.completions.create(model="test-model", prompt="hello", max_tokens=2)
        assert response.choices[0].text == "a-0 a-1 "
        texts = [part.choices[0].text for part in
                 client.completions.create(model="test-model", prompt="hello", max_tokens=3, stream=True)]
        assert texts == ["a-0 ", "a-1 ", "a-2 "]
        response = client.embeddings.create(model="test-model", input=["one", "three"], encoding_format="float")
        assert [row.embedding for row in response.data] == [[0.25, -0.5, 3.0], [0.25, -0.5, 5.0]]


def test_openai_lists_models(engine, warmpath):
    with connect(warmpath(engine)) as client:
        assert [model.id for model in client.models.list()] == ["test-model"]


def test_openai_sees_an_unknown_model_as_not_found(engine, warmpath):
    with connect(warmpath(engine)) as client, pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    assert caught.value.code == "model_not_found" and "no-such-model" in caught.value.message
    assert caught.value.request_id


@pytest.mark.parametrize("status, kind", [
    (400, openai.BadRequestError), (401, openai.AuthenticationError), (404, openai.NotFoundError),
    (422, openai.UnprocessableEntityError), (429, openai.RateLimitError), (500, openai.InternalServerError),
    (503, openai.InternalServerError)])
def test_openai_sees_errors_of_the_engine(engine, warmpath, status, kind):
    error = {"message": "said the engine", "type": "SomeError", "param": None, "code": status}
    engine.respond("/v1/chat/completions", json_response(status, {"error": error}))
    with connect(warmpath(engine)) as client, pytest.raises(kind) as caught:
        client.chat.completions.create(model="test-model", messages=MESSAGES)
    assert caught.value.status_code == status and caught.value.body["message"] == "said the engine"


def test_openai_sees_errors_of_the_router(engine, warmpath):
    engine.respond("/v1/chat/completions", RESET)
    router = warmpath(engine, limits_body_size="2k")
    with connect(router) as client:
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="test-model", messages=MESSAGES)
        assert caught.value.status_code == 502 and caught.value.type
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(model="test-model", messages=[{"role": "user", "content": "x" * 3000}])
        assert caught.value.status_code == 413


def test_openai_timeout_cancels(engine, warmpath):
    engine.respond("/v1/chat/completions", STALL)
    router = warmpath(engine)
    for timeout in (0.5, 2, 8):
        with openai.OpenAI(base_url=router.url + "/v1", api_key="x", max_retries=0, timeout=timeout) as client:
            with pytest.raises(openai.APITimeoutError):
                client.chat.completions.create(model="test-model", messages=MESSAGES)
        if engine.requests:
            break  # otherwise the client left before its request was sent on
    assert engine.requests[0].gone.wait(within(1))


def test_openai_sees_a_broken_stream_as_an_error(engine, warmpath):
    gate = Gate()
    engine.respond("/v1/chat/completions", SSE_HEAD,
                  chunk(event({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
                               "choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": None}]})),
                  gate, RESET)
    with connect(warmpath(engine)) as client:
        stream = client.chat.completions.create(model="test-model", messages=MESSAGES, stream=True)
        assert next(iter(stream)).choices[0].delta.content == "half"
        gate.open()
        with pytest.raises(openai.APIError) as caught:
            next(iter(stream))
    assert caught.value.message


def test_openai_runs_many_requests_at_once(standin, warmpath):
    engines = [standin(name) for name in "abc"]
    router = warmpath(*engines)

    async def one(client, number):
        stream = await client.chat.completions.create(model="test-model", messages=MESSAGES, stream=True,
                                                      max_tokens=number % 7 + 1)
        return "".join([part.choices[0].delta.content async for part in stream])

    async def everything():
        async with openai.AsyncOpenAI(base_url=router.url + "/v1", api_key="x", max_retries=0,
                                      timeout=within(20)) as client:
            return await asyncio.gather(*(one(client, number) for number in range(100)))

    for number, text in enumerate(asyncio.run(everything())):
        name = text[0]
        assert text == "".join(f"{name}-{part} " for part in range(number % 7 + 1))


# httpx.


def test_httpx_sends_and_streams(engine, warmpath):
    router = warmpath(engine)
    with httpx.Client(base_url=router.url, timeout=within(10)) as client:
        for number in range(5):
            response = client.put(f"/{number}", content=b"x" * number, params={"q": "a b"})
            assert response.json() == {"engine": "a", "method": "PUT", "target": f"/{number}?q=a+b", "size": number}
        assert client.head("/h").headers["content-length"] == "1234"

        def parts():
            for _ in range(10):
                yield b"part"

        assert client.post("/chunked", content=parts()).json()["size"] == 40
        with client.stream("POST", "/v1/chat/completions", json=chat(stream=True, events=4)) as response:
            lines = [line for line in response.iter_lines() if line]
        assert len(lines) == 5 and lines[-1] == "data: [DONE]"


def test_httpx_sees_a_broken_stream_as_an_error(engine, warmpath):
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, RESET)
    router = warmpath(engine)
    with httpx.stream("GET", router.url + "/x", timeout=within(10)) as response:
        parts = response.iter_raw()
        assert next(parts) == b"data: 1\n\n"
        gate.open()
        with pytest.raises(httpx.RemoteProtocolError):
            list(parts)


# curl.


CURL = ["curl", "-sS", "--noproxy", "*"]


def curl(*words):
    return subprocess.run([*CURL, "--max-time", str(within(10)), *words], capture_output=True, text=True,
                          timeout=within(15))


def test_curl_sends_and_streams(engine, warmpath, tmp_path):
    router = warmpath(engine)
    done = curl("-i", router.url + "/x")
    assert done.stdout.startswith("HTTP/1.1 200") and '"engine": "a"' in done.stdout
    large = tmp_path / "large"
    large.write_bytes(b"x" * 3_000_000)
    done = curl("--data-binary", f"@{large}", router.url + "/x")  # asks for 100-continue
    assert json.loads(done.stdout)["size"] == 3_000_000
    done = curl("--http1.0", router.url + "/y")
    assert json.loads(done.stdout)["target"] == "/y"
    done = curl("-H", "Transfer-Encoding: chunked", "--data-binary", "hello", router.url + "/x")
    assert json.loads(done.stdout)["size"] == 5
    done = curl("-N", "--json", json.dumps(chat(stream=True)), router.url + "/v1/chat/completions")
    assert done.returncode == 0 and done.stdout.endswith("data: [DONE]\n\n")


def test_curl_sees_a_broken_stream_as_an_error(engine, warmpath):
    gate = Gate()
    engine.respond("/x", SSE_HEAD, chunk(event(b"1")), gate, RESET)
    router = warmpath(engine)
    with subprocess.Popen([*CURL, "--max-time", str(within(10)), "-N", router.url + "/x"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "data: 1\n"
        gate.open()
        _, stderr = process.communicate(timeout=within(15))
    assert process.returncode in (18, 56), stderr


# h2load, as a crowd.


def test_h2load_loses_no_request(standin, warmpath, tmp_path):
    engines = [standin(name) for name in "ab"]
    router = warmpath(*engines, policy="least_requests")
    body = tmp_path / "body"
    body.write_text(json.dumps(chat(events=2)))
    done = subprocess.run(
        ["h2load", "--h1", "-n", "3000", "-c", "50", "-d", str(body), "-H", "content-type: application/json",
         router.url + "/v1/chat/completions"], capture_output=True, text=True, timeout=within(60))
    assert "3000 succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout
    assert re.search(r"status codes: 3000 2xx", done.stdout)
    assert sum(len(one.requests) for one in engines) == 3000
    eventually(lambda: router.status()["connections"] == 0, "all clients are gone")


def test_h2load_streams(standin, warmpath, tmp_path):
    engines = [standin(name) for name in "ab"]
    router = warmpath(*engines, policy="power_of_two")
    body = tmp_path / "body"
    body.write_text(json.dumps(chat(stream=True, events=10)))
    begun = time.monotonic()
    done = subprocess.run(
        ["h2load", "--h1", "-n", "400", "-c", "100", "-d", str(body), "-H", "x-standin-gap: 0.01",
         router.url + "/v1/chat/completions"], capture_output=True, text=True, timeout=within(60))
    assert "400 succeeded, 0 failed" in done.stdout, done.stdout
    assert time.monotonic() - begun < within(20)
    eventually(lambda: all(one.requests and all(seen.responded_at for seen in one.requests) for one in engines),
               "both stand-ins finished all their streams")
