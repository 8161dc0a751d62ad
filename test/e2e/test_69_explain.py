"""`warmpath explain`: the backend of a request, the reason, and the accuracy of predictions."""
import json
import re
import subprocess

import pytest
from harness import SANITIZER, TOKEN, eventually, free_port, within
from test_71_engine import Fleet

WORDS = "".join(f"{i * 7919 % 1000:03d} " for i in range(2000))
BODY = {"model": "codellama-13b", "prompt": WORDS, "max_tokens": 2}
PATH = "/v1/completions"


@pytest.fixture
def simulated(binary, tmp_path):
    """URLs of simulated engines, whose usage reports cached tokens."""
    fleets = []

    def make(count):
        fleets.append(Fleet(binary, tmp_path / "engines.stderr", count, model="codellama-13b", speed=20))
        return [fleets[-1].url(index) for index in range(count)]

    yield make
    for fleet in fleets:
        fleet.stop()


@pytest.fixture
def explain(binary, tmp_path):
    """Runs the command against a router."""
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")

    def run(router, *words, body=None, code=0, token_file=token):
        port = router if isinstance(router, int) else router.admin_port
        command = [binary, "explain", "--admin", f"http://127.0.0.1:{port}", "--token-file", token_file, *words]
        done = subprocess.run(command, input=body, capture_output=True, text=True, timeout=within(15))
        assert not SANITIZER.search(done.stderr), done.stderr
        assert done.returncode == code, done
        return done

    return run


def send(router):
    """The backend of a response, and its cached tokens."""
    response = router.post(PATH, BODY)
    assert response.status == 200, response
    return response.header("x-warmpath-backend"), response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]


def rows(table):
    """The cells of each row under its backend, behind whether it is marked."""
    head, *lines = table.split("\n\n")[0].splitlines()
    found = {}
    for line in lines:
        url, *cells = re.split(r"  +", line[2:].strip())
        assert len(cells) + 1 == len(re.split(r"  +", head.strip())), table
        found[url] = [line[0] == ">", *cells]
    return head, found


def candidates(page):
    """Whether each backend is chosen, its cached tokens and its cost."""
    head, found = rows(page[page.index("  backend"):])
    assert head.split()[1:3] == ["events", "cached"] and head.split()[-1] == "cost", head
    assert all(cells[1] == "none" for cells in found.values()), page
    return {url: (cells[0], int(cells[2]), float(cells[-1])) for url, cells in found.items()}


def test_the_candidate_that_has_the_prompt_is_marked_with_what_it_holds(simulated, warmpath, explain):
    urls = simulated(2)
    router = warmpath(*urls, policy="warm")

    def asked():
        return candidates(explain(router, "--body", "-", "--path", PATH, body=json.dumps(BODY)).stdout)

    cold = asked()
    assert set(cold) == set(urls) and all(cached == 0 for _, cached, _ in cold.values())
    assert sum(chosen for chosen, _, _ in cold.values()) == 1
    home, _ = send(router)
    other, = set(urls) - {home}
    eventually(lambda: asked()[home][1] > 1500, lambda: str(asked()))
    warm = asked()
    assert warm[home][0] and not warm[other][0]
    assert warm[other][1] == 0
    assert warm[home][2] < warm[other][2]
    assert router.backend(home)["requests"] == 1 and router.backend(other)["requests"] == 0, "asking is not sending"


def test_json_prints_the_document_unchanged(simulated, warmpath, explain):
    urls = simulated(2)
    router = warmpath(*urls, policy="warm")
    document = json.loads(explain(router, "--prompt", "hello", "--model", "codellama-13b", "--json").stdout)
    assert document["model"] == "codellama-13b" and document["policy"] == "warm"
    assert [row["url"] for row in document["backends"]] == urls
    assert all(row["truth"] == {"by_events": None, "believed": None} for row in document["backends"])
    asked = router.admin("POST", "/explain", {"model": "codellama-13b",
                                              "messages": [{"role": "user", "content": "hello"}]}).json()
    assert document.keys() == asked.keys() and document["prompt_tokens"] == asked["prompt_tokens"]


def test_predicted_and_actual_are_shown_for_backends_that_responded(simulated, warmpath, explain):
    urls = simulated(2)
    router = warmpath(*urls, policy="warm")
    page = explain(router, "--prompt", "hello").stdout
    assert "No response has reported cached tokens yet." in page
    responses = [send(router) for _ in range(5)]
    home, cached = responses[-1]
    assert all(response == (home, cached) for response in responses[1:]) and responses[0] == (home, 0) and cached > 1500
    # The router learns from a response after its client has it.
    eventually(lambda: (router.backend(home)["truth"]["believed"] or {"all": {"count": 0}})["all"]["count"] == 5,
               lambda: str(router.backend(home)))
    truth = router.admin("GET", f"/backends/{router.backend(home)['id']}").json()["truth"]
    believed = truth["believed"]
    assert truth["by_events"] is None
    assert sum(count for _, count in believed["histogram"]) == 5
    assert believed["all"]["actual_tokens"] == 4 * cached
    assert believed["last"]["actual"] == cached
    # The first was predicted as new, and was.  For the others the text is known, and token counts
    # nearly.
    assert believed["all"]["equal"] >= 1 and believed["all"]["wrong_percent"] < 15
    _, found = rows(explain(router, "--prompt", "hello").stdout.split("predicted minus actual:\n")[1])
    assert list(found) == [home]
    assert found[home][1:3] == ["believed", "5"]
    assert found[home][-2:] == [str(believed["last"]["predicted"]), str(cached)]


def test_errors_are_explained(simulated, warmpath, explain, tmp_path):
    router = warmpath(*simulated(1))
    wrong = tmp_path / "wrong"
    wrong.write_text("not-it")
    assert "the router responds with 401" in explain(router, "--prompt", "hi", token_file=wrong, code=1).stderr
    refused = explain(router, "--prompt", "hi", "--model", "unheard-of", code=1).stderr
    assert "the router responds with 404: No backend serves the model" in refused, refused
    assert "Connection refused" in explain(free_port(), "--prompt", "hi", code=1).stderr
    assert "--body" in explain(router, code=2).stderr
