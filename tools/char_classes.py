#!/usr/bin/env python3
"""Writes src/tokenizer/split/char_class.c: asks tokenizers what it takes each character for.

    PYTHON tools/char_classes.py > src/tokenizer/split/char_class.c

PYTHON has the package tokenizers, of the version that is to be followed: 0.23.2 so far.  Nothing
else decides what is written, so running it again is the test of what is checked in.
"""
import collections

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

PATTERNS = {  # by bit, as in char_class.h
    0: r"\p{Lu}", 1: r"\p{Ll}", 2: r"\p{Lt}", 3: r"\p{Lm}", 4: r"\p{Lo}", 5: r"\p{M}", 6: r"\p{N}",
    7: r"\p{P}", 8: r"\p{S}", 9: r"\s", 10: r"\p{Han}",
}
NUMERIC_BIT, WORD_BIT = 11, 12
PAGE = 128
PORTION = 2048  # divides the surrogates off
BETWEEN, TOKEN = "\ue000", "\ue001"  # for private use: in no class


def portions():
    """All scalar values, some at a time."""
    for begin in range(0, 0x110000, PORTION):
        if not 0xD800 <= begin < 0xE000:
            yield [chr(point) for point in range(begin, begin + PORTION)]


def matching(pattern):
    """The characters that a pattern matches, alone."""
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    for characters in portions():
        for piece, _ in splitter.pre_tokenize_str(BETWEEN.join(characters)):
            yield piece


def numeric():
    """char::is_numeric of Rust: those that Digits cuts out."""
    splitter = pre_tokenizers.Digits(individual_digits=True)
    for characters in portions():
        text = BETWEEN + BETWEEN.join(characters) + BETWEEN
        for piece, _ in splitter.pre_tokenize_str(text):
            if len(piece) == 1 and piece != BETWEEN:
                yield piece


def word():
    """\\w of Rust's regex crate: behind those, a token that must be a word alone is not seen."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken(TOKEN, single_word=True)])
    for characters in portions():
        others = [character for character in characters if character not in (BETWEEN, TOKEN)]
        text = "".join(character + TOKEN + BETWEEN for character in others)
        seen = {begin for begin, _ in tokenizer.encode(text).offsets}
        for index, character in enumerate(others):
            if 3 * index + 1 not in seen:
                yield character


def classes():
    table = [0] * 0x110000
    rows = {bit: matching(pattern) for bit, pattern in PATTERNS.items()}
    for bit, characters in {**rows, NUMERIC_BIT: numeric(), WORD_BIT: word()}.items():
        for character in characters:
            table[ord(character)] |= 1 << bit
    return table


def ranges(values):
    """Initialisers, one for each run of equal values but for those of zeros."""
    begin = 0
    for end in range(1, len(values) + 1):
        if end < len(values) and values[end] == values[begin]:
            continue
        if values[begin] != 0:
            place = f"{begin}" if end - begin == 1 else f"{begin} ... {end - 1}"
            yield f"[{place}] = {values[begin]},"
        begin = end


def folded(words, indent):
    line = ""
    for text in words:
        if len(indent) + len(line) + 1 + len(text) > 100:
            yield indent + line
            line = ""
        line += " " * (line != "") + text
    if line:
        yield indent + line


def main():
    table = classes()
    pages = collections.OrderedDict()
    index = []
    for begin in range(0, len(table), PAGE):
        page = tuple(table[begin:begin + PAGE])
        index.append(pages.setdefault(page, len(pages)))
    assert len(pages) <= 256, "a page number is one byte"
    print("""// SPDX-License-Identifier: Apache-2.0
//
// Written by tools/char_classes.py; not by hand.

#include "tokenizer/split/char_class.h"

// clang-format off
const uint8_t char_class_pages[0x110000 / 128] = {""")
    print("\n".join(folded(ranges(index), "    ")))
    print("};\n\nconst uint16_t char_class_table[][128] = {")
    for page in pages:
        # Where kinds alternate, a plain list is shorter than one of runs.
        rows = min(list(folded(ranges(page), "     ")) or ["     0,"],
                   list(folded([f"{value}," for value in page], "     ")), key=len)
        print("    {" + "\n".join(rows)[5:].rstrip(",") + "},")
    print("};")


if __name__ == "__main__":
    main()
