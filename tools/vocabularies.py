#!/usr/bin/env python3
"""Fetches the files of tools/vocabularies.txt into build/vocabularies/, and makes variants of them.

    tools/vocabularies.py            those that every run of the tests needs
    tools/vocabularies.py --full     also those of `make test-tokenizer`

Existing files are not fetched again: a file gets its name only after its SHA-256 was verified.
Without a network or without npm it reports that and exits 1; tests that need a missing file then
skip with the reason.  Several may run at a time: the first works, the others wait for it.  It uses
the pip of the Python that runs it.
"""
import argparse
import concurrent.futures
import fcntl
import fnmatch
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import typing
import zipfile

import vocabulary_variants

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/vocabularies"
PACKAGE_SECONDS_MAX = 180


class CannotFetch(Exception):
    """A package did not come, or is not what the table says."""


class Row(typing.NamedTuple):
    set: str
    name: str
    package: str
    file: str
    size: int
    sha256: str

    @property
    def target(self):
        """The files of the row after it was fetched."""
        file = ".complete" if "*" in self.file else pathlib.PurePath(self.file).name
        return PLACE / self.name / file


def read_table():
    rows = []
    for line in (ROOT / "tools/vocabularies.txt").read_text().splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            rows.append(Row(*words[:4], int(words[4]), words[5]))
    return rows


def run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=PACKAGE_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise CannotFetch(why) from why
    if done.returncode != 0:
        lines = [line for line in done.stdout.splitlines() if "rror" in line]
        raise CannotFetch(lines[0] if lines else f"{command[0]} ended with {done.returncode}")


def download(package, folder):
    """The archive of a package."""
    kind, _, name = package.partition(":")
    if kind == "npm":
        run(["npm", "pack", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000",
             "--fetch-timeout=60000", "--pack-destination", str(folder), name])
    else:
        # A package without a wheel is built from source, but not its dependencies.
        run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--retries=1",
             "--no-deps", "--prefer-binary", "-d", str(folder), name])
    return next(folder.iterdir())


def check(row, content):
    if len(content) != row.size or hashlib.sha256(content).hexdigest() != row.sha256:
        raise CannotFetch(f"{row.package}: {row.file} is not the file that the table names")


def put(target, content):
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    part.write_bytes(content)
    part.rename(target)


def unpack_file(row, archive):
    with tarfile.open(archive) as tar:
        content = tar.extractfile(f"package/{row.file}").read()
    check(row, content)
    put(row.target, content)


def members(archive):
    """Name and content of every file in a wheel or a source package."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            for name in file.namelist():
                yield name, lambda name=name: file.read(name)
    else:
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.isfile():
                    yield entry.name, lambda entry=entry: tar.extractfile(entry).read()


def unpack_matching(row, archive):
    check(row, archive.read_bytes())
    for name, read in members(archive):
        if fnmatch.fnmatch(name, row.file):
            put(row.target.with_name(pathlib.PurePath(name).name), read())
    row.target.touch()


def fetch(package, rows):
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        archive = download(package, pathlib.Path(folder))
        for row in rows:
            (unpack_matching if "*" in row.file else unpack_file)(row, archive)


def fetch_all(rows):
    """Returns what went wrong, for each package that did not come."""
    packages = {}
    for row in rows:
        packages.setdefault(row.package, []).append(row)
    if any(package.startswith("npm:") for package in packages) and not shutil.which("npm"):
        # Only if npm is missing: one from outside Debian's packages will do.
        subprocess.run([ROOT / "tools/install.sh", "vocabularies"], check=False)
    failures = []
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        tasks = {pool.submit(fetch, *item): item[0] for item in packages.items()}
        for task in concurrent.futures.as_completed(tasks):
            try:
                task.result()
                print(f"vocabularies: {tasks[task]}", file=sys.stderr, flush=True)
            except (CannotFetch, OSError, KeyError, tarfile.TarError) as why:
                failures.append(f"{tasks[task]}: {why}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="what the longer runs need as well")
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(PLACE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [row for row in read_table()
                   if (options.full or row.set == "test") and not row.target.exists()]
        failures = fetch_all(missing) if missing else []
        failures += vocabulary_variants.make_all(PLACE)
    for failure in failures:
        print(f"vocabularies: MISSING {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
