"""Token ids equal those of Hugging Face tokenizers: documents of every kind, family by family.

The documents come from test/oracle/corpus.py; --documents is their number for each family.
tools/vocabularies.py fetches the vocabularies; a family without its file is skipped with a message.
"""
import pathlib
import sys

import harness
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import corpus  # noqa: E402
import encode  # noqa: E402

# The folder of each family's file, and what it stands for.
FAMILIES = {
    "llama3_2": "Llama 3.x", "qwen2_5": "Qwen 2 and 2.5", "qwen35": "Qwen 3.5 and later",
    "deepseek_v3": "DeepSeek V3 and R1", "gpt_oss": "gpt-oss, Llama 4", "mistral_nemo": "tekken",
    "phi4": "GLM, Phi-4", "gpt2_ranks": "GPT-2", "smollm": "SmolLM, StarCoder",
    "prefix_space": "NFC, a space in front", "flags": "added tokens with every flag",
    "gemma3": "Gemma 3", "llama2": "Llama 2, CodeLlama", "llama2_normalized": "Llama 2 with normalized tokens",
    "mistral_v3": "Mistral v0.1 to v0.3", "metaspace": "words of SentencePiece", "phi3": "Phi-3",
}
FULL_ONLY = {"qwen3": "Qwen 3", "gemma2": "Gemma 2"}
# Ranks, and the patterns that tiktoken splits with before them.
RANKS = {"gpt2": "r50k_base", "cl100k": "cl100k_base", "llama3": "cl100k_base",
         "o200k": "o200k_base", "kimi": "o200k_base"}
# The longest pieces take the oracle most of a second each: always for one family of each kind.
LONG_PIECE = 1_000_000
LONG_ALWAYS = ("llama3_2", "deepseek_v3", "gemma3")
# In normalized text a space counts as the three bytes that it becomes, so the bound on pieces
# (tokenizer_piece_max) is reached earlier.
LONG_OTHERWISE = {"llama2_normalized": LONG_PIECE // 3}
FULL_COUNT = 50_000
SEED = 5


@pytest.fixture
def count(request):
    return request.config.getoption("--documents")


def pytest_generate_tests(metafunc):
    if "family" in metafunc.fixturenames:
        full = metafunc.config.getoption("--documents") >= FULL_COUNT
        metafunc.parametrize("family", [*FAMILIES, *(FULL_ONLY if full else ())])


@pytest.fixture
def stream(binary):
    """The program that encodes texts with the router's tokenizer."""
    return binary.with_name("tokenizer_encode_stream")


def file_of(family):
    path = encode.VOCABULARIES / family / "tokenizer.json"
    if not path.exists():
        wanted = "--full " if family in FULL_ONLY else ""
        pytest.skip(f"no {path.parent.name}: run tools/vocabularies.py {wanted}where npm reaches its registry")
    return path


def patient(test):
    """The oracle takes most of the time, and all of it grows with --documents."""
    return pytest.mark.timeout(1200)(test)


@patient
def test_ids_of_documents_agree_whole_and_in_parts(stream, count, family):
    path = file_of(family)
    oracle = encode.HuggingFace(path)
    texts = list(corpus.Corpus(f"{family} {SEED}", oracle.added).documents(count))
    assert len(texts) >= count
    encode.compare(encode.Program(stream, path, "--parts"), oracle, texts)


@patient
def test_ids_that_the_post_processor_adds_agree(stream, count, family):
    path = file_of(family)
    oracle = encode.HuggingFace(path)
    texts = list(corpus.Corpus(f"{family} special", oracle.added).documents(count // 10))
    encode.compare(encode.Program(stream, path, "--special", "--parts"), oracle, texts, special=True)


@patient
def test_ids_of_long_pieces_agree(stream, count, family):
    path = file_of(family)
    longest = LONG_OTHERWISE.get(family, LONG_PIECE)
    sizes = [40_000, longest] if family in LONG_ALWAYS or count >= FULL_COUNT else [40_000]
    texts = [text for size in sizes for _, text in corpus.Corpus(SEED).long_pieces(size)]
    encode.compare(encode.Program(stream, path), encode.HuggingFace(path), texts)


@patient
@pytest.mark.parametrize("pattern", RANKS)
def test_ids_of_rank_files_are_those_of_tiktoken(stream, count, pattern):
    path = encode.VOCABULARIES / "ranks" / f"{RANKS[pattern]}.tiktoken"
    if not path.exists():
        pytest.skip(f"no {path.name}: run tools/vocabularies.py where npm reaches its registry")
    texts = list(corpus.Corpus(f"{pattern} {SEED}").documents(count))
    encode.compare(encode.Program(stream, "--ranks", path, "--pattern", pattern),
                   encode.Tiktoken(path, pattern), texts)


def pairs(file):
    """Merges in either spelling: "a b" or ["a", "b"]."""
    return [tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in file["model"]["merges"]]


def test_generated_files_equal_those_of_packages():
    made, packaged = (encode.vocabulary_variants.load(encode.VOCABULARIES, family)
                      for family in ("gpt2_ranks", "gpt2") if file_of(family))
    assert made["model"]["vocab"] == packaged["model"]["vocab"]
    assert pairs(made) == pairs(packaged)


def test_the_merges_of_llama_3_follow_from_its_ranks():
    file = encode.vocabulary_variants.load(file_of("llama3_2").parents[1], "llama3_2")
    byte_of = {character: byte for byte, character in enumerate(encode.vocabulary_variants.ALPHABET)}
    ranks = {bytes(byte_of[character] for character in token): rank
             for token, rank in file["model"]["vocab"].items()}
    merges = encode.vocabulary_variants.merges_of_every_split(ranks)
    spell = encode.vocabulary_variants.spell
    assert [(spell(left), spell(right)) for left, right in merges] == pairs(file)
