#!/usr/bin/env python3
"""Runs clang-tidy on every source, one process per core, and skips those that cannot have changed.

    tools/lint.py build/debug           what changed since it was last clean
    tools/lint.py build/debug FILE...   these files, changed or not

A file is clean for as long as its text, the text of everything of ours that it includes, its flags,
the .clang-tidy files and the version of clang-tidy are the same; build/lint/clean.json keeps their
hash.  Without that file, as in CI, everything is analysed.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KEPT = ROOT / "build/lint"
CLEAN = KEPT / "clean.json"
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)


def commands_of(build):
    """Our files and their distinct command lines: a file of 30 programs is analysed once."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (build / entry["file"]).resolve()
        if path.suffix != ".c" or not path.is_relative_to(ROOT):
            continue
        words, keep = iter(shlex.split(entry["command"])), []
        for word in words:
            if word in ("-o", "-MQ", "-MF"):
                next(words)
            elif word != "-MD":
                keep.append(word)
        if keep not in commands.setdefault(path, []):
            commands[path].append(keep)
    return commands


def write_database(build, commands):
    """The file from which clang-tidy reads the flags."""
    KEPT.mkdir(parents=True, exist_ok=True)
    entries = [{"directory": str(build), "file": str(path), "arguments": words}
               for path, lines in commands.items() for words in lines]
    (KEPT / "compile_commands.json").write_text(json.dumps(entries))


class Keys:
    """Hashes of all that an analysis of a file depends on."""

    def __init__(self, build):
        self.build = build
        self.digests, self.included = {}, {}
        version = subprocess.run(["clang-tidy", "--version"], capture_output=True, check=True).stdout
        rules = [path.read_bytes() for path in sorted([ROOT / ".clang-tidy", *ROOT.glob("*/.clang-tidy")])]
        self.common = hashlib.sha256(b"\0".join([version, *rules])).hexdigest()

    def read(self, path):
        if path not in self.digests:
            text = path.read_bytes()
            self.digests[path] = hashlib.sha256(text).hexdigest()
            self.included[path] = INCLUDE.findall(text.decode(errors="replace"))
        return self.included[path]

    def reach(self, path, folders, seen):
        seen.add(path)
        for name in self.read(path):
            for folder in (path.parent, *folders):
                found = pathlib.Path(os.path.normpath(folder / name))
                if found.exists():
                    if found not in seen:
                        self.reach(found, folders, seen)
                    break

    def of(self, path, lines):
        seen = set()
        for words in lines:
            self.reach(path, [self.build / word[2:] for word in words if word.startswith("-I")], seen)
        parts = [self.common, json.dumps(lines), *sorted(f"{one} {self.digests[one]}" for one in seen)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def analyse(path):
    done = subprocess.run(["clang-tidy", "--quiet", "-p", str(KEPT), str(path)], capture_output=True, text=True)
    # Standard error counts suppressed warnings; it matters only if clang-tidy itself failed.
    return done.returncode == 0, done.stdout or (done.stderr if done.returncode else "")


def main():
    started = time.monotonic()
    build = pathlib.Path(sys.argv[1]).resolve()
    commands = commands_of(build)
    write_database(build, commands)
    keys = Keys(build)
    wanted = {path: keys.of(path, lines) for path, lines in commands.items()}
    clean = json.loads(CLEAN.read_text()) if CLEAN.exists() else {}
    named = {pathlib.Path(name).resolve() for name in sys.argv[2:]}
    work = [path for path, key in wanted.items()
            if (path in named if named else clean.get(str(path.relative_to(ROOT))) != key)]
    # The largest first, so that all cores end at about the same time.
    work.sort(key=lambda path: path.stat().st_size, reverse=True)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for path, (is_clean, words) in zip(work, pool.map(analyse, work)):
            name = str(path.relative_to(ROOT))
            clean[name] = wanted[path] if is_clean else ""
            failed += not is_clean
            if words:
                print(words, end="", flush=True)
    present = {str(path.relative_to(ROOT)) for path in commands}
    CLEAN.write_text(json.dumps({name: key for name, key in clean.items() if name in present and key}))
    print(f"lint: {len(work)} of {len(commands)} files analysed, {failed} with findings, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
