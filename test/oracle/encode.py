"""Our ids beside those of Hugging Face tokenizers, and of tiktoken for rank files.

A difference is cut down to a short document and told with the stage at which the two part.
"""
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import tiktoken
import tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCABULARIES = ROOT / "build/vocabularies"
sys.path.insert(0, str(ROOT / "tools"))
import vocabulary_variants  # noqa: E402

REFUSED = 0xFFFFFFFF
BATCH = 500
SHRINK_SECONDS = 60


class HuggingFace:
    def __init__(self, path):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        self.tokenizer.no_truncation()  # transformers resets both on every call
        self.tokenizer.no_padding()
        self.added = [token.content for token in self.tokenizer.get_added_tokens_decoder().values()]

    def encode(self, texts, special=False):
        """The ids of each text, as packed 32-bit integers."""
        ids = []
        for start in range(0, len(texts), BATCH):
            found = self.tokenizer.encode_batch_fast(texts[start:start + BATCH],
                                                     add_special_tokens=special)
            ids += [pack(one.ids) for one in found]
        return ids

    def explain(self, text, ours, theirs):
        """Which stage went wrong, and what this one made of the text at each."""
        normalizer, splitter = self.tokenizer.normalizer, self.tokenizer.pre_tokenizer
        normal = normalizer.normalize_str(text) if normalizer else text
        pieces = [piece for piece, _ in splitter.pre_tokenize_str(normal)] if splitter else [normal]
        spelled = [[self.tokenizer.id_to_token(number) or f"?{number}" for number in ids]
                   for ids in (ours, theirs)]
        if "".join(spelled[0]) != "".join(spelled[1]):
            stage = "added tokens or normalization"
        elif crosses(spelled[0], pieces):
            stage = "pieces"
        else:
            stage = "merges"
        return (f"stage: {stage}\n  normalized {normal!r}\n  pieces     {pieces!r}\n"
                f"  ours       {ours} {spelled[0]!r}\n  theirs     {theirs} {spelled[1]!r}")


class Tiktoken:
    """Ranks and a pattern; what it finds wrong with ours has no stages."""

    added = ()

    def __init__(self, path, pattern):
        self.encoding = tiktoken.Encoding(
            pattern, pat_str=vocabulary_variants.PATTERNS[pattern],
            mergeable_ranks=vocabulary_variants.read_ranks(path), special_tokens={})

    def encode(self, texts, special=False):
        return [pack(self.encoding.encode_ordinary(text)) for text in texts]

    def explain(self, text, ours, theirs):
        return f"stage: any\n  ours   {ours}\n  theirs {theirs}"


def pack(ids):
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack(packed):
    return list(struct.unpack(f"<{len(packed) // 4}I", packed))


def crosses(tokens, pieces):
    """Whether a token lies in two pieces."""
    ends, at = set(), 0
    for piece in pieces:
        at += len(piece)
        ends.add(at)
    start = 0
    for token in tokens:
        if any(start < end < start + len(token) for end in ends):
            return True
        start += len(token)
    return False


class Program:
    """tokenizer_encode_stream: documents in, ids out, each after its size."""

    def __init__(self, path, *arguments):
        self.command = [str(path), *map(str, arguments)]

    def start(self, texts):
        self.expected = len(texts)
        self.answers = tempfile.TemporaryFile()
        with tempfile.TemporaryFile() as source:
            for text in texts:
                content = text.encode()
                source.write(struct.pack("<I", len(content)) + content)
            source.seek(0)
            self.process = subprocess.Popen(self.command, stdin=source, stdout=self.answers,
                                            stderr=subprocess.PIPE)

    def finish(self):
        """The ids of each text as the oracle packs them; None for one that was refused.

        With --parts the program ends after the first document whose parts give other ids than the
        whole.  That document and all later ones then have the program's message instead of ids.
        """
        complaint = self.process.communicate()[1].decode(errors="replace")
        self.answers.seek(0)
        found = []
        while head := self.answers.read(4):
            count = struct.unpack("<I", head)[0]
            found.append(None if count == REFUSED else self.answers.read(4 * count))
        self.answers.close()
        if self.process.returncode != 0:
            assert found and "--parts" in self.command, f"{' '.join(self.command)}: {complaint}"
            found[-1:] = [complaint] * (self.expected - len(found) + 1)
        assert len(found) == self.expected, f"{self.expected} documents in, {len(found)} answers"
        return found

    def encode(self, texts):
        self.start(texts)
        return self.finish()


def shorter(text):
    """Ways to leave something out, the most first; few of them while the text is long."""
    size = len(text) // 2
    size_min = max(1, len(text) // 64) if len(text) <= 10_000 else len(text) // 4
    while size >= size_min:
        for start in range(0, len(text), size):
            yield text[:start] + text[start + size:]
        size //= 2


def first_wrong(ours, theirs, texts):
    """The shortest text whose ids differ, or the first of those for which the program ended."""
    wrong = [number for number, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    ended = [number for number in wrong if isinstance(ours[number], str)]
    return texts[ended[0] if ended else min(wrong, key=lambda number: len(texts[number]))] if wrong else None


def shrink(program, oracle, special, text):
    """A text, hopefully short, on which they still differ."""
    begin = time.monotonic()
    while time.monotonic() - begin < SHRINK_SECONDS:
        candidates = sorted(shorter(text), key=len)
        found = first_wrong(program.encode(candidates), oracle.encode(candidates, special), candidates)
        if found is None:
            break
        text = found
    return text


def compare(program, oracle, texts, special=False):
    """Asserts that all ids are equal."""
    program.start(texts)
    theirs = oracle.encode(texts, special)
    ours = program.finish()
    text = first_wrong(ours, theirs, texts)
    if text is None:
        return
    count = sum(a != b for a, b in zip(ours, theirs))
    text = shrink(program, oracle, special, text)
    mine, right = program.encode([text])[0], unpack(oracle.encode([text], special)[0])
    if mine is None:
        told = "refused"
    else:
        told = mine if isinstance(mine, str) else oracle.explain(text, unpack(mine), right)
    raise AssertionError(f"{count} of {len(texts)} documents differ; a short one: {text[:400]!r}\n{told}\n"
                         f"  {' '.join(program.command)}")
