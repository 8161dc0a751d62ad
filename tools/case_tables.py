#!/usr/bin/env python3
"""What Python's str methods know of each character, as tables for src/template/value/value_text.c.

    tools/case_tables.py read > src/template/value/case_tables.txt
    tools/case_tables.py write src/template/value/case_tables.txt build/debug/case_tables.def

`read` takes the tables from the running Python; the text names its version of Unicode.  The build
runs `write`, which only rewrites that text as C: the program does not depend on the builder's
Python.

The text has one line for each table, its name before its rows; a line that begins with a blank
continues the one above.  The start of a row is the distance in code points from the end of the row
before.
    classes:   skipped.length                  a range, from its first to its last; 0 is left out
    *_runs:    skipped.length.step.distance    every `step`th of them moves by the same distance
    *_several: skipped.a.b.c                   one character becomes two or three (no third: 0)
"""
import pathlib
import sys
import textwrap
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]
# How rows of a table are written in C, by the end of its name.
KINDS = {"runs": ("struct case_run", "{{%d, %d}, %d, %d}"),
         "several": ("struct case_several", "{{%d, %d}, {%d, %d, %d}}")}
RANGE = ("struct character_range", "{%d, %d}")


def is_cased(character):
    return character.islower() or character.isupper() or character.istitle()


def is_ignorable(character):
    """Python does not tell, but its lower() of a sigma depends on it."""
    if is_cased(character):
        return (character + "\u03a3").lower().endswith("\u03c3")
    return ("A" + character + "\u03a3").lower().endswith("\u03c2")


CLASSES = {
    "unprintable": lambda c: not c.isprintable(), "alphabetic": str.isalpha, "digit": str.isdigit,
    "numeric": str.isnumeric, "lowercase": str.islower, "uppercase": str.isupper,
    "titlecase": lambda c: c.istitle() and not c.isupper(), "ignorable": is_ignorable,
}
# Each with the mapping that it differs from: `title` lists only what is not as in `upper`.
MAPPINGS = {"lower": (str.lower, str), "upper": (str.upper, str), "title": (str.title, str.upper)}


def ranges(test):
    found = []
    for point in POINTS:
        if not test(chr(point)):
            continue
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return found


def runs(mapping):
    """[first, last, step, distance] for what maps to one code point."""
    found = []
    for point, target in mapping:
        distance = target - point
        if found:
            first, last, step, same = found[-1]
            gap = point - last
            if same == distance and gap in (1, 2) and (first == last or gap == step):
                found[-1] = [first, point, gap, same]
                continue
        found.append([point, point, 1, distance])
    return found


def mapped(method, base):
    single, several = [], []
    for point in POINTS:
        text = method(chr(point))
        if text == base(chr(point)):
            continue
        if len(text) == 1:
            single.append((point, ord(text)))
        else:
            several.append([point, point] + [ord(c) for c in text] + [0] * (3 - len(text)))
    return runs(single), several


def pack(name, rows):
    words, end = [], 0
    for first, last, *rest in rows:
        has_length = not name.endswith("_several") and (rest or last > first)
        word = [first - end, *([last - first] if has_length else []), *rest]
        words.append(".".join(str(n) for n in word))
        end = last
    print("\n".join(textwrap.wrap(f"{name} " + " ".join(words), 110, subsequent_indent=" ")))


def unpack(name, words):
    end = 0
    for word in words:
        skipped, *rest = (int(n) for n in word.split("."))
        length = rest.pop(0) if rest and not name.endswith("_several") else 0
        yield [end + skipped, end + skipped + length, *rest]
        end += skipped + length


def read():
    version = f"Python {sys.version_info[0]}.{sys.version_info[1]}, Unicode {unicodedata.unidata_version}"
    print(f"# Written by tools/case_tables.py, which explains it, with {version}.")
    for name, test in CLASSES.items():
        pack(name, ranges(test))
    for name, (method, base) in MAPPINGS.items():
        single, several = mapped(method, base)
        pack(f"{name}_runs", single)
        pack(f"{name}_several", several)


def write(source, target):
    text = pathlib.Path(source).read_text().replace("\n ", " ")
    out = ["// Written by tools/case_tables.py."]
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, *words = line.split()
        kind, row_format = KINDS.get(name.rpartition("_")[2], RANGE)
        out.append(f"static const {kind} {name}[] = {{")
        out += [f"    {row_format % tuple(row)}," for row in unpack(name, words)]
        out.append("};")
    pathlib.Path(target).write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    read() if sys.argv[1] == "read" else write(*sys.argv[2:])
