#!/usr/bin/env python3
"""Checks that the documents name only things that are in the tree.  Run by `make tidy`.

In README, ARCHITECTURE, CONTRIBUTING, STYLE and docs/**/*.md:
- the target of a relative link exists;
- a path in backticks (`route/route.c`, `docs/logs.md`, `tools/`) exists, seen from the root, from
  test, from the document or from any folder under src; `*` stands for any name; a bare file name
  exists somewhere; `net/fetch` is a module's header.
In ARCHITECTURE, CONTRIBUTING, STYLE and docs/internals, in backticks:
- `name()` is a function or macro, `struct name` is defined under src;
- `like_this`, `LIKE_THIS`, `a->b` and `a.b_c` are words of the sources; a final _ matches any end;
- in "`name` in `path`", "`name` of `path`" and "`name` (`path`)" the name is a word of that file.
In docs/choose-policy.md, every policy of src/policy/policies.def has a row.
In ARCHITECTURE, the table of layers has the modules of tools/layers.txt, in the same order.

Fenced code is not read, and neither is anything with a placeholder (<name>) or a space.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXTS = (".c", ".h", ".def", ".py", ".js", ".mjs", ".html", ".sh", ".txt", ".build", ".ini")
ENDINGS = "c|h|def|py|md|txt|sh|js|mjs|css|html|yaml|yml|build|ini|toml|svg|png"
PATH = re.compile(rf"(?:\.?[\w*{{}},-]+/)+(?:[\w*{{}},.\[\]-]+)?|[\w*-]+\.(?:{ENDINGS})")
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+_?|[A-Z][A-Z0-9]*_[A-Z0-9_]*|\w+(?:->\w+)+|\w+\.\w+_\w+")
TOPS = ("src", "test", "tools", "docs", "bench", "fuzz", "examples", "deploy", ".ci")


class Tree:
    def __init__(self):
        self.files = [path for top in TOPS for path in (ROOT / top).rglob("*") if path.is_file()]
        self.files += [path for path in ROOT.iterdir() if path.is_file()]
        self.names = {path.name for path in self.files}
        text = "\n".join(path.read_text(errors="replace") for path in self.files
                         if path.suffix in TEXTS or path.name in ("Makefile", "meson_options.txt"))
        self.words = set(re.findall(r"\w+", text)) | {path.stem for path in self.files}
        sources = "\n".join(path.read_text() for path in self.files
                            if path.suffix in (".c", ".h", ".def") and path.is_relative_to(ROOT / "src"))
        self.structs = set(re.findall(r"\bstruct (\w+)\s*\{", sources))
        self.calls = set(re.findall(r"\b(\w+)\s*\(", sources + text))
        self.modules = {path.name for path in (ROOT / "src").rglob("*") if path.is_dir()}

    def has_path(self, name, document):
        if "/" not in name:
            return name in self.names or any(pathlib.PurePath(one).match(name) for one in self.names)
        for alternative in expand(name):
            name = alternative.rstrip("/")
            places = [(ROOT, name), (ROOT / "src", f"**/{name}"), (ROOT / "src", f"{name}.h"), (ROOT / "test", name),
                      (document.parent, name)]
            if not any(next(place.glob(pattern), None) for place, pattern in places):
                return False
        return True

    def has_word(self, name):
        return name in self.words or (name.endswith("_") and any(word.startswith(name) for word in self.words))


def expand(name):
    """a/{b,c}.h -> a/b.h, a/c.h"""
    match = re.search(r"\{([^{}]*)\}", name)
    if not match:
        return [name]
    return [one for part in match[1].split(",") for one in expand(name[:match.start()] + part + name[match.end():])]


def prose_lines(text):
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*(```|~~~)", line):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, line


def check_links(document, text):
    for number, line in prose_lines(text):
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", line):
            if not re.match(r"[a-z]+:", target) and not (document.parent / target).exists():
                yield number, f"{target}: a link to nothing (documents)"


def is_path(word):
    """A word that can only be meant as a path of ours."""
    if not PATH.fullmatch(word) or word.startswith("build/"):
        return False
    first = word.split("/")[0]
    return "/" not in word or first in TOPS or (ROOT / "src" / first).is_dir() or word.endswith((".c", ".h", ".def"))


def check_paths(document, text, tree):
    for number, line in prose_lines(text):
        for word in re.findall(r"`([^`\s<>]+)`", line):
            if is_path(word) and not tree.has_path(word, document):
                yield number, f"{word}: not in the tree (documents)"


def check_names(text, tree):
    for number, line in prose_lines(text):
        for quoted in re.findall(r"`([^`]+)`", line):
            call = re.fullmatch(r"(\w+)\(.*\)", quoted)
            tag = re.fullmatch(r"struct (\w+)(?: \*+)?", quoted)
            if tag and tag[1] not in tree.structs and tag[1] not in ("x", "noun"):
                yield number, f"struct {tag[1]}: not under src (documents)"
            elif call and call[1] not in tree.calls:
                yield number, f"{call[1]}(): not in the sources (documents)"
            elif NAME.fullmatch(quoted) and not PATH.fullmatch(quoted):
                for word in re.split(r"->|\.", quoted):
                    if not tree.has_word(word):
                        yield number, f"{word}: not in the sources (documents)"


def check_places(document, text, tree):
    """Names that are said to be in a file."""
    for number, line in prose_lines(text):
        for name, path in re.findall(r"`(\w+)`(?: (?:in|of) | \()`([\w./-]+\.(?:c|h|def|py|js|mjs|yaml|build))`", line):
            files = [one for one in tree.files if one.as_posix().endswith("/" + path)]
            words = set(re.findall(r"\w+", "\n".join(one.read_text() for one in files)))
            if files and name not in words and not (name.endswith("_") and any(word.startswith(name) for word in words)):
                yield number, f"{name}: not in {path} (documents)"


def check_policies(text):
    for name in re.findall(r"^POLICY\((\w+)\)", (ROOT / "src/policy/policies.def").read_text(), re.MULTILINE):
        if not re.search(rf"^\|[^|]*`{name}`", text, re.MULTILINE):
            yield 1, f"{name}: a policy without a row (documents)"


def check_layers(text):
    """Rows `| half | module | what it is |` beside tools/layers.txt."""
    layers = re.findall(r"^(\w+):", (ROOT / "tools/layers.txt").read_text(), re.MULTILINE)
    section = text.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = [row for row in re.findall(r"^\|[^|\n]*\| (\w+) \|", section, re.MULTILINE) if row != "module"]
    first = text[:text.index("\n## Layers\n")].count("\n") + 2
    for module in layers + rows:
        if (module in layers) != (module in rows):
            yield first, f"{module}: {'not in the table of' if module in layers else 'only in the table of'} layers (layers)"
    if set(layers) == set(rows) and layers != rows:
        yield first, "the table of layers and tools/layers.txt differ in order (layers)"


def check():
    """Triples of path, line number and message."""
    tree = Tree()
    main = [ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "STYLE")]
    for document in [ROOT / "README.md", *main, *sorted((ROOT / "docs").rglob("*.md"))]:
        text = document.read_text()
        findings = [*check_links(document, text), *check_paths(document, text, tree)]
        if document in main or document.parent.name == "internals":
            findings += [*check_names(text, tree), *check_places(document, text, tree)]
        if document.name == "ARCHITECTURE.md":
            findings += check_layers(text)
        if document.name == "choose-policy.md":
            findings += check_policies(text)
        for line, message in findings:
            yield document, line, message


def main():
    findings = list(check())
    for path, line, message in findings:
        print(f"{path.relative_to(ROOT)}:{line}: {message}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
