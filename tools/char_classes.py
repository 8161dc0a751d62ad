#!/usr/bin/env python3
"""The classes of characters, as ranges in src/tokenizer/split/char_class.txt and as a table for C.

    PYTHON tools/char_classes.py ask > src/tokenizer/split/char_class.txt
    tools/char_classes.py table OUTPUT                                      (the build runs this)

`ask` takes the classes from the package tokenizers; PYTHON must have the version to follow: 0.23.2
so far.  The output has no other input, so running it again checks the committed file.  `table`
needs no package, and its output does not depend on the version of Python.
"""
import collections
import pathlib
import sys

RANGES = pathlib.Path(__file__).resolve().parent.parent / "src/tokenizer/split/char_class.txt"
# Bit n, as in char_class.h, is the nth row: its name, and its pattern if tokenizers accepts one.
CLASSES = {
    "LU": r"\p{Lu}", "LL": r"\p{Ll}", "LT": r"\p{Lt}", "LM": r"\p{Lm}", "LO": r"\p{Lo}", "M": r"\p{M}",
    "N": r"\p{N}", "P": r"\p{P}", "S": r"\p{S}", "WS": r"\s", "HAN": r"\p{Han}",
    "RUST_NUMERIC": None, "RUST_WORD": None,
}
BITS = {name: 1 << index for index, name in enumerate(CLASSES)}
# Members of these classes are members of the first one, too, and are not listed there again.
IMPLIED = {"RUST_NUMERIC": BITS["N"],
           "RUST_WORD": BITS["LU"] | BITS["LL"] | BITS["LT"] | BITS["LM"] | BITS["LO"] | BITS["M"]}
POINTS = 0x110000
PAGE = 128
PORTION = 2048  # divides the surrogates off
BETWEEN, TOKEN = "\ue000", "\ue001"  # for private use: in no class


def portions():
    """All scalar values, some at a time."""
    for begin in range(0, POINTS, PORTION):
        if not 0xD800 <= begin < 0xE000:
            yield [chr(point) for point in range(begin, begin + PORTION)]


def matching(pattern):
    """The characters that a pattern matches."""
    from tokenizers import Regex, pre_tokenizers
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    for characters in portions():
        for piece, _ in splitter.pre_tokenize_str(BETWEEN.join(characters)):
            yield piece


def numeric():
    """char::is_numeric of Rust: the characters that Digits cuts out."""
    from tokenizers import pre_tokenizers
    splitter = pre_tokenizers.Digits(individual_digits=True)
    for characters in portions():
        text = BETWEEN + BETWEEN.join(characters) + BETWEEN
        for piece, _ in splitter.pre_tokenize_str(text):
            if len(piece) == 1 and piece != BETWEEN:
                yield piece


def word():
    """\\w of Rust's regex crate: behind such a character a single_word token does not match."""
    from tokenizers import AddedToken, Tokenizer, models
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_tokens([AddedToken(TOKEN, single_word=True)])
    for characters in portions():
        others = [character for character in characters if character not in (BETWEEN, TOKEN)]
        text = "".join(character + TOKEN + BETWEEN for character in others)
        seen = {begin for begin, _ in tokenizer.encode(text).offsets}
        for index, character in enumerate(others):
            if 3 * index + 1 not in seen:
                yield character


def ask():
    """The classes of every character by tokenizers, as a word of bits each."""
    table = [0] * POINTS
    found = {name: matching(pattern) for name, pattern in CLASSES.items() if pattern}
    for name, characters in {**found, "RUST_NUMERIC": numeric(), "RUST_WORD": word()}.items():
        for character in characters:
            table[ord(character)] |= BITS[name]
    return table


def ranges(points):
    """[first, last, step] for runs of neighbours, or of every second code point."""
    found = []
    for point in points:
        if found:
            first, last, step = found[-1]
            gap = point - last
            # Two that are apart by two are no run yet: the second may begin one of neighbours.
            if gap <= 2 and (first == last or gap == step):
                found[-1] = [first, point, gap]
                continue
            if step == 2 and last - first == 2 and gap == 1:
                found[-1:] = [[first, first, 1], [last, point, 1]]
                continue
        found.append([point, point, 1])
    return found


def range_text(first, last, step):
    return f"{first:X}" if first == last else f"{first:X}-{last:X}" + ("/2" if step == 2 else "")


def folded(words, indent):
    line = ""
    for text in words:
        if len(indent) + len(line) + 1 + len(text) > 100:
            yield indent + line
            line = ""
        line += " " * (line != "") + text
    if line:
        yield indent + line


def write_ranges(table):
    print("# Written by tools/char_classes.py, which says how.  Members of each class as code points, first-last,")
    print("# with /2 where it is every second one.  RUST_NUMERIC also has all of N, RUST_WORD all of L and M.")
    for name, bit in BITS.items():
        print(name)
        members = [point for point in range(POINTS) if table[point] & bit and not table[point] & IMPLIED.get(name, 0)]
        print("\n".join(folded((range_text(*found) for found in ranges(members)), "    ")))


def read_ranges():
    table = [0] * POINTS
    bit = 0
    for line in RANGES.read_text().splitlines():
        if not line.startswith((" ", "#")):
            bit = BITS[line]
        elif line.startswith(" "):
            for text in line.split():
                text, _, step = text.partition("/")
                first, _, last = text.partition("-")
                for point in range(int(first, 16), int(last or first, 16) + 1, int(step or 1)):
                    table[point] |= bit
    for name, classes in IMPLIED.items():
        table = [value | BITS[name] if value & classes else value for value in table]
    return table


def write_table(table, out):
    pages = collections.OrderedDict()
    index = [pages.setdefault(tuple(table[begin:begin + PAGE]), len(pages)) for begin in range(0, POINTS, PAGE)]
    assert len(pages) <= 256, "a page number is one byte"
    print("// Written by tools/char_classes.py.", file=out)
    print("const uint8_t char_class_pages[] = {", file=out)
    print("\n".join(folded((f"{page}," for page in index), "    ")), file=out)
    print("};\nconst uint16_t char_class_table[][128] = {", file=out)
    for page in pages:
        print("{" + ",".join(map(str, page)) + "},", file=out)
    print("};", file=out)


def main():
    if sys.argv[1] == "ask":
        write_ranges(ask())
    else:
        with open(sys.argv[2], "w", encoding="utf-8") as out:
            write_table(read_ranges(), out)


if __name__ == "__main__":
    main()
