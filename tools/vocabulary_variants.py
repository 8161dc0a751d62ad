"""tokenizer.json files that no package has, made from those that packages have.

gpt_oss, gpt2_ranks, phi4
           built from rank files, as transformers builds them
smollm, qwen35, mistral_v3, phi3, ...
           the pipeline of one family over the vocabulary of another: what differs between families
           is the pipeline, so each is tested even where no package carries its own file

A variant is made again when this file is newer than it.
"""
import base64
import json
import pathlib

BYTES_AS_THEMSELVES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]

CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen35": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama3": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
              r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
              r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTION}?"
             rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTION}?"
             r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "kimi": r"[\p{Han}]+"
            rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]*[{LOWER}&&[^\p{{Han}}]]+{CONTRACTION}?"
            rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]+[{LOWER}&&[^\p{{Han}}]]*{CONTRACTION}?"
            r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def byte_alphabet():
    """The character that stands for each byte in a byte-level vocabulary."""
    others = (byte for byte in range(256) if byte not in BYTES_AS_THEMSELVES)
    moved = {byte: chr(0x100 + order) for order, byte in enumerate(others)}
    return [moved.get(byte, chr(byte)) for byte in range(256)]


ALPHABET = byte_alphabet()


def spell(token):
    return "".join(ALPHABET[byte] for byte in token)


def read_ranks(path):
    ranks = {}
    for line in path.read_bytes().splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    return ranks


def merges_of_every_split(ranks):
    """All splits of a token into two tokens are merges: the lists of Llama 3 and gpt-oss."""
    merges = []
    for token in sorted(ranks, key=ranks.get):
        splits = ((token[:cut], token[cut:]) for cut in range(1, len(token)))
        pairs = [pair for pair in splits if pair[0] in ranks and pair[1] in ranks]
        merges += sorted(pairs, key=lambda pair: (ranks[pair[0]], ranks[pair[1]]))
    return merges


def merge_of_lower_ranks(token, ranks):
    """The two symbols that are left when a token's bytes are merged by what ranks below it."""
    parts = [token[at:at + 1] for at in range(len(token))]
    while len(parts) > 2:
        best = min(range(len(parts) - 1),
                   key=lambda at: ranks.get(parts[at] + parts[at + 1], len(ranks)))
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    return tuple(parts)


def merges_of_one_split(ranks):
    """One merge for each token: the list of GPT-2."""
    return [merge_of_lower_ranks(token, ranks)
            for token in sorted(ranks, key=ranks.get) if len(token) > 1]


def added(content, number, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": False, "special": True, **flags}


def split_by(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": PATTERNS[pattern]}, "behavior": "Isolated",
         "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": True, **options}


def from_ranks(ranks, merges, pre_tokenizer, specials, ignore_merges):
    first = len(ranks)
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [added(text, first + order) for order, text in enumerate(specials)],
        "normalizer": None, "pre_tokenizer": pre_tokenizer,
        "post_processor": byte_level(trim_offsets=False), "decoder": byte_level(),
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": ignore_merges,
                  "vocab": {spell(token): rank
                            for token, rank in sorted(ranks.items(), key=lambda item: item[1])},
                  "merges": [[spell(left), spell(right)] for left, right in merges]}}


def gpt_oss(place):
    ranks = read_ranks(place / "ranks/o200k_base.tiktoken")
    names = {199998: "startoftext", 199999: "endoftext", 200002: "return", 200003: "constrain",
             200005: "channel", 200006: "start", 200007: "end", 200008: "message",
             200012: "call", 200018: "endofprompt"}
    specials = [f"<|{names.get(number, f'reserved_{number}')}|>"
                for number in range(199998, 200019)]
    return from_ranks(ranks, merges_of_every_split(ranks), split_by("o200k"), specials, True)


def gpt2_ranks(place):
    ranks = read_ranks(place / "ranks/r50k_base.tiktoken")
    file = from_ranks(ranks, merges_of_one_split(ranks), byte_level(), [], False)
    # In the vocabulary too; of the published copies, the one that is matched after normalizing.
    file["model"]["vocab"]["<|endoftext|>"] = 50256
    file["added_tokens"] = [added("<|endoftext|>", 50256, normalized=True)]
    return file


def phi4(place):
    """The pattern as cl100k itself spells it, and every split a merge."""
    ranks = read_ranks(place / "ranks/cl100k_base.tiktoken")
    specials = ["<|dummy_0|>", "<|endoftext|>", "<|fim_prefix|>", "<|im_start|>", "<|im_end|>"]
    file = from_ranks(ranks, merges_of_every_split(ranks), split_by("cl100k"), specials, True)
    for token in file["added_tokens"][3:]:
        token.update(lstrip=True, rstrip=True)
    return file


def smollm(place):
    file = gpt2_ranks(place)
    file["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True}, byte_level()]}
    return file


def prefix_space(place):
    """A space before every gap, and runs of spaces that are matched in normalized text."""
    file = gpt2_ranks(place)
    file["normalizer"] = {"type": "NFC"}
    file["pre_tokenizer"] = byte_level(add_prefix_space=True)
    file["added_tokens"] += [added(" " * length, 50257 + order, normalized=True, special=False)
                             for order, length in enumerate(range(24, 1, -1))]
    return file


def flags(place):
    """Added tokens with every combination of flags, some of which begin alike."""
    file = gpt2_ranks(place)
    number = 50257
    for bits in range(16):
        names = [name for order, name in enumerate(("lstrip", "rstrip", "single_word", "normalized"))
                 if bits >> order & 1]
        for form in ("<t{}>", "w{}w"):
            file["added_tokens"].append(
                added(form.format(bits), number, **dict.fromkeys(names, True)))
            number += 1
    for text in ("<t", "<t1><t", "   ", "\n\n", "éé", "<mask>"):
        file["added_tokens"].append(added(text, number, special=False, lstrip=text == "<mask>"))
        number += 1
    return file


def load(place, name):
    return json.loads((place / name / "tokenizer.json").read_text())


def qwen35(place):
    file = load(place, "qwen2_5")
    file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = PATTERNS["qwen35"]
    return file


def add_specials(file, contents, **options):
    first = len(file["model"]["vocab"])
    file["added_tokens"] += [added(text, first + order, **options)
                             for order, text in enumerate(contents)]
    return file


def mistral_v3(place):
    file = load(place, "llama2")
    file["normalizer"] = None
    file["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first",
                             "split": False}
    return add_specials(file, ["[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
                               "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"])


def metaspace(place):
    file = load(place, "llama2")
    file["normalizer"] = None
    file["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                             "split": True}
    return file


def phi3(place):
    file = add_specials(load(place, "llama2"), [
        "<|endoftext|>", "<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>"],
        rstrip=True)
    file["added_tokens"][2]["rstrip"] = True
    return file


def llama2_normalized(place):
    """The copies of Llama 2 whose special tokens are looked for in normalized text."""
    file = load(place, "llama2")
    for token in file["added_tokens"]:
        token["normalized"] = True
    return file


VARIANTS = {make.__name__: make for make in (
    gpt_oss, gpt2_ranks, phi4, smollm, prefix_space, flags, qwen35, mistral_v3, metaspace, phi3,
    llama2_normalized)}


def make_all(place):
    """Returns what went wrong, for each variant that could not be made."""
    failures = []
    stamp = pathlib.Path(__file__).stat().st_mtime
    for name, make in VARIANTS.items():
        target = place / name / "tokenizer.json"
        if target.exists() and target.stat().st_mtime >= stamp:
            continue
        try:
            content = json.dumps(make(place), ensure_ascii=False)
        except FileNotFoundError as why:
            failures.append(f"variant {name}: {why}")
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name("tokenizer.json.part")
        part.write_text(content)
        part.rename(target)
    return failures
