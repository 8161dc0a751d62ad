"""The command line: errors are reported before anything listens."""
import re
import socket
import subprocess

import pytest
from harness import Router, eventually, within
from standin import RESET

GOOD = """
listen: 127.0.0.1:8080
policy: least_requests
backends:
  - http://127.0.0.1:8001
  - url: http://127.0.0.1:8002
    weight: 2
limits:
  body_size: 1m
timeouts:
  first_byte: 30s
admin:
  listen: 127.0.0.1:9000
  token: secret
"""

BAD = {
    "unknown key": ("backends: [http://127.0.0.1:1]\ncolour: red\n", 2),
    "unknown key within": ("backends: [http://127.0.0.1:1]\nlimits:\n  body_sise: 1m\n", 3),
    "unknown policy": ("backends: [http://127.0.0.1:1]\npolicy: best\n", 2),
    "not a number": ("backends: [http://127.0.0.1:1]\nworkers: many\n", 2),
    "out of bounds": ("backends: [http://127.0.0.1:1]\nlimits:\n  requests: 0\n", 3),
    "not a duration": ("backends: [http://127.0.0.1:1]\ntimeouts:\n  header: soon\n", 3),
    "not a size": ("backends: [http://127.0.0.1:1]\nlimits:\n  body_size: big\n", 3),
    "not an address": ("listen: nowhere\nbackends: [http://127.0.0.1:1]\n", 1),
    "not a URL": ("backends:\n  - http://127.0.0.1:1\n  - localhost\n", 3),
    "backend twice": ("backends:\n  - http://127.0.0.1:1\n  - http://127.0.0.1:1\n", 3),
    "unknown pool": ("backends:\n  - url: http://127.0.0.1:1\n    pool: none\n", 3),
    "key twice": ("workers: 1\nbackends: [http://127.0.0.1:1]\nworkers: 2\n", 3),
    "not YAML": ("backends: [http://127.0.0.1:1\nworkers: 1\n", None),
    "a list at the top": ("- backends\n", 1),
}


def run(binary, *words):
    return subprocess.run([binary, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(10))


def test_check_accepts_a_valid_file(binary, tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    done = run(binary, "check", str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("case", BAD)
def test_an_invalid_file_is_refused_with_line_and_column(binary, tmp_path, case):
    text, line = BAD[case]
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    done = run(binary, "check", str(path))
    assert done.returncode == 2
    place = re.fullmatch(re.escape(str(path)) + r":(\d+):(\d+): \S.*\n", done.stderr)
    assert place, done.stderr
    assert line is None or int(place[1]) == line, done.stderr


def test_serve_refuses_an_invalid_file_in_the_same_way_and_does_not_listen(binary, tmp_path):
    router = Router(binary, tmp_path)
    text, line = BAD["unknown key"]
    router.write_config(text)
    done = run(binary, *router.command()[1:], "--config", str(router.config_path))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{router.config_path}:{line}:")
    with socket.socket() as sock:
        assert sock.connect_ex(router.address) != 0


@pytest.mark.parametrize("words", [
    ["--colour", "red"], ["--policy", "best"], ["--workers", "-1"], ["--timeouts-header"], ["--backend", "ftp://x"],
    ["stray"]], ids=" ".join)
def test_an_invalid_flag_is_refused(binary, words):
    done = run(binary, "serve", "--backend", "http://127.0.0.1:1", *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") >= 1 and words[0] in done.stderr


def test_a_missing_file_is_refused(binary, tmp_path):
    for command in (["check", str(tmp_path / "none.yaml")], ["serve", "--config", str(tmp_path / "none.yaml")]):
        done = run(binary, *command)
        assert done.returncode == 2 and "none.yaml" in done.stderr


def test_an_unknown_command_is_refused_with_help(binary):
    assert run(binary, "explode").returncode == 2
    assert run(binary).returncode == 2
    done = run(binary, "--help")
    assert done.returncode == 0 and "serve" in done.stdout
    done = run(binary, "--version")
    assert done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout)


def test_a_port_in_use_is_an_error(binary, standin):
    engine = standin()
    done = run(binary, "serve", "--listen", f"127.0.0.1:{engine.port}", "--backend", engine.url)
    assert done.returncode not in (0, None) and str(engine.port) in done.stderr


def test_flags_win_over_the_file(standin, warmpath):
    engine = standin()
    router = warmpath(config=f"""
backends: ["{engine.url}"]
listen: 127.0.0.1:1
workers: 1
limits: {{uri_size: 300}}
""", limits_uri_size=400)
    assert router.get("/" + "x" * 350).status == 200
    assert router.get("/" + "x" * 450).status == 414


@pytest.mark.parametrize("level, says_info, says_debug", [
    ("error", False, False), ("warn", False, False), ("info", True, False), ("debug", True, True)])
def test_the_log_level_decides_which_lines_are_written(standin, warmpath, level, says_info, says_debug):
    bad, good = standin("bad"), standin("good")
    bad.respond("/x", RESET)
    router = warmpath(bad, good, log_level=level, workers=1)
    for _ in range(4):
        assert router.get("/x").status == 200
    eventually(lambda: (" info " in router.stderr()) == says_info, router.stderr)
    eventually(lambda: (" debug " in router.stderr()) == says_debug, router.stderr)
