#!/usr/bin/python3
"""Writes src/tokenizer/nfc/nfc_tables.c: what normalization form C has to know of characters.

    tools/nfc_tables.py [--unicode /usr/share/unicode] > src/tokenizer/nfc/nfc_tables.c

The folder is that of Debian's package unicode-data.  What normalization says of a character never changes
once it is assigned, so the data of Unicode 9.0 are those of any later version without the younger
characters, which then have no class and no decomposition.
"""

import argparse
import pathlib
import sys

AGE = (9, 0)
PAGE = 64
END = 0x30000  # nothing above has a class or a decomposition
DECOMPOSES, CHANGES, MAY_COMPOSE = 1 << 15, 1 << 14, 1 << 8  # as in nfc_internal.h
LENGTH_SHIFT = 12
HANGUL = range(0xAC00, 0xAC00 + 11172)
HANGUL_SECONDS = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
# The specification's own figures; others would mean that the files were misread.
EXPECTED = {"classes": 814, "decompositions": 2060, "compositions": 940}


def rows(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].strip()
        if line:
            yield [field.strip() for field in line.split(";")]


def code_points(field):
    first, _, last = field.partition("..")
    return range(int(first, 16), int(last or first, 16) + 1)


def read(folder):
    """Classes, and direct decompositions, of the characters that are old enough."""
    old = set()
    for points, age in (row[:2] for row in rows(folder / "DerivedAge.txt")):
        if tuple(map(int, age.split("."))) <= AGE:
            old.update(code_points(points))
    classes, direct = {}, {}
    for row in rows(folder / "UnicodeData.txt"):
        point, combining, mapping = int(row[0], 16), int(row[3]), row[5]
        if point not in old:
            continue
        if combining:
            classes[point] = combining
        if mapping and not mapping.startswith("<"):
            direct[point] = [int(part, 16) for part in mapping.split()]
    excluded = {int(row[0], 16) for row in rows(folder / "CompositionExclusions.txt")}
    return classes, direct, excluded


def compositions_of(classes, direct, excluded):
    """By first and second; without those that would not come back as they were."""
    return {tuple(parts): whole for whole, parts in direct.items()
            if len(parts) == 2 and whole not in excluded and not classes.get(whole)
            and not classes.get(parts[0])}


def fully(point, direct):
    if point not in direct:
        return [point]
    return [last for part in direct[point] for last in fully(part, direct)]


def utf8_size(points):
    return sum(len(chr(point).encode()) for point in points)


def pages_of(values):
    """Two stages: which page each 64 code points have, and the pages that differ."""
    numbers, pages = [], []
    for start in range(0, END, PAGE):
        page = tuple(values.get(point, 0) for point in range(start, start + PAGE))
        if page not in pages:
            pages.append(page)
        numbers.append(pages.index(page))
    assert len(pages) <= 256
    return numbers, pages


def values_of(classes, full, composed):
    """What the table says of each character, and the decompositions that it points to."""
    seconds = {pair[1] for pair in composed} | HANGUL_SECONDS
    wholes = set(composed.values())
    values = {point: combining for point, combining in classes.items()}
    for point in seconds:
        values[point] = values.get(point, 0) | MAY_COMPOSE
    points, places = [], {}
    for point, parts in sorted(full.items(), key=lambda item: (-len(item[1]), item[0])):
        key = tuple(parts)
        if key not in places:
            places[key] = len(points)
            points += parts
        changes = CHANGES if point not in wholes else 0
        assert places[key] < 1 << LENGTH_SHIFT and len(parts) <= 4
        # Behind a starter that stays as it is, nothing before it is looked at.
        assert changes or (point not in classes and point not in seconds and
                           parts[0] not in classes and parts[0] not in seconds)
        values[point] = DECOMPOSES | changes | len(parts) - 1 << LENGTH_SHIFT | places[key]
    return values, points


def clean_leads(values):
    """First bytes all of whose characters stay as they are, whatever is around them."""
    def is_clean(point):
        value = values.get(point, 0)
        return not value & CHANGES if value & DECOMPOSES else value == 0

    leads = {lead: True for lead in range(0xCC, 0xF5)}
    for point in list(range(0x300, 0xD800)) + list(range(0xE000, 0x110000)):
        if not is_clean(point):
            leads[chr(point).encode()[0]] = False
    return [int(leads.get(byte, byte < 0xCC)) for byte in range(256)]


def array(declaration, items):
    """Lines of at most 100 columns."""
    lines, line = [], "    "
    for item in items:
        if len(line) + len(item) + 1 > 100:
            lines.append(line)
            line = "    "
        line += f"{item},"
    return "\n".join([f"const {declaration} = {{"] + lines + [line, "};", ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unicode", type=pathlib.Path, default="/usr/share/unicode")
    classes, direct, excluded = read(parser.parse_args().unicode)
    composed = compositions_of(classes, direct, excluded)
    found = {"classes": len(classes), "decompositions": len(direct), "compositions": len(composed)}
    assert found == EXPECTED, found

    full = {point: fully(point, direct) for point in direct}
    # What nfc.c relies on: a text grows at most threefold, and composing makes nothing longer.
    assert all(utf8_size(parts) <= 3 * utf8_size([point]) for point, parts in full.items())
    assert all(utf8_size([whole]) <= utf8_size(pair) for pair, whole in composed.items())
    assert max(list(classes) + list(direct)) < END and not set(HANGUL) & set(direct)

    values, points = values_of(classes, full, composed)
    numbers, pages = pages_of(values)
    pairs = sorted((first << 32 | second, whole) for (first, second), whole in composed.items())
    sys.stdout.write("\n".join([
        "// SPDX-License-Identifier: Apache-2.0",
        "//",
        "// Generated by tools/nfc_tables.py from Unicode's data files.",
        "",
        '#include "tokenizer/nfc/nfc_internal.h"',
        "",
        "// clang-format off",
        array("uint8_t nfc_clean_leads[256]", map(str, clean_leads(values))),
        array("uint8_t nfc_pages[nfc_end / nfc_page_size]", map(str, numbers)),
        array("uint16_t nfc_table[]",
              (str(value) for page in pages for value in page)),
        array("uint32_t nfc_points[]", (f"0x{point:x}" for point in points)),
        array("uint64_t nfc_pairs[nfc_pair_count]", (f"0x{pair:x}" for pair, _ in pairs)),
        array("uint32_t nfc_wholes[nfc_pair_count]", (f"0x{whole:x}" for _, whole in pairs)),
    ]))


if __name__ == "__main__":
    main()
