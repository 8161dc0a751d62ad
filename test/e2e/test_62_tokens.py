"""Token ids: certified requests are counted as the engine counts; all others are routed by text."""
import json
import re
import subprocess

import pytest
import vllm
from client import json_request, request
from harness import eventually, within
from standin import json_response

FAST = {"health_interval": "100ms", "models_interval": "200ms", "tokens_certify_interval": "200ms"}
CHAT = {"model": "m", "messages": [{"role": "system", "content": "You are terse."},
                                   {"role": "user", "content": ("What is a load balancer, and why? " * 40).strip()}]}


@pytest.fixture
def model(tmp_path):
    return vllm.make_model(tmp_path / "model")


def tokenizer_status(router):
    return router.status()["tokenizers"][0]


def wait_certified(router, feature="system"):
    eventually(lambda: feature in tokenizer_status(router)["certified_for"].split(","), lambda: tokenizer_status(router))


def decision(router, body, path="/v1/chat/completions"):
    response = router.post(path, body, "x-warmpath-decision: 1")
    assert response.status == 200, response
    return dict(pair.split("=", 1) for pair in re.findall(r"[a-z_]+=[^ ;,]+", response.header("x-warmpath-decision")))


def test_a_certified_chat_is_counted_as_the_engine_counts(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router)
    said = decision(router, CHAT)
    assert int(said["prompt_tokens"]) == len(dialect.ids(CHAT))
    status = tokenizer_status(router)
    for feature in ("plain", "system", "turns", "tools", "tool_calls", "tool_results", "parts", "reasoning",
                    "names", "kwargs", "completion", "space", "special"):
        assert feature in status["certified_for"].split(","), feature
    assert status["token_id_requests"] == 1 and status["confirmed"] == 1 and status["drifted"] == 0
    eventually(lambda: "agrees in" in router.stderr(), router.stderr)  # it certifies before it logs
    explained = router.admin("POST", "/explain", CHAT).json()
    assert explained["by_token_ids"] is True and explained["prompt_tokens"] == len(dialect.ids(CHAT))


def test_streams_and_completions_are_matched_by_token_ids_too(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(engine, tokenizer=model, ask_usage=True, **FAST)
    wait_certified(router, "completion")
    assert router.post("/v1/chat/completions", {**CHAT, "stream": True}).status == 200
    body = {"model": "m", "prompt": "Once upon a time \u4f60\u597d"}
    assert int(decision(router, body, "/v1/completions")["prompt_tokens"]) == len(dialect.ids(body))
    assert tokenizer_status(router)["confirmed"] == 2


def test_ids_and_text_of_one_prompt_have_the_same_blocks(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router)
    assert router.post("/v1/chat/completions", CHAT).status == 200
    said = decision(router, {"model": "m", "prompt": dialect.ids(CHAT)}, "/v1/completions")
    assert int(said["matched_blocks"]) == len(dialect.ids(CHAT)) // 16


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_matched_in_the_next_prompt(standin, warmpath, model, stream):
    said = "A load balancer spreads requests. " * 30 + "That is all."
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model), said=said)
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router, "turns")
    assert router.post("/v1/chat/completions", {**CHAT, "stream": stream}).status == 200
    messages = [*CHAT["messages"], {"role": "assistant", "content": said}]
    known = dialect.ids({"messages": messages, "add_generation_prompt": False})[:-2]
    more = {"model": "m", "messages": [*messages, {"role": "user", "content": "And then?"}]}
    eventually(lambda: router.is_idle(), "the response has ended")
    assert int(decision(router, more)["matched_blocks"]) == len(known) // 16
    assert len(known) // 16 > len(dialect.ids(CHAT)) // 16 + 10


def test_a_template_that_differs_in_one_feature_costs_that_feature(standin, warmpath, model, tmp_path):
    theirs = vllm.make_model(tmp_path / "theirs", vllm.TEMPLATE.replace("tool | tojson", "tool.function | tojson"))
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(theirs))
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router)
    assert "tools" not in tokenizer_status(router)["certified_for"].split(",")
    eventually(lambda: router.stderr().count("computes other tokens in") == 1, router.stderr)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    assert router.admin("POST", "/explain", CHAT).json()["by_token_ids"] is True
    assert router.admin("POST", "/explain", {**CHAT, "tools": tools}).json()["by_token_ids"] is False
    assert router.post("/v1/chat/completions", {**CHAT, "tools": tools}).status == 200


def test_another_tokenizer_certifies_nothing_and_everything_goes_by_text(standin, warmpath, model, tmp_path):
    theirs = vllm.make_model(tmp_path / "theirs", text="quite another text, of which one learns other words " * 30)
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(theirs))
    router = warmpath(engine, tokenizer=model, **FAST)
    eventually(lambda: "computes other tokens in" in router.stderr(), router.stderr)
    assert router.post("/v1/chat/completions", CHAT).status == 200
    status = tokenizer_status(router)
    assert status["certified_for"] == "" and status["token_id_requests"] == 0 and status["text_requests"] == 1
    assert router.stderr().count("computes other tokens in") == 1


def test_an_engine_without_a_tokenize_endpoint_is_logged_once(standin, warmpath, model):
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(model), paths=())
    engine.respond("/tokenize", json_response(404, {}))
    engine.respond("/v1/chat/completions/render", json_response(404, {}))
    router = warmpath(engine, tokenizer=model, **FAST)
    eventually(lambda: [request.path for request in engine.requests].count("/tokenize") >= 3, "it is asked again")
    assert router.stderr().count("cannot be asked") == 1
    assert router.post("/v1/chat/completions", CHAT).status == 200
    assert tokenizer_status(router)["token_id_requests"] == 0
    vllm.speak(engine, vllm.Dialect(model))  # recovers without a restart
    wait_certified(router)


def test_the_render_endpoint_is_used_if_tokenize_is_missing(standin, warmpath, model):
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(model), paths=("/v1/chat/completions/render",))
    engine.respond("/tokenize", json_response(404, {}))
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router)


def test_a_trusted_tokenizer_sends_no_certification_requests(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(config=f"backends: ['{engine.url}']\ntokenizers: [{{path: '{model}', trust: true}}]\n", **FAST)
    assert int(decision(router, CHAT)["prompt_tokens"]) == len(dialect.ids(CHAT))
    assert "/tokenize" not in engine.targets()


def test_a_response_with_another_count_revokes_and_is_logged_once(standin, warmpath, model):
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(model), off_by=1)
    router = warmpath(engine, tokenizer=model, **FAST)
    wait_certified(router)
    for _ in range(3):
        assert router.post("/v1/chat/completions", CHAT).status == 200
    status = tokenizer_status(router)
    assert status["drifted"] == 1, "after the first one nothing is counted on"
    assert status["revoked"] == "system" and "system" not in status["certified_for"].split(",")
    assert "plain" in status["certified_for"].split(",")
    assert router.stderr().count("tokens in a prompt where we counted") == 1


def test_a_backend_that_disagrees_later_takes_features_away(standin, warmpath, model, tmp_path):
    other = vllm.make_model(tmp_path / "other", vllm.TEMPLATE.replace("tool | tojson", "tool.function | tojson"))
    a, b = standin("a", models=["m"]), standin("b", models=["m"], start=False)
    vllm.speak(a, vllm.Dialect(model))
    vllm.speak(b, vllm.Dialect(other))
    router = warmpath(a, b, tokenizer=model, health_fall=1, health_rise=1, **FAST)
    wait_certified(router, "tools")
    b.start()
    eventually(lambda: "tools" not in tokenizer_status(router)["certified_for"].split(","), lambda: tokenizer_status(router))
    assert "system" in tokenizer_status(router)["certified_for"].split(",")
    assert router.admin("DELETE", f"/backends/{router.backend(b)['id']}").status == 204
    wait_certified(router, "tools")  # a removed backend does not count


def test_ids_are_sent_on_where_the_operator_wants_it(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(config=f"backends: ['{engine.url}']\n"
                             f"tokenizers: [{{path: '{model}', forward_ids: true}}]\n", **FAST)
    wait_certified(router, "completion")
    body = {"model": "m", "prompt": "Once upon a time", "temperature": 0}
    assert router.post("/v1/completions", body).status == 200
    got = engine.requests[-1].json()
    assert got == {**body, "prompt": dialect.ids(body)}
    assert router.post("/v1/chat/completions", CHAT).status == 200
    assert engine.requests[-1].json() == CHAT  # vLLM's chat API takes no ids


def test_long_prompts_are_matched_by_token_ids_and_do_not_stop_others(standin, warmpath, model):
    engine = standin("a", models=["m"])
    dialect = vllm.speak(engine, vllm.Dialect(model))
    router = warmpath(engine, tokenizer=model, workers=1, **FAST)
    wait_certified(router, "completion")
    body = {"model": "m", "prompt": "".join(f"Line {number} of a long story.\n" for number in range(60000))}
    served_meanwhile = 0
    with router.connect() as long, router.connect() as short:
        long.send(json_request("/v1/completions", body))
        while "/v1/completions" not in engine.targets():  # it is tokenized before it is sent on
            short.send(request("GET", "/short"))
            assert short.read_response().status == 200
            served_meanwhile += 1
        assert long.read_response().status == 200
    assert served_meanwhile > 1  # one may have come before the whole long prompt
    assert int(decision(router, body, "/v1/completions")["prompt_tokens"]) == len(dialect.ids(body))
    assert tokenizer_status(router)["token_id_requests"] == 2


def test_a_tokenizer_that_is_refused_is_named_and_its_models_go_by_text(standin, warmpath, model):
    path = model / "tokenizer.json"
    content = json.loads(path.read_text())
    content["normalizer"] = {"type": "NFKC"}
    path.write_text(json.dumps(content))
    engine = standin("a", models=["m"])
    router = warmpath(engine, tokenizer=model, **FAST)
    assert "NFKC" in router.stderr() and "are routed by text" in router.stderr()
    assert router.post("/v1/chat/completions", CHAT).status == 200


def test_files_that_are_missing_stop_the_start(binary, tmp_path):
    done = subprocess.run([binary, "serve", "--listen", "127.0.0.1:1", "--backend", "http://127.0.0.1:9",
                           "--tokenizer", tmp_path / "nowhere"], capture_output=True, text=True, timeout=within(10))
    assert done.returncode == 1
    assert "nowhere/tokenizer.json: No such file or directory" in done.stderr


def run(binary, *words):
    return subprocess.run([binary, *map(str, words)], capture_output=True, text=True, timeout=within(20))


def test_tokenize_shows_what_tokenizers_computes(binary, model, tmp_path):
    dialect = vllm.Dialect(model)
    text = "Hello  world, it\u2019s 12345 \u4f60\u597d <|im_end|> \U0001f600\n\n"
    done = run(binary, "tokenize", "--tokenizer", model, "--ids", text)
    assert json.loads(done.stdout) == dialect.tokenizer.encode(text).ids
    done = run(binary, "tokenize", "--tokenizer", model, "--ids", "--no-special", text)
    assert json.loads(done.stdout) == dialect.tokenizer.encode(text, add_special_tokens=False).ids
    chat = tmp_path / "chat.json"
    chat.write_text(json.dumps(CHAT))
    done = run(binary, "tokenize", "--tokenizer", model, "--chat", chat, "--ids")
    assert json.loads(done.stdout) == dialect.ids(CHAT)
    assert run(binary, "tokenize", "--tokenizer", model, "--chat", chat, "--text").stdout == dialect.text(CHAT)
    table = run(binary, "tokenize", "--tokenizer", model, "Hello world").stdout.splitlines()
    assert len(table) == len(dialect.tokenizer.encode("Hello world").ids) + 1
    assert re.fullmatch(r"\d+ tokens of 11 bytes in [\d.]+ us; again, from the memo: [\d.]+ us", table[-1])


@pytest.mark.parametrize("words", [[], ["--tokenizer", "x"], ["--tokenizer", "x", "--file", "y", "z"],
                                   ["--tokenizer", "x", "--engine", "y", "z"]])
def test_tokenize_needs_a_tokenizer_and_one_text(binary, words):
    assert run(binary, "tokenize", *words).returncode == 2


def test_certify_lists_the_cases_where_an_engine_agrees(standin, binary, model):
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(model))
    done = run(binary, "certify", "--backend", engine.url, "--tokenizer", model)
    assert done.returncode == 0, done
    assert re.search(r"\d+ cases agree, 0 differ, \d+ could not be compared; certified: plain,", done.stdout)
    assert len(re.findall(r"^  .* agrees", done.stdout, re.MULTILINE)) >= 24
    quiet = run(binary, "certify", "--quiet", "--backend", engine.url, "--tokenizer", model)
    assert len(quiet.stdout.splitlines()) == 1


def test_certify_lists_the_cases_where_an_engine_differs(standin, binary, model, tmp_path):
    engine = standin("a", models=["m"])
    vllm.speak(engine, vllm.Dialect(vllm.make_model(tmp_path / "other", "{{ bos_token }}" + vllm.TEMPLATE)))
    done = run(binary, "certify", "--backend", engine.url, "--tokenizer", model)
    assert done.returncode == 1
    assert "differs" in done.stdout and "token 0: the engine has" in done.stdout
    assert "certified: completion" in done.stdout


def test_certify_fails_if_no_endpoint_responds(standin, binary, model):
    engine = standin("a", models=["m"])
    engine.respond("/tokenize", json_response(404, {}))
    engine.respond("/v1/chat/completions/render", json_response(404, {}))
    done = run(binary, "certify", "--backend", engine.url, "--tokenizer", model)
    assert done.returncode == 1 and "cannot be asked" in done.stdout
