"""A backend that was slow for a while gets requests again.

test/model/warm_change_model_test.c has the same in virtual time, with more kinds of traffic.
"""
import random
import time

import pytest
import workloads
from drive import drive
from harness import within
from workloads import PATH, Ask, text, user

FIRST_S = 0.08  # to the first token of any prompt here, on an engine that is well
LATEST = 80  # requests that show the share of a backend


class Patient:
    """An engine that responds `factor` times as slowly for its first requests or seconds."""

    def __init__(self, engine, factor=1, slow_count=0, slow_s=0.0):
        self.engine = engine
        self.factor = factor
        self.slow_count = slow_count
        self.slow_s = slow_s
        self.begun_at = None
        self.well_at = None
        self.count = 0
        engine.respond(PATH, self.steps)

    def is_slow(self):
        return self.count <= self.slow_count or time.monotonic() < self.begun_at + self.slow_s

    def steps(self, request):
        self.count += 1
        self.begun_at = self.begun_at or time.monotonic()
        is_slow = self.is_slow()
        yield FIRST_S * (self.factor if is_slow else 1)
        # The last slow response may be the last request that it gets.
        if is_slow:
            self.well_at = max(time.monotonic(), self.begun_at + self.slow_s)
        yield from self.engine.event_steps(request, request.json(), 16, 0.002)


def unique_prompts(is_over):
    rng = random.Random(1)
    while not is_over():
        yield workloads.once(Ask(0, [user(text(rng, 400))]))


def recovery_s(router, patient):
    """Seconds from being well to half a fair share of the requests; None: not within 30 s."""
    found = []

    def is_over():
        return found or (patient.well_at and time.monotonic() - patient.well_at > within(30))

    def note(results):
        latest = [result for result in results if result.total_s and patient.well_at
                  and result.begun_at > patient.well_at][-LATEST:]
        share = sum(result.backend == patient.engine.url for result in latest) / LATEST
        if len(latest) == LATEST and share >= 0.5 / 4 and not found:
            found.append(latest[-1].begun_at - patient.well_at)

    results = drive(router.url, unique_prompts(is_over), 6, (0.1, 0.2), on_result=note)
    assert [result for result in results if not result.is_good] == []
    return found[0] if found else None


@pytest.mark.timeout(200)
@pytest.mark.parametrize("slow", [{"factor": 20, "slow_count": 3}, {"factor": 5, "slow_s": 6}],
                         ids=["first three responses", "six seconds"])
def test_a_backend_that_was_slow_gets_its_share_again(standin, warmpath, slow):
    engines = [standin(name) for name in "abcd"]
    patient = Patient(engines[0], **slow)
    for engine in engines[1:]:
        Patient(engine)
    router = warmpath(*engines, policy="warm")
    seconds = recovery_s(router, patient)
    print(f"half of its share after {seconds} s")
    assert seconds is not None, f"{patient.count} requests since its start"
