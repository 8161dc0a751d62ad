"""Our rendering of chat templates beside that of jinja2, set up as transformers does."""
import datetime
import json
import pathlib
import struct
import subprocess
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox

VOCABULARIES = pathlib.Path(__file__).resolve().parents[2] / "build/vocabularies"
# template_render_stream uses the same time.
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)


class Generation(jinja2.ext.Extension):
    """A block that marks what an assistant said, and changes nothing."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("said"), [], [], body).set_lineno(line)

    def said(self, caller):
        return caller()


class Dict:
    """Makes dicts, and leads nowhere else."""

    def __call__(self, *arguments, **members):
        return dict(*arguments, **members)

    def fromkeys(self, *arguments):
        return dict.fromkeys(*arguments)


class Namespace(jinja2.utils.Namespace):
    """Refuses names that begin with an underscore."""

    def __init__(*arguments, **members):  # without a name for self, which may be a member
        members = dict(*arguments[1:], **members)
        for name in members:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(arguments[0], members)

    def __setitem__(self, name, value):
        Namespace.check(name)
        super().__setitem__(name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = to_json
    made.globals.update(raise_exception=raise_exception, strftime_now=NOW.strftime, dict=Dict(),
                        namespace=Namespace)
    return made


ENVIRONMENT = environment()


def render(compiled, variables):
    """The text, or None when the template raises anything."""
    try:
        return compiled.render(**variables), None
    except Exception as why:  # any error of Python's is the template's here
        return None, f"{type(why).__name__}: {why}"


class Oracle:
    def __init__(self, source):
        self.compiled = None
        try:
            self.compiled = ENVIRONMENT.from_string(source)
        except Exception as why:
            self.why = f"{type(why).__name__}: {why}"

    def render(self, variables):
        if self.compiled is None:
            return None, self.why
        return render(self.compiled, json.loads(json.dumps(variables)))


class Program:
    """template_render_stream: reads a template and variables, writes a status and a text, each
    after its size.
    """

    def __init__(self, path):
        self.path = str(path)

    def render(self, pairs):
        """For each template and its variables: the text and None, or None and the error."""
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as answers:
            for template, variables in pairs:
                for part in (template.encode(), json.dumps(variables, ensure_ascii=False).encode()):
                    source.write(struct.pack("<I", len(part)) + part)
            source.seek(0)
            done = subprocess.run([self.path], stdin=source, stdout=answers, stderr=subprocess.PIPE,
                                  check=False)
            assert done.returncode == 0, f"{self.path}: {done.stderr.decode(errors='replace')}"
            answers.seek(0)
            return [answer for answer in self.read(answers)]

    @staticmethod
    def read(answers):
        while head := answers.read(8):
            status, size = struct.unpack("<II", head)
            text = answers.read(size).decode()
            yield (text, None) if status == 0 else (None, text)


def found_templates(full):
    """Name -> source, of all templates in the packages that were fetched."""
    found = {}
    for path in sorted(VOCABULARIES.glob("*/*.jinja")):
        found[f"{path.parent.name}/{path.stem}"] = path.read_text(encoding="utf-8")
    for path in sorted(VOCABULARIES.glob("*/tokenizer_config.json")):
        template = json.loads(path.read_text(encoding="utf-8")).get("chat_template") or []
        named = template if isinstance(template, list) else [{"name": "default", "template": template}]
        for entry in named:
            found[f"{path.parent.name}/{entry['name']}"] = entry["template"]
    if not full:
        found = {name: source for name, source in found.items() if not name.startswith("llama_cpp_python/")}
    return found


def tell(name, ours, theirs):
    """Where the two part."""
    (mine, my_error), (right, their_error) = ours, theirs
    if mine is None or right is None:
        return f"{name}: ours {my_error or mine[:200]!r}, theirs {their_error or right[:200]!r}"
    at = next((at for at, (a, b) in enumerate(zip(mine, right)) if a != b), min(len(mine), len(right)))
    return f"{name}: at {at} after {right[max(0, at - 60):at]!r}: ours {mine[at:at + 60]!r}, theirs {right[at:at + 60]!r}"


def compare(program, source, cases):
    """The differences, for each case of a name and variables."""
    oracle = Oracle(source)
    ours = program.render([(source, variables) for _, variables in cases])
    assert len(ours) == len(cases), f"{len(cases)} asked for, {len(ours)} answered"
    differences = []
    for (name, variables), mine in zip(cases, ours):
        theirs = oracle.render(variables)
        if mine[0] != theirs[0]:
            differences.append(tell(name, mine, theirs))
    return differences
