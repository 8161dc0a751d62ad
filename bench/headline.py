#!/usr/bin/env python3
"""A published experiment with a prefix-aware router, in simulation: prints the tables of
docs/headline.md.

    bench/headline.py --build build/release

Each table is one `warmpath sim` whose command line goes to standard error.  Two of them need a
file, which is made here: slower and smaller engines, and the stress mix on more prompts than a
cache holds.
"""
import argparse
import json
import pathlib
import random
import shlex
import subprocess
import sys
import tempfile

MODEL = "codellama-13b"
POLICIES = ("random", "round_robin", "ranvier_median", "warm")
BASE = "round_robin"
SEEDS = 9
# Requests of 30 minutes, at 13 and at 6 a second.
REQUESTS, REQUESTS_A100, REQUESTS_90_USERS = 24000, 11000, 60000

# The constants of the shipped model (src/sim/engine/profiles.def, one H200), by what limits them.
COMPUTE = {"token_ms": 0.04386, "cross_ms": 2.38e-06, "square_ms": 6.314e-07, "square_behind_ms": 1.076e-06}
BANDWIDTH = {"floor_ms": 8.345, "cached_ms": 0.0002, "context_ms": 0.0001799}
OTHER = {"sharpness": 2.35, "sequence_ms": 0}
WEIGHT_BYTES, KV_BYTES = 26.03e9, 819200
# Data sheets: dense bf16 operations and bytes a second.  H200: 989 T, 4.8 T.
A100_40 = {"memory": 40e9, "compute": 989 / 312, "bandwidth": 4.8 / 1.555}
A100_80 = {"memory": 80e9, "compute": 989 / 312, "bandwidth": 4.8 / 2.039}

# The mix: percent of the requests, tokens that they share, tokens of their own; as `stress` has it.
MIX = ((10, (100, 400), (20, 60)), (20, (500, 1700), (50, 200)), (30, (1900, 3500), (150, 450)),
       (40, (3700, 7300), (300, 700)))


def write_engine(path, gpu):
    """A calibration file for another GPU: every constant in proportion to what limits it."""
    step = {**{name: value * gpu["compute"] for name, value in COMPUTE.items()},
            **{name: value * gpu["bandwidth"] for name, value in BANDWIDTH.items()}, **OTHER}
    model = {"step": step, "weight_bytes": WEIGHT_BYTES, "kv_bytes_per_token": KV_BYTES}
    path.write_text(json.dumps({"gpu_memory_bytes": gpu["memory"], "models": {MODEL: model}}))


def write_request(file, number, name, shared, own):
    """One id stands for the whole shared prompt, the other for the request's own text."""
    file.write(json.dumps({"timestamp": number, "input_length": shared + own, "output_length": 100,
                           "hash_ids": [name, 1000000 + number], "block_size": shared}) + "\n")


def write_mix_trace(path, prompt_count, request_count):
    """The mix on so many shared prompts; returns the tokens of all of them."""
    chance = random.Random(1)
    prompts = [[(1000 * kind + number, chance.randint(*shared)) for number in range(prompt_count * percent // 100)]
               for kind, (percent, shared, _) in enumerate(MIX)]
    with open(path, "w") as file:
        for number in range(request_count):
            kind = chance.choices(range(len(MIX)), [percent for percent, _, _ in MIX])[0]
            name, shared = chance.choice(prompts[kind])
            write_request(file, number, name, shared, chance.randint(*MIX[kind][2]))
    return sum(tokens for kind in prompts for _, tokens in kind)


def write_sharing_trace(path, prompt_count, request_count, share):
    """As the workload `sharing`, on more prompts."""
    chance = random.Random(1)
    totals = [chance.uniform(2900, 7100) for _ in range(prompt_count)]
    with open(path, "w") as file:
        for number in range(request_count):
            name = chance.randrange(prompt_count)
            own = (1 - share) * totals[name] * chance.uniform(0.6, 1.4)
            write_request(file, number, name, round(share * totals[name]), round(own))


class Lab:
    def __init__(self, binary, directory, threads):
        self.binary, self.directory, self.threads = binary, directory, threads

    def run(self, *words):
        """{policy: figures}, medians over the seeds; `p99_range` is what the seeds lie between."""
        path = self.directory / "figures.json"
        words = ["sim", *map(str, words), "--policy", ",".join(POLICIES), "--backends", "8", "--model", MODEL,
                 "--seeds", str(SEEDS)]
        print("warmpath", shlex.join(words).replace(f"{self.directory}/", ""), file=sys.stderr, flush=True)
        subprocess.run([self.binary, *words, "--threads", str(self.threads), "--json", path], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        policies = json.loads(path.read_text())["points"][0]["policies"]
        return {policy["policy"]: {**policy["figures"], "p99_range": p99_range(policy["runs"])} for policy in policies}


def p99_range(runs):
    values = [run["figures"]["ttft_ms"]["p99"] for run in runs]
    return min(values), max(values)


def seconds(ms):
    return f"{ms:.0f} ms" if ms < 1000 else f"{ms / 1000:.1f} s"


def print_table(title, found):
    bound = 100 * found[BASE]["bound_rate"]
    print(f"**{title}.** An infinite cache hits {bound:.1f}%.\n")
    print("| policy | hits | same backend | TTFT mean | TTFT P99 | by seed | requests/s | over round robin |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for policy in POLICIES:
        figures = found[policy]
        gain = 100 * (figures["requests_per_s"] / found[BASE]["requests_per_s"] - 1)
        failed = f", {figures['failed']} failed" if figures["failed"] else ""
        print(f"| {policy} | {100 * figures['hit_rate']:.1f}% | {100 * figures['affinity']:.1f}% "
              f"| {seconds(figures['ttft_ms']['mean'])} | {seconds(figures['ttft_ms']['p99'])} "
              f"| {' to '.join(map(seconds, figures['p99_range']))} | {figures['requests_per_s']:.1f} | {gain:+.0f}%{failed} |")
    print(flush=True)


def headline(lab):
    stress = ("--workload", "stress", "--users", 30, "--requests")
    print_table("H200, 11 prompts, 30 users", lab.run(*stress, REQUESTS))
    for name, gpu in (("A100 of 80 GB", A100_80), ("A100 of 40 GB", A100_40)):
        path = lab.directory / f"a100-{gpu['memory'] / 1e9:.0f}.json"
        write_engine(path, gpu)
        print_table(f"{name}, estimated, 11 prompts, 30 users",
                    lab.run(*stress, REQUESTS_A100, "--calibration", path))
    for prompts, users, requests in ((120, 30, REQUESTS), (120, 90, REQUESTS_90_USERS), (240, 30, REQUESTS)):
        path = lab.directory / f"stress-{prompts}.jsonl"
        tokens = write_mix_trace(path, prompts, requests)
        print_table(f"H200, {prompts} prompts with {tokens:,} tokens, {users} users",
                    lab.run("--trace", path, "--users", users, "--requests", requests))


def sharing(lab):
    """Each cell has cache hits and, in brackets, the share of requests to the same backend."""
    print("| engines | share | published | " + " | ".join(POLICIES) + " |")
    print("|---|---:|---:|" + "---:|" * len(POLICIES))
    small = ("--calibration", lab.directory / "a100-40.json")
    for share, published in ((0.5, "11 → 91%"), (0.7, "13 → 90%"), (0.9, "12 → 97-98%")):
        path = lab.directory / f"sharing-120-{100 * share:.0f}.jsonl"
        write_sharing_trace(path, 120, REQUESTS_A100, share)
        ten = ("--workload", "sharing", "--share", share)
        for name, words in (("H200, 10 prompts", ten), ("A100 of 40 GB, 10 prompts", (*ten, *small)),
                            ("H200, 120 prompts", ("--trace", path))):
            found = lab.run(*words, "--users", 30, "--requests", REQUESTS_A100)
            cells = [f"{100 * figures['hit_rate']:.1f}% ({100 * figures['affinity']:.1f}%)"
                     for figures in map(found.get, POLICIES)]
            print(f"| {name} | {100 * share:.0f}% | {published} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--threads", type=int, default=2, help="runs side by side")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        lab = Lab(options.build.resolve() / "warmpath", pathlib.Path(directory), options.threads)
        headline(lab)
        sharing(lab)


if __name__ == "__main__":
    main()
