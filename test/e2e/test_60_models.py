"""Models: the router's list, and the backends that may serve a request."""
import json

import pytest
from client import chat, request
from harness import eventually
from standin import json_response, plain_response

LEARNS = {"models_interval": "200ms", "health_interval": "100ms", "health_fall": 1, "health_rise": 1}


def models(router):
    response = router.get("/v1/models")
    assert response.status == 200
    listing = response.json()
    assert listing["object"] == "list"
    assert all(row["object"] == "model" and isinstance(row["id"], str) for row in listing["data"])
    names = [row["id"] for row in listing["data"]]
    assert len(set(names)) == len(names), "each model once"
    return set(names)


def asks(router, model, count=6):
    """The engine that serves the model."""
    return {router.post("/v1/embeddings", {"model": model, "input": "x"}).header("x-warmpath-backend")
            for _ in range(count)}


def learned(router, *engines):
    """The router, once it has the lists of these engines: at its start it waits for them only for a
    second.
    """
    def is_learned():
        return all(set(router.backend(engine)["models"]) == set(engine.models) for engine in engines) and (
            models(router) >= {name for engine in engines for name in engine.models})

    eventually(is_learned, "the models are learned", 10)
    return router


def test_the_list_is_the_union_over_backends(standin, warmpath):
    a, b = standin("a", models=["m1", "m2"]), standin("b", models=["m2", "m3"])
    router = learned(warmpath(a, b, **LEARNS), a, b)
    assert models(router) == {"m1", "m2", "m3"}
    assert set(router.backend(a)["models"]) == {"m1", "m2"}


def test_the_router_itself_responds_with_the_list(standin, warmpath):
    a = standin("a", models=["m1"])
    router = learned(warmpath(a, health_interval="30s", models_interval="1h"), a)
    eventually(lambda: {probe.path for probe in list(a.probes)} == {"/health", "/v1/models"}, "both are probed")
    before = len(a.probes)
    for _ in range(5):
        assert models(router) == {"m1"}
    assert len(a.probes) == before
    head = router.ask(request("HEAD", "/v1/models"))
    assert head.status == 200
    assert router.get("/v1/models").header("x-request-id")


def test_a_model_goes_to_backends_that_serve_it(standin, warmpath):
    a, b, c = standin("a", models=["m1", "m2"]), standin("b", models=["m2"]), standin("c", models=["m3"])
    router = learned(warmpath(a, b, c, policy="round_robin", workers=1, **LEARNS), a, b, c)
    assert asks(router, "m1") == {a.url}
    assert asks(router, "m2") == {a.url, b.url}
    assert asks(router, "m3") == {c.url}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings"])
def test_an_unknown_model_is_404(standin, warmpath, path):
    a = standin("a", models=["m1"])
    router = learned(warmpath(a, **LEARNS), a)
    with router.connect() as client:
        client.send(request("POST", path, body=json.dumps({"model": "m9", "input": "x"}).encode()))
        response = client.read_response()
        assert response.status == 404
        assert response.error()["code"] == "model_not_found"
        assert "m9" in response.error()["message"]
        client.send(request("GET", "/x"))  # the connection is as good as before
        assert client.read_response().status == 200
    assert a.targets() == ["/x"]


def no_such_model(router, name):
    """The message of a 404."""
    response = router.post("/v1/embeddings", {"model": name, "input": "x"})
    assert response.status == 404 and response.error()["code"] == "model_not_found"
    return response.error()["message"]


def test_a_404_names_the_models_that_exist_and_the_option(standin, warmpath):
    a = standin("a", models=['say "m1"'])
    router = learned(warmpath(a, **LEARNS), a)
    assert no_such_model(router, "m9") == (
        'No backend serves the model: m9; the only model is say "m1" '
        '(with models.any_name: on, say "m1" takes any name)')
    response = router.get("/v1/models/m9")
    assert response.status == 404 and 'say "m1"' in response.error()["message"]
    response = router.admin("POST", "/explain", {"model": "m9", "messages": []})
    assert response.status == 404 and "the only model is" in response.error()["message"]
    a.models = [f"m{number}-{'é' * 300}" for number in range(12)]
    learned(router, a)
    message = no_such_model(router, "\x01" * 500)
    assert all(f"m{number}-é" in message for number in range(8)) and "m8" not in message
    assert " and 4 more (names that engines accept but do not list go into pools.models)" in message


@pytest.mark.parametrize("name", ["m1 ", "M1", "m", "m11", "m1\n", "\u043c1"])
def test_names_match_exactly(standin, warmpath, name):
    a = standin("a", models=["m1"])
    router = learned(warmpath(a, **LEARNS), a)
    response = router.post("/v1/embeddings", {"model": name, "input": "x"})
    assert response.status == 404 and response.error()["code"] == "model_not_found"


@pytest.mark.parametrize("body", [
    '{"messages":[{"content":"\\"model\\":\\"m2\\""}],"model":"m1"}',
    '{"metadata":{"model":"m2"},"model":"m1"}',
    '{"list":[{"model":"m2"},["model","m2"]],"model":"m1"}',
    '{"mod\\u0065l":"m1"}',
    '{"model":"\\u006d1"}',
    ' \t\r\n{ "x" : null , "model" \n:\t "m1" , "y" : [1.5e3, true, {}] } \n',
    '{"a\\\\":"\\\\","model":"m1"}',
    '{"prompt":"' + "x" * 500_000 + '","model":"m1"}',
    '{"deep":' + "[" * 60 + "]" * 60 + ',"model":"m1"}',
], ids=["in a text", "in an object", "in a list", "escaped key", "escaped value", "blanks", "backslashes",
        "far away", "after depth"])
def test_the_model_is_found_where_json_has_it(standin, warmpath, body):
    a, b = standin("a", models=["m1"]), standin("b", models=["m2"])
    router = learned(warmpath(a, b, policy="round_robin", **LEARNS), a, b)
    for _ in range(4):
        response = router.ask(request("POST", "/v1/other", body=body.encode()))
        assert response.header("x-warmpath-backend") == a.url


@pytest.mark.parametrize("body", [b"", b"not json", b"[1,2]", b'"model"', b'{"input":"x"}', b'{"model":null}',
                                  b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\n\xff\xfe\r\n--x--\r\n'])
def test_a_body_without_a_model_may_go_anywhere(standin, warmpath, body):
    a, b = standin("a", models=["m1"]), standin("b", models=["m2"])
    router = warmpath(a, b, policy="round_robin", **LEARNS)
    responses = [router.ask(request("POST", "/x", body=body)) for _ in range(6)]
    assert {response.status for response in responses} == {200}
    assert {response.json()["engine"] for response in responses} == {"a", "b"}


@pytest.mark.parametrize("response", [plain_response(404, b"no such page"), json_response(200, {"hello": "world"}),
                                    plain_response(200, b"not json")], ids=["404", "other JSON", "not JSON"])
def test_a_backend_without_a_list_takes_any_model(standin, warmpath, response):
    a, b = standin("a"), standin("b", models=["m2"])
    a.respond("/v1/models", response)
    router = learned(warmpath(a, b, policy="round_robin", workers=1, **LEARNS), b)
    assert asks(router, "anything") == {a.url}
    assert asks(router, "m2") == {a.url, b.url}


def test_an_empty_list_means_unknown_models(standin, warmpath):
    """`transformers serve` with a folder lists nothing, and serves it."""
    a, b = standin("a", models=[]), standin("b", models=["m2"])
    router = warmpath(a, b, policy="round_robin", workers=1, **{**LEARNS, "models_interval": "100ms"})

    def lists_read():
        return sum(probe.path == "/v1/models" for probe in list(a.probes))

    eventually(lambda: models(router) == {"m2"} and lists_read() >= 4, "both were asked several times")
    assert asks(router, "anything") == {a.url}
    assert asks(router, "m2") == {a.url, b.url}
    assert router.stderr().count(f"backend {a.url}: list of models: empty; it gets requests for any\n") == 1
    a.models = ["m1"]
    eventually(lambda: models(router) == {"m1", "m2"}, "the new list")
    assert "the models are m1, m2 " in no_such_model(router, "anything")
    assert router.stderr().count("list of models: empty") == 1


def like_llama_cpp(engine, **more):
    """Lists the models as llama-server does."""
    rows = [{"id": name, "object": "model", "created": 1, "owned_by": "llamacpp", "meta": None, **more}
            for name in engine.models]
    engine.respond("/v1/models", json_response(200, {"object": "list", "data": rows}))
    return engine


def test_llama_cpp_takes_any_name(standin, warmpath):
    a, b = (like_llama_cpp(standin(name, models=["../m.gguf"])) for name in "ab")
    router = learned(warmpath(a, b, policy="round_robin", workers=1, **LEARNS), a, b)
    assert asks(router, "gpt-4") == {a.url, b.url}
    assert {request.json()["model"] for engine in (a, b) for request in engine.requests} == {"gpt-4"}
    assert asks(router, "../m.gguf") == {a.url, b.url}
    assert router.get("/v1/models/gpt-4").status == 404, "the list says what there is"


def test_a_prompt_is_found_again_under_another_name(standin, warmpath):
    a, b = (like_llama_cpp(standin(name, models=["m"])) for name in "ab")
    router = learned(warmpath(a, b, policy="warm", **LEARNS), a, b)
    prompt = "".join(f"{number * 7919 % 1000:03d} " for number in range(500))
    response = router.post("/v1/completions", {"model": "gpt-4", "prompt": prompt})
    assert response.status == 200

    def held(model):
        why = router.admin("POST", "/explain?path=/v1/completions", {"model": model, "prompt": prompt}).json()
        return {row["url"] for row in why["backends"] if row["matched_tokens"] > 400}

    for model in ("gpt-4", "m", "gpt-5"):
        eventually(lambda model=model: held(model) == {response.header("x-warmpath-backend")}, model)


def test_a_llama_cpp_that_was_never_reached_does_not_keep_names_from_the_others(standin, warmpath):
    a, b = (like_llama_cpp(standin(name, models=["m"])) for name in "ab")
    b.stop()
    router = warmpath(a, b, **LEARNS)
    router.wait_state(b, "down")
    assert asks(learned(router, a), "gpt-4") == {a.url}


@pytest.mark.parametrize("owned_by, more, names, option, status", [
    ("llamacpp", {}, ["m"], "off", 404),
    ("llamacpp", {}, ["m", "n"], "auto", 404),
    ("llamacpp", {"status": {"value": "loaded"}}, ["m"], "auto", 404),
    ("vllm", {}, ["m"], "auto", 404),
    ("vllm", {}, ["m"], "on", 200),
    ("vllm", {}, ["m", "n"], "on", 404),
], ids=["off", "several", "its router mode", "another engine", "on", "on, but several"])
def test_any_name_is_an_option(standin, warmpath, owned_by, more, names, option, status):
    engine = like_llama_cpp(standin("a", models=names), owned_by=owned_by, **more)
    router = learned(warmpath(engine, models_any_name=option, **LEARNS), engine)
    assert router.post("/v1/embeddings", {"model": "gpt-4", "input": "x"}).status == status
    assert router.post("/v1/embeddings", {"model": "m", "input": "x"}).status == 200


def test_names_that_are_configured_are_the_only_ones(standin, warmpath):
    engine = like_llama_cpp(standin("a", models=["m"]))
    router = warmpath(config=f"""
backends:
  - url: {engine.url}
    models: [mine]
""", **LEARNS)
    assert asks(router, "mine", 1) == {engine.url}
    eventually(lambda: sum(probe.path == "/v1/models" for probe in list(engine.probes)) >= 2, "its list was read")
    assert "the only model is mine (with models.any_name: on, " in no_such_model(router, "m")


def test_without_learning_every_backend_takes_any_model(standin, warmpath):
    a, b = standin("a", models=["m1"]), standin("b", models=["m2"])
    router = warmpath(a, b, policy="round_robin", workers=1, models_learn=False)
    assert asks(router, "m7") == {a.url, b.url}


def test_configured_models_override_the_list_of_the_backend(standin, warmpath):
    a, b = standin("a", models=["m1"]), standin("b", models=["m1"])
    router = warmpath(workers=1, config=f"""
backends:
  - url: {a.url}
    models: [mine]
  - url: {b.url}
""", **LEARNS)
    learned(router, b)
    assert models(router) == {"mine", "m1"}
    assert asks(router, "mine") == {a.url}
    assert asks(router, "m1") == {b.url}


def test_new_and_removed_models_are_noticed(standin, warmpath):
    a = standin("a", models=["m1"])
    router = learned(warmpath(a, **LEARNS), a)
    a.models = ["m2", "adapter/lora-7"]
    eventually(lambda: models(router) == {"m2", "adapter/lora-7"}, "the new list")
    assert asks(router, "adapter/lora-7", 2) == {a.url}
    assert router.post("/v1/embeddings", {"model": "m1", "input": "x"}).status == 404


def test_models_of_a_backend_that_is_down_are_not_listed_and_not_forgotten(standin, warmpath):
    a, b = standin("a", models=["m1"]), standin("b", models=["m2"])
    router = learned(warmpath(a, b, **LEARNS), a, b)
    a.health_status = 503
    router.wait_state(a, "down")
    eventually(lambda: models(router) == {"m2"}, "m1 is gone from the list")
    assert router.post("/v1/embeddings", {"model": "m1", "input": "x"}).header("x-warmpath-backend") == a.url
    a.stop()
    response = router.post("/v1/embeddings", {"model": "m1", "input": "x"})
    assert response.status == 503 and response.error() and response.header("retry-after")
    assert router.post("/v1/embeddings", {"model": "m2", "input": "x"}).status == 200


def test_a_retry_stays_with_backends_that_serve_the_model(standin, warmpath):
    a, b, c = standin("a", models=["m1"]), standin("b", models=["m1"]), standin("c", models=["m2"])
    a.respond("/v1/chat/completions", json_response(429, {}))
    b.respond("/v1/chat/completions", json_response(429, {}))
    router = learned(warmpath(a, b, c, **LEARNS), a, b, c)
    assert router.post("/v1/chat/completions", chat(model="m1")).status == 429
    assert (len(a.requests), len(b.requests), len(c.requests)) == (1, 1, 0)


def test_pools_divide_the_models(standin, warmpath):
    small, large = standin("small", models=["any"]), standin("large", models=["any"])
    router = warmpath(config=f"""
models:
  learn: false
pools:
  - name: small
    models: [small-model]
  - name: large
    models: [large-model, huge-model]
backends:
  - url: {small.url}
    pool: small
  - url: {large.url}
    pool: large
""")
    assert asks(router, "small-model") == {small.url}
    assert asks(router, "huge-model") == {large.url}
    assert router.backend(large)["pool"] == "large"
    assert {"small-model", "large-model", "huge-model"} <= models(router)


def test_a_model_of_an_empty_pool_may_come_back(standin, warmpath):
    engine = standin(models=["m"])
    router = learned(warmpath(config=f"""
pools:
  - name: small
  - name: large
    models: [large-model]
backends:
  - url: {engine.url}
""", **LEARNS), engine)
    for response in (router.post("/v1/embeddings", {"model": "large-model", "input": "x"}),
                     router.get("/v1/models/large-model")):
        assert (response.status, response.error()["code"]) == (503, "no_backend")
        assert response.header("retry-after") == "1"
    assert "the models are m, large-model " in no_such_model(router, "m9")


def test_a_list_of_any_length_is_passed_on(standin, warmpath):
    names = [f"adapter-{number:04}-{'x' * 200}" for number in range(1500)]
    engine = standin("a", models=names)
    router = learned(warmpath(engine, **LEARNS), engine)
    assert models(router) == set(names)
    assert router.post("/v1/embeddings", {"model": names[-1], "input": "x"}).status == 200
