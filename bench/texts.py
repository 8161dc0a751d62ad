"""Natural texts for the tokenizer's benchmark, taken from Debian's packages and cut into documents.

english  the Debian reference and the manual pages of the kernel and the C library
chinese  the same two in Chinese: lines that are mostly Chinese characters
code     the Python library, and this program's own sources

The packages are unpacked into build/texts/ without being installed: some machines are configured to
leave out documentation.  None of them is committed.
"""
import gzip
import html
import pathlib
import re
import struct
import subprocess
import sysconfig

from report import CannotMeasure

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "build/texts"
PACKAGES = ("debian-reference-en", "debian-reference-zh-cn", "manpages", "manpages-dev", "manpages-zh")
DOCUMENT_SIZE = 16384
SECONDS_MAX = 120


def unpack():
    """The packages' files, under a folder of ours."""
    root = PLACE / "root"
    if (PLACE / ".complete").exists():
        return root / "usr/share"
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "-q", "download", *PACKAGES], cwd=PLACE, check=True, timeout=SECONDS_MAX,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for archive in PLACE.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", archive, root], check=True, timeout=SECONDS_MAX)
            archive.unlink()
    except (OSError, subprocess.SubprocessError) as why:
        raise CannotMeasure(f"the texts do not come: {why}") from why
    (PLACE / ".complete").touch()
    return root / "usr/share"


def manual(path):
    """The words of a manual page, without its markup."""
    lines = []
    for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").splitlines():
        if not line.startswith((".", "'")):
            line = re.sub(r"\\f(\(..|.)|\\[&|c]", "", line)
            lines.append(line.replace("\\-", "-").replace("\\ ", " ").replace("\\(aq", "'"))
    return "\n".join(lines)


def chapter(path):
    """The words of a page of HTML."""
    text = re.sub(r"<(script|style|pre)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", "", re.sub(r"</(p|h\d|li|tr|div|dt|dd)>", "\n", text))
    return html.unescape(re.sub(r"[ \t]+", " ", re.sub(r"\s*\n\s*", "\n", text)))


def is_chinese(line):
    return len(line) > 20 and "\\" not in line and 2 * sum("\u4e00" <= c < "\ua000" for c in line) >= len(line)


def read(kind, share):
    if kind == "code":
        library = pathlib.Path(sysconfig.get_paths()["stdlib"])
        paths = [*sorted((ROOT / "src").rglob("*.[ch]")), *sorted(library.glob("*.py"))]
        return "\n".join(path.read_text(encoding="utf-8") for path in paths)
    if kind == "english":
        parts = [*map(chapter, sorted(share.glob("debian-reference/*.en.html"))),
                 *map(manual, sorted(share.glob("man/man[2-8]/*.gz")))]
        return "\n".join(parts)
    parts = [*map(chapter, sorted(share.glob("debian-reference/*.zh-cn.html"))),
             *map(manual, sorted(share.glob("man/zh_CN/man*/*.gz")))]
    return "\n".join(filter(is_chinese, "\n".join(parts).splitlines()))


def cut(text):
    """Documents that end with a line."""
    documents, begin = [], 0
    content = text.encode()
    while begin < len(content):
        end = content.find(b"\n", min(begin + DOCUMENT_SIZE, len(content)))
        end = len(content) if end == -1 else end + 1
        documents.append(content[begin:end])
        begin = end
    return documents


def documents(kind, size_max):
    """A file of documents, each after its size, of about so many bytes from all over the text."""
    target = PLACE / f"{kind}_{size_max}.documents"
    if not target.exists():
        every = cut(read(kind, unpack()))
        step = max(1, len(every) * DOCUMENT_SIZE // size_max)
        target.write_bytes(b"".join(struct.pack("<I", len(one)) + one for one in every[::step]))
    return target
