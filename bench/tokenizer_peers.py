"""Hugging Face tokenizers or tiktoken on one core, for bench/tokenizer.py; run by the Python of
tests.

    tokenizer_peers.py tokenizers tokenizer.json DOCUMENTS
    tokenizer_peers.py tiktoken ranks.tiktoken DOCUMENTS

For each line on standard input it encodes all documents once more and prints the time as a line of
JSON.  The first round of a process is cold: both have caches of their own.
"""
import json
import os
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def read_documents(path):
    content, at, found = pathlib.Path(path).read_bytes(), 0, []
    while at < len(content):
        size = struct.unpack_from("<I", content, at)[0]
        found.append(content[at + 4:at + 4 + size].decode())
        at += 4 + size
    return found


def of_tokenizers(path):
    import tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(path)
    # The quickest call there is: without offsets.
    return lambda text: tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids


def of_tiktoken(path):
    import tiktoken
    import vocabulary_variants
    encoding = tiktoken.Encoding("o200k", pat_str=vocabulary_variants.PATTERNS["o200k"],
                                 mergeable_ranks=vocabulary_variants.read_ranks(pathlib.Path(path)),
                                 special_tokens={})
    return encoding.encode_ordinary


def main():
    kind, path, texts = sys.argv[1:]
    encode = {"tokenizers": of_tokenizers, "tiktoken": of_tiktoken}[kind](path)
    documents = read_documents(texts)
    size = sum(len(text.encode()) for text in documents)
    for _ in sys.stdin:
        begin = time.process_time()
        ids = [encode(text) for text in documents]
        seconds = time.process_time() - begin
        print(json.dumps({"mb_per_s": size / seconds / 1e6, "tokens": sum(map(len, ids)),
                          "sum_of_ids": sum(map(sum, ids))}), flush=True)


if __name__ == "__main__":
    main()
