"""The step times of a live engine are measured, fitted and written down."""
import asyncio
import json
import re
import signal
import statistics
import subprocess
import time

import engine
import harness
import pytest
from harness import within

# Milliseconds, large enough that the lateness of timers does not show.
FLOOR, TOKEN, CROSS, SQUARE, CACHED, CONTEXT = 15.0, 0.02, 2e-6, 5e-7, 3e-4, 1.5e-4


def prefill_ms(cached, fresh):
    return max(CACHED, CROSS * fresh) * cached + SQUARE * fresh**2


def step_ms(chunks, contexts):
    """`chunks` are pairs of cached and new tokens; `contexts` has one number for each decoding
    sequence.
    """
    tokens = sum(fresh for _, fresh in chunks) + len(contexts)
    both = (FLOOR**2 + (TOKEN * tokens) ** 2) ** 0.5
    return both + sum(prefill_ms(*chunk) for chunk in chunks) + CONTEXT * sum(contexts)


async def until(due):
    """Spins for the last two milliseconds, because timers are late by as much."""
    await asyncio.sleep(max(0.0, due - time.monotonic() - 0.002))
    while time.monotonic() < due:
        pass


class StepEngine(engine.Engine):
    """Computes in steps, as real engines do: all waiting prompts, and a token for each running
    sequence.  A step of an idle engine begins when its request comes.
    """

    def __init__(self, stalls_after=None, **options):
        super().__init__("a", port=harness.free_port(), cache_blocks=8192, max_sequences=256, **options)
        self.stalls_after = stalls_after  # requests

    async def schedule(self):
        running = []
        due = None
        while True:
            new = []
            while (sequence := self.admit_first()) is not None:
                new.append(sequence)
            running = [sequence for sequence in running if sequence.blocks]
            if not new and not running:
                self.changed.clear()
                await self.changed.wait()
                due = None
                continue
            due = min(s.asked_at for s in new) if due is None else due
            chunks = [(s.cached_count, s.prompt_count - s.cached_count) for s in new]
            contexts = [s.prompt_count + s.made for s in running]
            due += step_ms(chunks, contexts) / 1000  # delays of steps do not add up
            await until(due)
            running += new
            for sequence in running:
                sequence.made += 1
                sequence.steps.put_nowait(sequence.made)
            running = [s for s in running if s.made < s.output_count]

    async def leave(self, reset=False):
        self.scheduler.cancel()
        await super().leave(reset)

    async def tokens(self, sequences, row):
        [sequence] = sequences
        sequence.made, sequence.steps, sequence.asked_at = 0, asyncio.Queue(), row["at"]
        response = sequence.response_tokens()
        if self.stalls_after is not None and len(self.log) > self.stalls_after:
            await asyncio.Event().wait()
        try:
            self.enqueue(sequence)
            for done, token in enumerate(response, 1):
                await sequence.steps.get()
                row.update(cached_tokens=sequence.cached_count, output_tokens=done)
                yield 0, [token], done == len(response)
        finally:
            self.leave_queue(sequence)


@pytest.fixture
def stepping():
    engines = []

    def make(**options):
        made = StepEngine(**options)
        engines.append(made)
        return made.start()

    yield make
    for made in engines:
        made.stop()
    for made in engines:
        assert made.misuse == []


def calibrate(binary, *words, seconds=60):
    return subprocess.run([binary, "calibrate", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=within(seconds))


def measure(binary, backend, path, *words):
    return calibrate(binary, "--backend", backend.url, "--model", "test-model", "--write", str(path), *words)


def rows_of(path):
    return json.loads(path.read_text())["models"]["test-model"]


def error_of(ms, known):
    return abs(ms / known - 1)


@pytest.mark.quiet
@pytest.mark.timeout(90)
def test_the_measured_times_are_those_of_the_engine(binary, stepping, tmp_path):
    path = tmp_path / "measured.json"
    done = measure(binary, stepping(), path, "--seconds", "15", "--sequences", "16")
    assert done.returncode == 0, done.stderr
    model = rows_of(path)
    assert model["kv_tokens"] == 8191 * 16  # engines keep one block for themselves
    prefill = [error_of(ms, step_ms([(cached, fresh)], [])) for cached, fresh, ms in model["prefill"]]
    decode = [error_of(ms, step_ms([], [context] * batch)) for batch, context, ms in model["decode"]]
    assert len(prefill) == 18 and len(decode) == 9, done.stderr
    assert statistics.median(prefill) < 0.1 and statistics.median(decode) < 0.1, (prefill, decode)
    # The prompts behind a cached prefix had the right length.
    assert {cached for cached, _, _ in model["prefill"]} == {0, 1024, 4096, 16384}
    assert error_of(model["step"]["floor_ms"], FLOOR) < 0.1
    assert error_of(model["step"]["token_ms"], TOKEN) < 0.25
    # The written rows can be fitted again, with the same result.
    again = calibrate(binary, "--file", str(path))
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout


@pytest.mark.quiet
@pytest.mark.timeout(90)
def test_engines_that_do_not_report_cached_tokens_are_assumed_to_have_them(binary, stepping, tmp_path):
    path = tmp_path / "measured.json"
    done = measure(binary, stepping(report_cached=False), path, "--seconds", "8", "--sequences", "4")
    assert done.returncode == 0, done.stderr
    prefill = [error_of(ms, step_ms([(cached, fresh)], [])) for cached, fresh, ms in rows_of(path)["prefill"]]
    assert statistics.median(prefill) < 0.1, prefill


def test_an_interrupt_ends_it_with_the_measured_points(binary, stepping, tmp_path):
    path = tmp_path / "measured.json"
    backend = stepping(stalls_after=7)
    process = subprocess.Popen(
        [binary, "calibrate", "--backend", backend.url, "--model", "test-model", "--write", str(path)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        harness.eventually(lambda: len(backend.log) >= 8, "it measures")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=within(10))
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 1 and "too few rows" in err, (out, err)
    assert len(rows_of(path)["prefill"]) >= 5 and len(backend.log) == 8


def test_a_model_that_the_engine_does_not_serve_is_a_failure(binary, stepping):
    done = calibrate(binary, "--backend", stepping().url, "--model", "other")
    assert done.returncode == 1
    assert re.search(r"a streamed completion failed: .*status 404", done.stderr), done.stderr


def test_without_the_size_of_the_cache_nothing_is_measured(binary, standin):
    done = calibrate(binary, "--backend", standin("a").url, "--model", "test-model")
    assert done.returncode == 1
    assert "--kv-tokens" in done.stderr
