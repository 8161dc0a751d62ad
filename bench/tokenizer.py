"""tokenizer -- speed of tokenizing, beside Hugging Face tokenizers and tiktoken:
docs/benchmarks.md.

bench_tokenizer measures ours, tokenizer_peers.py theirs; they take turns on one core, round by
round, on the same documents, and must produce the same ids.  Vocabularies come from packages
(tools/vocabularies.py), texts from Debian's (bench/texts.py).
"""
import json
import os
import pathlib
import statistics
import subprocess
import time

import texts
from proxy import machine, number
from report import CannotMeasure

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / "build/venv/bin/python"
VOCABULARIES = ROOT / "build/vocabularies"
# The named cases; others have their vocabulary in their name.
MAIN = "llama3_2"
TEXTS = ("english", "code", "chinese")
OTHERS = ("qwen2_5", "gpt_oss", "deepseek_v3", "gemma3")
OTHERS_QUICK = ()
# The vocabulary and template of chat16k.
CHAT = "qwen2_5"
ROUNDS = 5
NEEDED = {("english", "warm_ratio_hf"): 50, ("english", "cold_ratio_hf"): 25,
          ("code", "warm_ratio_hf"): 50, ("code", "cold_ratio_hf"): 25,
          ("chinese", "warm_ratio_hf"): 15, ("chinese", "cold_ratio_hf"): 15}
CHAT_NEEDED = {"cold_us": 200, "known_us": 40}


class Peer:
    """A process that encodes all documents when told to."""

    def __init__(self, core, kind, vocabulary, documents):
        command = ["taskset", "-c", str(core), str(PYTHON), str(ROOT / "bench/tokenizer_peers.py"), kind,
                   str(vocabulary), str(documents)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def round(self):
        """Speed, number of ids and their sum."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise CannotMeasure(f"{self.process.args[4]} ended")
        return json.loads(line)


def ours(build, core, vocabulary, documents, quick):
    command = ["taskset", "-c", str(core), str(build / "bench_tokenizer"), "--tokenizer", str(vocabulary),
               "--documents", str(documents), "--repetitions", "5", "--window-ms", "50" if quick else "200"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise CannotMeasure(why) from why
    return {words[0]: float(words[1]) for words in map(str.split, done.stdout.splitlines())}


def measure(build, core, family, documents, quick):
    """Rounds of each, by turns.  A peer is cold once in its life, so each round has a new one."""
    vocabulary = VOCABULARIES / family / "tokenizer.json"
    mine, colds, warms = [], [], []
    for _ in range(ROUNDS):
        mine.append(ours(build, core, vocabulary, documents, quick))
        with Peer(core, "tokenizers", vocabulary, documents) as peer:
            colds.append(peer.round())
            warms.append(peer.round())
        if any(mine[-1][name] != colds[-1][name] for name in ("tokens", "sum_of_ids")):
            raise CannotMeasure(f"{family}: ours are other ids than those of tokenizers")
    figures = {name: statistics.median(one[name] for one in mine) for name in mine[0]}
    return figures, speed(colds), speed(warms)


def speed(rounds):
    return statistics.median(one["mb_per_s"] for one in rounds)


def measure_tiktoken(core, documents):
    with Peer(core, "tiktoken", VOCABULARIES / "ranks/o200k_base.tiktoken", documents) as peer:
        return speed([peer.round() for _ in range(ROUNDS)])


def one_case(report, build, core, text, family, quick):
    documents = texts.documents(text, 1 << 19 if quick else 1 << 21)
    figures, hf_cold, hf_warm = measure(build, core, family, documents, quick)
    case = text if family == MAIN else f"{text}_{family}"
    report.figure(case, "bytes", documents.stat().st_size, "B")
    for name in ("warm_mb_per_s", "cold_mb_per_s"):
        report.figure(case, name, figures[name], "MB/s")
    report.figure(case, "hf_mb_per_s", hf_warm, "MB/s")
    report.figure(case, "hf_cold_mb_per_s", hf_cold, "MB/s")
    report.figure(case, "warm_ratio_hf", figures["warm_mb_per_s"] / hf_warm, "x")
    report.figure(case, "cold_ratio_hf", figures["cold_mb_per_s"] / hf_cold, "x")
    report.figure(case, "allocations", figures["allocations"], "1")
    report.say(f"{case}: warm {figures['warm_mb_per_s']:.4g} MB/s ({figures['warm_mb_per_s'] / hf_warm:.3g}x), "
               f"cold {figures['cold_mb_per_s']:.4g} ({figures['cold_mb_per_s'] / hf_cold:.3g}x)")
    if family == "gpt_oss":  # the vocabulary that tiktoken has too
        tiktoken = measure_tiktoken(core, documents)
        report.figure(case, "tiktoken_mb_per_s", tiktoken, "MB/s")
        report.figure(case, "warm_ratio_tiktoken", figures["warm_mb_per_s"] / tiktoken, "x")
        report.figure(case, "cold_ratio_tiktoken", figures["cold_mb_per_s"] / tiktoken, "x")
    if text == "english":
        for name, unit in (("load_ms", "ms"), ("memory_mb", "MB")):
            report.figure(family, name, figures[name], unit)


def chat_case(report, build, core, quick):
    """A chat of 16 KB from its body to the keys of its blocks."""
    command = ["taskset", "-c", str(core), str(build / "bench_prompt"), "--tokenizer", str(VOCABULARIES / CHAT),
               "--size", "16384", "--repetitions", "5" if quick else "15"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as why:
        raise CannotMeasure(why) from why
    for words in map(str.split, done.stdout.splitlines()):
        report.figure("chat16k", words[0], float(words[1]), {"us": "µs"}.get(words[2], words[2]))
    report.say("chat16k: " + ", ".join(done.stdout.splitlines()))


def run(report, build, quick):
    subprocess.run([str(PYTHON), str(ROOT / "tools/vocabularies.py")], check=False)
    needed = [MAIN, *(OTHERS_QUICK if quick else OTHERS)]
    missing = [family for family in {*needed, CHAT} if not (VOCABULARIES / family / "tokenizer.json").exists()]
    if missing:
        raise CannotMeasure(f"no vocabularies: {' '.join(missing)}")
    core = max(os.sched_getaffinity(0))
    report.figure("setup", "document_size", texts.DOCUMENT_SIZE, "B", quick=quick, date=time.strftime("%Y-%m-%d"),
                  machine=machine())
    chat_case(report, build, core, quick)
    for family in needed:
        for text in TEXTS if family == MAIN or not quick else ("english",):
            one_case(report, build, core, text, family, quick)


def markdown(figures):
    """The tables of docs/benchmarks.md."""
    found = {}
    for figure in figures:
        found.setdefault(figure["case"], {})[figure["metric"]] = figure["value"]
    setup = next(figure for figure in figures if figure["case"] == "setup")
    lines = [f"{setup['date']}, {setup['machine']}; medians of 5 rounds"
             f"{' (quick run)' if setup['quick'] else ''}.", "",
             "| case | warm, MB/s | cold, MB/s | tokenizers warm, cold, MB/s | warm_ratio_hf | cold_ratio_hf | needed |",
             "|---|---:|---:|---:|---:|---:|---|"]
    for case, values in found.items():
        if "warm_ratio_hf" in values:
            wanted = {name: NEEDED[case, name] for name in ("warm_ratio_hf", "cold_ratio_hf") if (case, name) in NEEDED}
            met = all(values[name] >= bound for name, bound in wanted.items())
            verdict = f"≥ {', '.join(map(str, wanted.values()))}: {'met' if met else '**missed**'}" if wanted else ""
            lines.append(f"| {case} | {number(values['warm_mb_per_s'])} | {number(values['cold_mb_per_s'])} "
                         f"| {number(values['hf_mb_per_s'])}, {number(values['hf_cold_mb_per_s'])} "
                         f"| {number(values['warm_ratio_hf'])} | {number(values['cold_ratio_hf'])} | {verdict} |")
    chat = found["chat16k"]
    lines += ["", "| chat of 16 KB, from body to block keys | µs | needed |", "|---|---:|---|"]
    for name, what in (("cold_us", "cold: fresh scratch, nothing seen before"),
                       ("unseen_us", "unseen: words known, text not"),
                       ("known_us", f"known: {chat['known_share']:.0%} of its bytes were seen before")):
        bound = CHAT_NEEDED.get(name)
        verdict = f"≤ {bound}: {'met' if chat[name] <= bound else '**missed**'}" if bound else ""
        lines.append(f"| {what} | {number(chat[name])} | {verdict} |")
    lines += ["", "| case | tiktoken, MB/s | warm_ratio_tiktoken | cold_ratio_tiktoken |", "|---|---:|---:|---:|"]
    lines += [f"| {case} | {number(values['tiktoken_mb_per_s'])} | {number(values['warm_ratio_tiktoken'])} "
              f"| {number(values['cold_ratio_tiktoken'])} |"
              for case, values in found.items() if "tiktoken_mb_per_s" in values]
    lines += ["", "| vocabulary | load, ms | memory, MB |", "|---|---:|---:|"]
    lines += [f"| {case} | {number(values['load_ms'])} | {number(values['memory_mb'])} |"
              for case, values in found.items() if "load_ms" in values]
    return "\n".join(lines) + "\n"
