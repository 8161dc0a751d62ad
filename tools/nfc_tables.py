#!/usr/bin/env python3
"""Writes the tables of normalization form C, as of Unicode 9.0; the build runs it.

    tools/nfc_tables.py OUTPUT

The data come from Python's unicodedata for the characters below.  Unicode never changes the
combining class or the canonical decomposition of an assigned character, and every Python since 3.6
has Unicode 9.0 or later.  So the output does not depend on the version of Python, and its digest is
checked.
"""

import hashlib
import sys
import unicodedata

# All characters of Unicode 9.0 that have a combining class or a canonical decomposition.
CHARACTERS = """
C0-C5 C7-CF D1-D6 D9-DD E0-E5 E7-EF F1-F6 F9-FD FF-10F 112-125 128-130 134-137 139-13E 143-148
14C-151 154-165 168-17E 1A0-1A1 1AF-1B0 1CD-1DC 1DE-1E3 1E6-1F0 1F4-1F5 1F8-21B 21E-21F 226-233
300-34E 350-36F 374 37E 385-38A 38C 38E-390 3AA-3B0 3CA-3CE 3D3-3D4 400-401 403 407 40C-40E 419
439 450-451 453 457 45C-45E 476-477 483-487 4C1-4C2 4D0-4D3 4D6-4D7 4DA-4DF 4E2-4E7 4EA-4F5
4F8-4F9 591-5BD 5BF 5C1-5C2 5C4-5C5 5C7 610-61A 622-626 64B-65F 670 6C0 6C2 6D3 6D6-6DC 6DF-6E4
6E7-6E8 6EA-6ED 711 730-74A 7EB-7F3 816-819 81B-823 825-827 829-82D 859-85B 8D4-8E1 8E3-8FF 929
931 934 93C 94D 951-954 958-95F 9BC 9CB-9CD 9DC-9DD 9DF A33 A36 A3C A4D A59-A5B A5E ABC ACD B3C
B48 B4B-B4D B5C-B5D B94 BCA-BCD C48 C4D C55-C56 CBC CC0 CC7-CC8 CCA-CCB CCD D4A-D4D DCA DDA
DDC-DDE E38-E3A E48-E4B EB8-EB9 EC8-ECB F18-F19 F35 F37 F39 F43 F4D F52 F57 F5C F69 F71-F76 F78
F7A-F7D F80-F84 F86-F87 F93 F9D FA2 FA7 FAC FB9 FC6 1026 1037 1039-103A 108D 135D-135F 1714 1734
17D2 17DD 18A9 1939-193B 1A17-1A18 1A60 1A75-1A7C 1A7F 1AB0-1ABD 1B06 1B08 1B0A 1B0C 1B0E 1B12
1B34 1B3B 1B3D 1B40-1B41 1B43-1B44 1B6B-1B73 1BAA-1BAB 1BE6 1BF2-1BF3 1C37 1CD0-1CD2 1CD4-1CE0
1CE2-1CE8 1CED 1CF4 1CF8-1CF9 1DC0-1DF5 1DFB-1E99 1E9B 1EA0-1EF9 1F00-1F15 1F18-1F1D 1F20-1F45
1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC1-1FC4 1FC6-1FD3
1FD6-1FDB 1FDD-1FEF 1FF2-1FF4 1FF6-1FFD 2000-2001 20D0-20DC 20E1 20E5-20F0 2126 212A-212B
219A-219B 21AE 21CD-21CF 2204 2209 220C 2224 2226 2241 2244 2247 2249 2260 2262 226D-2271
2274-2275 2278-2279 2280-2281 2284-2285 2288-2289 22AC-22AF 22E0-22E3 22EA-22ED 2329-232A 2ADC
2CEF-2CF1 2D7F 2DE0-2DFF 302A-302F 304C 304E 3050 3052 3054 3056 3058 305A 305C 305E 3060 3062
3065 3067 3069 3070-3071 3073-3074 3076-3077 3079-307A 307C-307D 3094 3099-309A 309E 30AC 30AE
30B0 30B2 30B4 30B6 30B8 30BA 30BC 30BE 30C0 30C2 30C5 30C7 30C9 30D0-30D1 30D3-30D4 30D6-30D7
30D9-30DA 30DC-30DD 30F4 30F7-30FA 30FE A66F A674-A67D A69E-A69F A6F0-A6F1 A806 A8C4 A8E0-A8F1
A92B-A92D A953 A9B3 A9C0 AAB0 AAB2-AAB4 AAB7-AAB8 AABE-AABF AAC1 AAF6 ABED F900-FA0D FA10 FA12
FA15-FA1E FA20 FA22 FA25-FA26 FA2A-FA6D FA70-FAD9 FB1D-FB1F FB2A-FB36 FB38-FB3C FB3E FB40-FB41
FB43-FB44 FB46-FB4E FE20-FE2F 101FD 102E0 10376-1037A 10A0D 10A0F 10A38-10A3A 10A3F 10AE5-10AE6
11046 1107F 1109A 1109C 110AB 110B9-110BA 11100-11102 1112E-1112F 11133-11134 11173 111C0 111CA
11235-11236 112E9-112EA 1133C 1134B-1134D 11366-1136C 11370-11374 11442 11446 114BB-114BC 114BE
114C2-114C3 115BA-115BB 115BF-115C0 1163F 116B6-116B7 1172B 11C3F 16AF0-16AF4 16B30-16B36 1BC9E
1D15E-1D169 1D16D-1D172 1D17B-1D182 1D185-1D18B 1D1AA-1D1AD 1D1BB-1D1C0 1D242-1D244 1E000-1E006
1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A 1E8D0-1E8D6 1E944-1E94A 2F800-2FA1D
"""
# SHA-256 of the output.
DIGEST = "b3cdbd186dd17200f899775d9acb62bcb30e7d69144672afd3022650c9130dff"
PAGE = 64
END = 0x30000  # no character above has a class or a decomposition
DECOMPOSES, CHANGES, MAY_COMPOSE = 1 << 15, 1 << 14, 1 << 8  # as in nfc_internal.h
LENGTH_SHIFT = 12
HANGUL_SECONDS = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))


def read():
    """Classes, direct decompositions, and the pairs that compose, of the characters above."""
    classes, direct, composed = {}, {}, {}
    for text in CHARACTERS.split():
        first, _, last = text.partition("-")
        for point in range(int(first, 16), int(last or first, 16) + 1):
            character = chr(point)
            mapping = unicodedata.decomposition(character)
            if unicodedata.combining(character):
                classes[point] = unicodedata.combining(character)
            if mapping and not mapping.startswith("<"):
                direct[point] = [int(part, 16) for part in mapping.split()]
                # A character that NFC does not restore is excluded from composition.
                if unicodedata.normalize("NFC", character) == character:
                    composed[tuple(direct[point])] = point
    return classes, direct, composed


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
    """The table's value for each character, and the decompositions that it points to."""
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
    classes, direct, composed = read()
    full = {point: fully(point, direct) for point in direct}
    # nfc.c relies on this: a text grows at most threefold, and composing makes nothing longer.
    assert all(utf8_size(parts) <= 3 * utf8_size([point]) for point, parts in full.items())
    assert all(utf8_size([whole]) <= utf8_size(pair) for pair, whole in composed.items())

    values, points = values_of(classes, full, composed)
    numbers, pages = pages_of(values)
    pairs = sorted((first << 32 | second, whole) for (first, second), whole in composed.items())
    text = "\n".join([
        "// Written by tools/nfc_tables.py.",
        '#include "tokenizer/nfc/nfc_internal.h"',
        array("uint8_t nfc_clean_leads[256]", map(str, clean_leads(values))),
        array("uint8_t nfc_pages[nfc_end / nfc_page_size]", map(str, numbers)),
        array("uint16_t nfc_table[]",
              (str(value) for page in pages for value in page)),
        array("uint32_t nfc_points[]", (f"0x{point:x}" for point in points)),
        array("uint64_t nfc_pairs[nfc_pair_count]", (f"0x{pair:x}" for pair, _ in pairs)),
        array("uint32_t nfc_wholes[nfc_pair_count]", (f"0x{whole:x}" for _, whole in pairs)),
    ])
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert digest == DIGEST, f"other tables than those of Unicode 9.0: {digest}"
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(text)


if __name__ == "__main__":
    main()
