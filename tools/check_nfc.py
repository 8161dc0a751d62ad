#!/usr/bin/env python3
"""Compares src/tokenizer/nfc/nfc.c with `tokenizers`, which must be installed; a difference is a
bug.

    tools/check_nfc.py [--random 300000] [--seed 1]

Inputs: every character alone and with marks around it, pairs that may compose, and random texts of
characters that normalization changes.
"""

import argparse
import ctypes
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Marks of several classes, a class twice, jamo, a second that is a starter, a young mark.
AROUND = ["\u0301", "\u0323", "\u0327\u0301", "\u0315\u0300\u05ae", "\u0334\u0338", "\u1161", "\u11a8", "\u09be",
          "\u3099", "\U00011f41"]


def build(folder):
    ours = folder / "nfc.so"
    sources = [ROOT / "src" / name for name in ("tokenizer/nfc/nfc.c", "tokenizer/nfc/nfc_tables.c", "base/base.c")]
    subprocess.run([ROOT / "tools/nfc_tables.py", folder / "nfc_data.inc"], check=True)
    subprocess.run(["cc", "-std=gnu2x", "-O2", "-shared", "-fPIC", "-I", ROOT / "src", "-I", folder, "-o", ours,
                    *sources], check=True)
    return ctypes.CDLL(str(ours))


class Slice(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class Normalizer:
    def __init__(self, ours):
        self.ours = ours
        ours.nfc_clean_prefix.restype = ours.nfc_bound.restype = ctypes.c_size_t
        ours.nfc_clean_prefix.argtypes = [Slice]
        ours.nfc_bound.argtypes = [ctypes.c_size_t]
        ours.nfc_normalize.argtypes = [Slice, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

    def __call__(self, text):
        """The normal form, and the length of its clean prefix."""
        source = ctypes.create_string_buffer(text, len(text) + 1)
        view = Slice(ctypes.addressof(source), len(text))
        capacity = self.ours.nfc_bound(len(text))
        target = ctypes.create_string_buffer(capacity + 1)
        out = Slice()
        status = self.ours.nfc_normalize(view, target, capacity, ctypes.byref(out))
        assert status == 0, status
        return ctypes.string_at(out.bytes, out.size), self.ours.nfc_clean_prefix(view)


def every_character():
    for point in range(0x110000):
        if 0xD800 <= point < 0xE000:
            continue
        yield chr(point)
        # Most of the planes is not assigned: a sample of them.
        if point < 0x30000 or point % 64 == 0:
            for mark in AROUND:
                yield f"a{chr(point)}{mark}"
            yield f"a\u0301{chr(point)}"
            yield f"o\u0315{chr(point)}\u0323b"


def random_texts(count, seed):
    rng = random.Random(seed)
    changed = [chr(point) for point in range(0x30000) if not 0xD800 <= point < 0xE000
               and (unicodedata.combining(chr(point)) or unicodedata.decomposition(chr(point))[:1] not in ("", "<"))]
    plain = list("aoeAO <=ABs\u00e9\u00c5\u4e2d\uac00\uac01\u1100\u1161\u11a8\u1112\u1175\u11c2\u09c7\u09be\u0b92\u0bd7")
    everything = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    for _ in range(count):
        text = ""
        for _ in range(rng.randrange(1, 14)):
            kind = rng.random()
            if kind < 0.45:
                text += rng.choice(changed)
            elif kind < 0.9:
                text += rng.choice(plain)
            else:
                text += chr(rng.choice(everything))
        yield text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=300000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    oracle = tokenizers.normalizers.NFC()
    compared = differences = 0
    with tempfile.TemporaryDirectory() as folder:
        normalize = Normalizer(build(pathlib.Path(folder)))
        for texts in (every_character(), random_texts(options.random, options.seed)):
            for text in texts:
                expected = oracle.normalize_str(text).encode()
                found, clean = normalize(text.encode())
                compared += 1
                if found != expected or found[:clean] != text.encode()[:clean]:
                    differences += 1
                    if differences < 10:
                        print(ascii(text), ascii(expected.decode()), ascii(found.decode(errors="replace")), clean)
    print(f"{compared} texts, {differences} differences, tokenizers {tokenizers.__version__}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
