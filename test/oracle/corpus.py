"""Documents for the comparison of tokenizers: made from samples.txt and from a seed.

First come the documents that every run must have -- each added token inside text, each whitespace
character, each contraction, long pieces -- then as many random ones as requested.  The same seed
and the same added tokens give the same documents.
"""
import base64
import itertools
import pathlib
import random
import unicodedata

WHITESPACE = [chr(code) for code in (
    *range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F,
    0x205F, 0x3000)]
# Characters that programs mistake for a space or drop.
NEARLY_SPACE = ["\u200b", "\u180e", "\u2060", "\ufeff", "\u00ad", "\x1c", "\x1f", "\x00", "\u2581"]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'ſ", "’s", "'x", "'", "''s", "'r", "'l"]
DIGITS = ["0", "7", "42", "123", "1234", "1234567", "٣", "१२३", "๕", "Ⅷ", "½", "²", "①", "㊿", "፻", "〇",
          "𝟙𝟚", "１２３４", "৹", "𐄇", "𑷠𑷡", "𖿴", "零", "௧௨", "¼½¾"]
EMOJI = ["😀", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🇩🇪", "🇺🇦🇯🇵", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "❤️", "☎︎", "1️⃣", "🤷🏿‍♀️", "✈", "🫠", "🪿", "ʕ•ᴥ•ʔ", "¯\\_(ツ)_/¯"]
MARKS = [chr(code) for code in (*range(0x300, 0x30A), 0x323, 0x327, 0x328, 0x345, 0x338, 0x5B4, 0x64B,
                                0x93C, 0xF71, 0xF72, 0x1DC0, 0x20D0, 0xFE20, 0x1D165, 0x1E8D0)]
# Composed and decomposed, excluded from composition, or younger than the library's own tables.
COMPOSING = ["é", "e\u0301", "Å", "\u212b", "A\u030a", "ḍ̇", "d\u0307\u0323", "각", "\u1100\u1161\u11a8",
             "\u1100\u1161", "\u1161\u11a8", "\uac00\u11a8", "\u0958", "\u0915\u093c", "\ufb1d", "\u2adc",
             "\u0344", "\u0340", "\u1e9b\u0323", "\u03d2\u0301", "\u0d46\u0d3e", "\U00011099\U000110ba",
             "\U00016121\U00016121", "\U000105d2\u0307", "\uf900", "\U0002f800", "\u0cc6\u0cc2\u0cd5",
             "\u0f73", "\u0f71\u0f72", "\u1f82", "α\u0313\u0300\u0345"]
ODD = ["\u2581", "▁▁", " ▁", "▁ ", "<0x0A>", "<0x", "\ufeff", "\ufffd", "\u0378", "\ue000", "\uf8ff",
       "\U0010ffff", "\U000e0001", "\U000f0000", "\ufdd0", "\ufffe", "ſ", "K", "İ", "ı", "ß", "ẞ", "ǅ",
       "ʰ", "ª", "ﬁ", "Ω", "Σς", "\u0600", "\u200d", "\u202e", "\x7f", "\x80", "\x9f", "ĠĊ", "Ġthe", "</s>",
       "<s>", "<unk>", "<pad>", "<|endoftext|>", "<|im_start|>user\n", "[INST]", "<bos>", "</", "s>"]
# Few characters, one or two of each class: what the rules of a splitter turn on meets often.
ALPHABETS = ["aB1! \n's/\u0301", "aAǅʰ日\u03011! \t\n\u200b", "'sStTrReEvVlLmMdDſ ", " \t\n\r\v\u00a0\u3000a!",
             "aé 中あ1٣.,!\n", "abcAB ", "ÀàΣσжЖ'sS \u0345", "한글 \u1100\u1161\u11a8e\u0301", "<|>/s ▁",
             "01 23٣½²ⅧⅧ,. ", "ab▁ \n>/<", "=-_#*/\\\n\r "]
SIZES_OF_RUNS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 200, 256, 300]


def read_samples():
    """Texts by kind: prose, code, markup."""
    samples = {}
    text = None
    path = pathlib.Path(__file__).with_name("samples.txt")
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("= "):
            text = []
            samples.setdefault(line.split()[1], []).append(text)
        elif text is not None:
            text.append(line)
    return {kind: ["".join(text) for text in texts] for kind, texts in samples.items()}


SAMPLES = read_samples()
ALL_SAMPLES = [text for texts in SAMPLES.values() for text in texts]


def scalar(rng):
    """Any Unicode character, of every plane and of the crowded ones more often."""
    limit = rng.choice((0x80, 0x250, 0x3000, 0x10000, 0x10000, 0x20000, 0x110000))
    code = rng.randrange(limit)
    return chr(code) if not 0xD800 <= code < 0xE000 else "\ue123"


class Corpus:
    def __init__(self, seed, added_tokens=()):
        self.rng = random.Random(f"{seed}")
        self.added = list(added_tokens)
        self.makers = [
            (self.prose, 6), (self.stretch, 10), (self.perturbed, 6), (self.mixture, 6), (self.tokens, 8),
            (self.fragments, 6), (self.spaces, 5), (self.numbers, 3), (self.contracted, 3), (self.composed, 5),
            (self.odd, 5), (self.emoji, 3), (self.unicode, 4), (self.alphabet, 14), (self.runs, 4),
            (self.words, 6), (self.escaped, 2), (self.page, 2)]

    def documents(self, count):
        """At least `count`: those that must be there do not depend on it."""
        made = 0
        for text in itertools.chain(self.required(), self.random_ones()):
            yield text
            made += 1
            if made >= count and self.required_done:
                return

    def random_ones(self):
        makers = [maker for maker, weight in self.makers for _ in range(weight)]
        while True:
            yield self.rng.choice(makers)()

    # Documents of every run.

    def required(self):
        self.required_done = False
        yield ""
        yield from ALL_SAMPLES
        yield from self.every_added_token()
        yield from self.every_space()
        yield from self.every_contraction()
        for length in range(1, 41):
            yield "a" + "\n" * length + "b" + " " * length + "c" + "\t" * length + "\r\n" * length
        yield from ODD + DIGITS + COMPOSING + EMOJI + MARKS + NEARLY_SPACE
        yield from self.prefixes()
        self.required_done = True

    def every_added_token(self):
        """Each in four surroundings, sixteen of them to a document."""
        for start in range(0, len(self.added), 16):
            batch = self.added[start:start + 16]
            yield "".join(f"a {token} b" for token in batch)
            yield "".join(f"x{token}" for token in batch)
            yield " ".join(token + token for token in batch) + "\n"
            yield "".join(token[:-1] + " " + token[1:] for token in batch)

    def every_space(self):
        for space in WHITESPACE + NEARLY_SPACE:
            yield "|".join(left + space * length + right for length in range(1, 5)
                           for left in ("", "a", "!", "1", "\n") for right in ("", "a", "!", "1", " b", "\nc"))
            for length in range(1, 4):
                yield "a" + space * length
                yield space * length + "a"

    def every_contraction(self):
        for word in CONTRACTIONS:
            forms = {word, word.upper(), word.capitalize(), word.swapcase(), word.replace("s", "ſ"),
                     word[:2] + word[2:].upper()}
            for form in sorted(forms):
                yield "".join(before + form + after for before in ("", "it", "IT", "1", " ", "!", "日")
                              for after in ("", "x", "X", " ", "'s", "1", "\u0301", "\n"))

    def prefixes(self):
        """One text cut at every character: what the end of a text changes."""
        text = "It's 1234 caf\u0065\u0301 — 東京タワー!  \n\n  x\u1100\u1161\u11a8 <|im_end|>  "
        for end in range(len(text)):
            yield text[:end]
            yield text[end:]

    # Pieces that are long; asked for by size, since they take most of the time.

    def long_pieces(self, size):
        rng = self.rng
        noise = base64.b64encode(rng.randbytes(size)).decode()[:size]
        yield "one letter", "a" * size
        yield "one digit", "7" * size
        yield "spaces", "x" + " " * (size - 2) + "x"
        yield "base64", noise
        yield "random letters", "".join(rng.choices("abcdefghijklmnopqrstuvwxyzABCDEFGH", k=size))
        chinese = [c for text in SAMPLES["prose"] for c in text if "\u4e00" <= c < "\ua000"]
        yield "Chinese", "".join(rng.choices(chinese, k=size // 3))
        yield "marks", "e" + "\u0301\u0323" * (size // 4)
        yield "newlines", "\n" * size

    # Random ones.

    def sample(self):
        return self.rng.choice(ALL_SAMPLES)

    def prose(self):
        return "".join(self.rng.choice(SAMPLES["prose"]) for _ in range(self.rng.randint(1, 3)))

    def stretch(self):
        """Some characters of a sample, from anywhere to anywhere."""
        text = self.sample()
        start = self.rng.randrange(len(text))
        return text[start:start + self.rng.randint(1, 400)]

    def perturbed(self):
        """A sample in which some characters were lost, doubled, moved or replaced."""
        rng = self.rng
        text = list(self.stretch())
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(text))
            text[at:at + rng.randint(0, 2)] = rng.choice((
                [], text[at:at + 1] * 2, [scalar(rng)], [rng.choice(MARKS)], [rng.choice(WHITESPACE)],
                list(rng.choice(ODD)), list(rng.choice(DIGITS)), [rng.choice("'\"/.,-_=<>|")]))
            if not text:
                break
        return "".join(text)

    def mixture(self):
        """Bits of all samples beside each other."""
        parts = []
        for _ in range(self.rng.randint(2, 12)):
            text = self.sample()
            start = self.rng.randrange(len(text))
            parts.append(text[start:start + self.rng.randint(1, 30)])
        return "".join(parts)

    def tokens(self):
        """Added tokens in text, with and without space around them."""
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 10)):
            if self.added:
                parts.append(rng.choice(self.added) * rng.choice((1, 1, 1, 2, 3)))
            parts.append(rng.choice(("", "", " ", "  ", "\n", "\n\n", "\t", "\u3000", "a", "é", self.stretch())))
        return "".join(parts)

    def fragments(self):
        """Parts of added tokens, overlapping."""
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 12)):
            token = rng.choice(self.added or ODD)
            start = rng.randrange(len(token))
            parts.append(rng.choice((token[start:], token[:start], token, token + token[start:], token.upper(),
                                     rng.choice(ODD), "<", ">", "|", " ", "<|", "</")))
        return "".join(parts)

    def spaces(self):
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 20)):
            parts.append(rng.choice(WHITESPACE + NEARLY_SPACE + ["\n", " ", "\r\n"]) * rng.choice((1, 1, 2, 3, 9)))
            parts.append(rng.choice(("", "", "a", "Word", "1", "!", "日本", "'s", "/", "é")))
        return "".join(parts)

    def numbers(self):
        rng = self.rng
        return "".join(rng.choice(DIGITS + [str(rng.randrange(10**rng.randint(1, 12))), ",", ".", " ", "a", "%", "/"])
                       for _ in range(rng.randint(1, 24)))

    def contracted(self):
        rng = self.rng
        return "".join(rng.choice(("it", "WE", "I", "é", "1", " ", "\n", "!"))
                       + rng.choice(CONTRACTIONS + [word.upper() for word in CONTRACTIONS])
                       for _ in range(rng.randint(1, 10)))

    def composed(self):
        """Text that normalizing changes, with marks in any order."""
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 16)):
            parts.append(rng.choice((
                rng.choice(COMPOSING), unicodedata.normalize("NFD", rng.choice("éñüÅốḍ각힣กำ")),
                rng.choice("aeiou각한가अ") + "".join(rng.choices(MARKS, k=rng.randint(1, 5))),
                chr(rng.randrange(0x1100, 0x1200)), chr(rng.randrange(0xAC00, 0xD7A4)),
                chr(rng.randrange(0x300, 0x370)), " ", "x")))
        return "".join(parts)

    def odd(self):
        rng = self.rng
        return "".join(rng.choice((rng.choice(ODD), rng.choice(NEARLY_SPACE), self.stretch()[:9]))
                       for _ in range(rng.randint(1, 14)))

    def emoji(self):
        rng = self.rng
        return "".join(rng.choice((rng.choice(EMOJI), rng.choice(EMOJI), " ", "ok", "\n", "\u200d", "\ufe0f"))
                       for _ in range(rng.randint(1, 20)))

    def unicode(self):
        rng = self.rng
        return "".join(scalar(rng) for _ in range(rng.randint(1, 120)))

    def alphabet(self):
        rng = self.rng
        return "".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(1, 40)))

    def runs(self):
        """Runs of one character or two, of the lengths at which fast code changes its ways."""
        rng = self.rng
        parts = []
        for _ in range(rng.randint(1, 4)):
            unit = rng.choice(("a", "A", "é", "中", " ", "\n", "=", "-", "0", "ab", "Ab", "<", "▁", "ا", "e\u0301", "\U0001f600"))
            parts.append(unit * rng.choice(SIZES_OF_RUNS) + rng.choice(("", " ", "x", "\n")))
        return "".join(parts)

    def words(self):
        """Words of one sample, shuffled."""
        words = self.sample().split()
        return self.rng.choice((" ", " ", "\n", "  ", "_", "")).join(
            self.rng.choices(words, k=self.rng.randint(1, 60)))

    def page(self):
        """Some kilobytes of everything."""
        makers = [maker for maker, _ in self.makers if maker != self.page]
        return "".join(self.rng.choice(makers)() for _ in range(self.rng.randint(5, 40)))

    def escaped(self):
        """Text as JSON or a URL spells it."""
        text = self.stretch()
        return self.rng.choice((
            text.encode("unicode_escape").decode(), "".join(f"%{byte:02X}" for byte in text.encode()),
            base64.b64encode(text.encode()).decode(), repr(text)))
