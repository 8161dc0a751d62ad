#!/usr/bin/env python3
"""Rules for names and prose that a program can check.  Run by `make tidy`.

- A static function name is defined in at most two files under src.
- A struct tag is defined once under src.
- No sentence of a comment or a document begins with What, Who or Whoever.  Questions, headings and
  the header row of a table may.
- No comment, document or string under src has the words `is no`, except in `is no longer`.
- A comment line has at most 100 columns.
- The name of a test (TEST(name) in C, def test_name in Python) does not begin with what, who or
  whoever, and has neither nobody, somebody nor `is_no`, except in `is_no_longer`.

Code in a document (fenced, indented by four, or in backticks) is not prose.
"""
import collections
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS_MAX = 100
RIDDLE = re.compile(r"(?:What|Who|Whoever)\b(?!['’]s )")
IS_NO = re.compile(r"\bis no (?!longer\b)")
TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
STATIC = re.compile(r"^static [\w\s*]*?[\s*](\w+)\(", re.MULTILINE)
STRUCT = re.compile(r"^\s*(?:(?:typedef|static|const|extern) )*struct (\w+)\s*\{", re.MULTILINE)
TEST_NAMES = {".c": re.compile(r"^TEST\w*\(\s*(\w+)", re.MULTILINE),
              ".py": re.compile(r"^\s*(?:async )?def test_(\w+)", re.MULTILINE)}
NAME_RIDDLE = re.compile(r"(?:what|who|whoever)_|.*?_?(?:nobody|somebody)|.*?(?<![a-z])is_no_(?!longer)")
C_LIKE = (".c", ".h", ".def", ".js", ".mjs", ".css")
PATTERNS = ["src/**/*", "test/**/*", "fuzz/*", "bench/*", "tools/*", ".ci/*", "deploy/**/*",
            "examples/**/*", "Makefile", "meson.build", "*.md", "docs/**/*.md"]
HASHED = (".py", ".sh", ".build", ".yaml", ".yml", ".conf")


def files_of(root):
    found = {path for pattern in PATTERNS for path in root.glob(pattern) if path.is_file()}
    known = C_LIKE + HASHED + (".md",)
    return sorted(path for path in found
                  if path.suffix in known or path.name in ("Makefile", "run"))


def c_comments(text):
    """Pairs of line number and comment; a comment that fills its line continues the one above."""
    for match in TOKEN.finditer(text):
        if match[0][0] == "/":
            number = text.count("\n", 0, match.start()) + 1
            start = text.rfind("\n", 0, match.start()) + 1
            alone = not text[start:match.start()].strip()
            for offset, line in enumerate(match[0].splitlines()):
                yield number + offset, re.sub(r"^\s*(//|/\*+|\*/?)|\*/$", "", line), alone


def c_strings(text):
    for match in TOKEN.finditer(text):
        if match[0][0] == '"':
            yield text.count("\n", 0, match.start()) + 1, match[0]


def python_comments(text):
    """Comments and docstrings."""
    at_start = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            alone = not token.line[:token.start[1]].strip()
            yield token.start[0], token.string.lstrip("#!"), alone
        elif token.type == tokenize.STRING and at_start:
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, line.strip().strip('"').strip(), True
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            at_start = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
                                      tokenize.ENCODING)


def hash_comments(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*#+!?(.*)", line)
        if match:
            yield number, match[1], True


def comments_of(path, text):
    if path.suffix in C_LIKE:
        return c_comments(text)
    return python_comments(text) if path.suffix == ".py" else hash_comments(text)


def paragraphs(lines):
    """Joins comment lines that follow each other.  Yields lists of (line number, text)."""
    run, last = [], None
    for number, line, alone in lines:
        joins = run and alone and number == last + 1 and line.strip()
        if run and (not joins or re.match(r"\s*(?:[-*]|\d+\.) ", line)):
            yield run
            run = []
        if line.strip():
            run.append((number, line.strip()))
        last = number
    if run:
        yield run


def document_lines(text):
    """A document's prose in the form of comments; a table's cells are paragraphs."""
    fenced, lines = False, text.splitlines()
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*(```|~~~)", line):
            fenced = not fenced
            continue
        following = lines[number] if number < len(lines) else ""
        is_header_row = line.startswith("|") and re.match(r"\|[-: |]+\|?\s*$", following)
        if fenced or line.startswith(("    ", "#")) or is_header_row:
            continue
        line = re.sub(r"`[^`]*`", "`x`", line)
        if line.startswith("|"):
            for cell in line.strip("|").split("|"):
                yield number, cell, False
        else:
            yield number, line, True


def sentences(run):
    """Pairs of line number and sentence."""
    text, starts = "", []
    for number, line in run:
        starts.append((len(text), number))
        text += re.sub(r"^(?:[-*]|\d+\.) ", "", line) + " "
    for match in re.finditer(r"(?:^|(?<=[.!?] )|(?<=[.!?]  ))\S.*?(?:[.!?](?=\s)|$)", text):
        number = max(number for offset, number in starts if offset <= match.start())
        yield number, match[0].lstrip("*_(\"“ ")


def check_prose(lines):
    for run in paragraphs(lines):
        for number, sentence in sentences(run):
            if RIDDLE.match(sentence) and not sentence.endswith("?"):
                yield number, f"a sentence begins with {sentence.split()[0]} (prose)"
            if IS_NO.search(sentence):
                yield number, '"is no": say what it is (prose)'


def check_text(path, text, is_source):
    """Everything about one file's prose: pairs of line number and message."""
    if path.suffix == ".md":
        yield from check_prose(document_lines(text))
        return
    comments = list(comments_of(path, text))
    yield from check_prose(comments)
    lines = text.splitlines()
    for number in sorted({number for number, _, _ in comments}):
        if len(lines[number - 1]) > COLUMNS_MAX:
            yield number, f"a comment of {len(lines[number - 1])} columns, at most {COLUMNS_MAX} (prose)"
    if is_source and path.suffix in C_LIKE:
        for number, string in c_strings(text):
            if IS_NO.search(string):
                yield number, '"is no" in a text: say what it is (prose)'


def check_test_names(path, text):
    for match in TEST_NAMES.get(path.suffix, re.compile(r"(?!)")).finditer(text):
        if NAME_RIDDLE.match(match[1]):
            number = text.count("\n", 0, match.start(1)) + 1
            yield number, f"{match[1]}: not a plain claim: what, who, nobody or is_no (names)"


def check_statics(texts):
    """A name that three files define does not lead to one place."""
    places = collections.defaultdict(dict)
    for path, text in texts.items():
        for match in STATIC.finditer(text):
            places[match[1]].setdefault(path, text.count("\n", 0, match.start()) + 1)
    for name, where in sorted(places.items()):
        if len(where) > 2:
            for path, number in where.items():
                yield path, number, f"{name}() is static in {len(where)} files, at most 2 (names)"


def check_tags(texts):
    places = collections.defaultdict(list)
    for path, text in texts.items():
        for match in STRUCT.finditer(text):
            places[match[1]].append((path, text.count("\n", 0, match.start(1)) + 1))
    for tag, where in sorted(places.items()):
        if len(where) > 1:
            for path, number in where:
                yield path, number, f"struct {tag} is defined {len(where)} times (names)"


def check(root):
    """Triples of path, line number and message, sorted."""
    findings, sources = [], {}
    for path in files_of(root):
        text = path.read_text()
        is_source = path.is_relative_to(root / "src")
        if is_source and path.suffix in (".c", ".h", ".def"):
            sources[path] = text
        findings += [(path, line, message) for line, message in check_text(path, text, is_source)]
        if path.is_relative_to(root / "test"):
            findings += [(path, line, message) for line, message in check_test_names(path, text)]
    findings += [*check_statics(sources), *check_tags(sources)]
    return sorted(findings)


def main():
    findings = check(ROOT)
    for path, line, message in findings:
        print(f"{path.relative_to(ROOT)}:{line}: {message}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
