#!/usr/bin/env python3
"""Writes src/template/builtin/case_tables.def: what Python's str methods know of each character.

    tools/case_tables.py > src/template/builtin/case_tables.def

Classes are lists of first and last code points; mappings are runs of code points that move by the same
distance, every one or every second of them, and a list of those that become several.
"""
import sys
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xd800 <= c <= 0xdfff]


def is_cased(character):
    return character.islower() or character.isupper() or character.istitle()


def is_ignorable(character):
    """Python does not tell, but its lower() of a sigma depends on it."""
    if is_cased(character):
        return (character + "\u03a3").lower().endswith("\u03c3")
    return ("A" + character + "\u03a3").lower().endswith("\u03c2")


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


def write_rows(name, kind, rows):
    print(f"\nstatic const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        word = " {" + ", ".join(str(n) for n in row) + "},"
        if len(line) + len(word) > 108:
            print(line)
            line = "   "
        line += word
    print(line)
    print("};")


def write_mapping(name, method, base=None):
    single, several = [], []
    for point in POINTS:
        mapped = method(chr(point))
        if mapped == (base(chr(point)) if base else chr(point)):
            continue
        if len(mapped) == 1:
            single.append((point, ord(mapped)))
        else:
            several.append([point] + [ord(c) for c in mapped] + [0] * (3 - len(mapped)))
    write_rows(f"{name}_runs", "struct case_run", runs(single))
    write_rows(f"{name}_several", "struct case_several", several)


def main():
    print("// SPDX-License-Identifier: Apache-2.0")
    print("//")
    print("// Written by tools/case_tables.py with Python "
          f"{sys.version_info[0]}.{sys.version_info[1]}, Unicode {unicodedata.unidata_version}.")
    for name, test in [("unprintable", lambda c: not c.isprintable()), ("alphabetic", str.isalpha),
                       ("digit", str.isdigit), ("numeric", str.isnumeric), ("lowercase", str.islower),
                       ("uppercase", str.isupper),
                       ("titlecase", lambda c: c.istitle() and not c.isupper()),
                       ("ignorable", is_ignorable)]:
        write_rows(name, "struct character_range", ranges(test))
    write_mapping("lower", str.lower)
    write_mapping("upper", str.upper)
    # As upper, but for these.
    write_mapping("title", str.title, str.upper)


if __name__ == "__main__":
    main()
