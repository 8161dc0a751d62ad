"""Chat templates render as with jinja2 in transformers' setup: the same text, or an error in both.

Templates come from packages (tools/vocabularies.py), conversations from
test/oracle/conversations.py, and small random templates from test/oracle/grammar.py.
"""
import pathlib
import sys

import harness
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import conversations  # noqa: E402
import grammar  # noqa: E402
import render  # noqa: E402

RANDOM_COUNT = 250
RENDERED_MIN = 40
SEEDS = 8


def pytest_generate_tests(metafunc):
    if "name" in metafunc.fixturenames:
        found = render.found_templates(metafunc.config.getoption("--all-templates"))
        metafunc.parametrize("name", sorted(found) or ["none"])


@pytest.fixture
def stream(binary):
    """The program that renders templates with the router's code."""
    return render.Program(binary.with_name("template_render_stream"))


@pytest.mark.timeout(120)
def test_a_template_renders_every_conversation_as_jinja2_does(stream, name):
    source = render.found_templates(True).get(name)
    if source is None:
        pytest.skip("no templates: run tools/vocabularies.py where npm and pip reach their registries")
    differences = render.compare(stream, source, list(conversations.variables()))
    assert differences == [], f"{len(differences)} differ; the first: {differences[0]}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_templates_render_as_jinja2_renders_them(request, stream, seed):
    many = request.config.getoption("--all-templates")
    made = grammar.Grammar(seed)
    sources = [made.template() for _ in range(RANDOM_COUNT * (20 if many else 1))]
    ours = stream.render([(source, grammar.VARIABLES) for source in sources])
    assert len(ours) == len(sources)
    wrong = []
    for source, mine in zip(sources, ours):
        theirs = render.Oracle(source).render(grammar.VARIABLES)
        if mine[0] != theirs[0]:
            wrong.append((source, mine, theirs))
    wrong.sort(key=lambda case: len(case[0]))
    told = "\n".join(render.tell(repr(source), mine, theirs) for source, mine, theirs in wrong[:5])
    assert not wrong, f"{len(wrong)} of {len(sources)} differ; the shortest:\n{told}"


def test_templates_render_most_conversations():
    """Guards the comparison: errors on both sides would be equal too."""
    sources = render.found_templates(False)
    for name in ("qwen2_5/default", "llama3_2/default", "trl/qwen3"):
        if name not in sources:
            pytest.skip("no templates: run tools/vocabularies.py where npm and pip reach their registries")
        oracle = render.Oracle(sources[name])
        rendered = {case.split()[0] for case, variables in conversations.variables()
                    if oracle.render(variables)[0] is not None}
        assert len(rendered) >= RENDERED_MIN, name
