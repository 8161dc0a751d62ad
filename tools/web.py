#!/usr/bin/env python3
"""The dashboard's files: fetches those that packages bring, and makes the assembly that embeds all.

    tools/web.py fetch             the files of PACKAGES, into build/web/
    tools/web.py embed OUT.S       src/web/assets.txt and its files, as the table of src/admin/web.h

Existing files are not fetched again: a file gets its name only after its SHA-256 was verified.
Several may run at a time: the first works, the others wait for it.
"""
import fcntl
import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src/web"
PLACE = ROOT / "build/web"
FETCH_SECONDS_MAX = 180
CACHE_CONTROL = {"ask": "no-cache", "keep": "public, max-age=31536000, immutable"}

PACKAGES = {  # by npm: the package, then the SHA-256 of each file that is taken
    "uplot": ("uplot@1.6.32", {
        "dist/uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "dist/uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    }),
}


class CannotFetch(Exception):
    """A package did not come, or is not what the table says."""


class Asset(typing.NamedTuple):
    path: str
    type: str
    browsers: str
    file: str

    @property
    def source(self):
        package, _, file = self.file.rpartition(":")
        return fetched(package, file) if package else SOURCES / file


def fetched(package, file):
    return PLACE / package / pathlib.PurePath(file).name


def read_table():
    lines = (SOURCES / "assets.txt").read_text().splitlines()
    return [Asset(*line.split()) for line in lines if line and not line.startswith("#")]


def pack(package, folder):
    """The archive of a package."""
    command = ["npm", "pack", "--loglevel=error", "--fetch-retries=2", "--fetch-timeout=60000",
               "--pack-destination", str(folder), package]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=FETCH_SECONDS_MAX, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise CannotFetch(f"{package}: {why}") from why
    if done.returncode != 0:
        raise CannotFetch(f"{package}: npm ended with {done.returncode}:\n{done.stdout.strip()}")
    return next(folder.iterdir())


def fetch_package(name):
    package, files = PACKAGES[name]
    if not shutil.which("npm"):
        # Only if npm is missing: one from outside Debian's packages will do.
        subprocess.run([ROOT / "tools/install.sh", "web"], check=False)
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        with tarfile.open(pack(package, pathlib.Path(folder))) as archive:
            for file, sha256 in files.items():
                content = archive.extractfile(f"package/{file}").read()
                if hashlib.sha256(content).hexdigest() != sha256:
                    raise CannotFetch(f"{package}: {file} is not the file that tools/web.py names")
                target = fetched(name, file)
                target.parent.mkdir(exist_ok=True)
                part = target.with_name(target.name + ".part")
                part.write_bytes(content)
                part.rename(target)


def is_fetched(name):
    """By content: another version may have left files of the same names."""
    def has(file, sha256):
        target = fetched(name, file)
        return target.exists() and hashlib.sha256(target.read_bytes()).hexdigest() == sha256

    return all(has(*item) for item in PACKAGES[name][1].items())


def fetch():
    PLACE.mkdir(parents=True, exist_ok=True)
    with open(PLACE / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name in PACKAGES:
            if not is_fetched(name):
                fetch_package(name)


def assembly(assets):
    """A row is five words, as struct web_asset has them."""
    parts = ["// Made by tools/web.py.\n", '    .section .note.GNU-stack,"",@progbits\n', "    .section .rodata\n"]
    rows = []
    for number, asset in enumerate(assets):
        content = asset.source.read_bytes()
        # The checksum changes this file with the asset, so that the compiler runs again.
        parts.append(f"// {hashlib.sha256(content).hexdigest()}\n"
                     f'path_{number}: .asciz "{asset.path}"\n'
                     f'type_{number}: .asciz "{asset.type}"\n'
                     f'cache_{number}: .asciz "{CACHE_CONTROL[asset.browsers]}"\n'
                     f'bytes_{number}: .incbin "{asset.source}"\n')
        rows.append(f"    .quad path_{number}, type_{number}, cache_{number}, bytes_{number}, {len(content)}\n")
    # Pointers are relocated in a program that may lie anywhere, so this is not .rodata.
    parts += ['    .section .data.rel.ro,"aw",@progbits\n    .balign 8\n',
              "    .globl web_assets\n    .type web_assets, @object\nweb_assets:\n", *rows,
              f"    .size web_assets, {40 * len(assets)}\n",
              "    .globl web_asset_count\n    .type web_asset_count, @object\n"
              f"web_asset_count: .quad {len(assets)}\n    .size web_asset_count, 8\n"]
    return "".join(parts)


def main():
    fetch()
    if sys.argv[1] == "embed":
        pathlib.Path(sys.argv[2]).write_text(assembly(read_table()))


if __name__ == "__main__":
    try:
        main()
    except (CannotFetch, OSError, KeyError, tarfile.TarError) as why:
        sys.exit(f"web: the dashboard cannot be built: {why}\n"
                 "web: a network and npm are needed once; what was fetched stays in build/web/")
