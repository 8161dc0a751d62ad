"""How slow the machine is at this moment, as the test process itself sees it.

A thread wakes up twice a second, computes for some milliseconds and compares the wall time from the
requested moment with the CPU time it got.  On a quiet machine the two are alike.  With eleven
busy processes for each core the wall time is about twelve times as long, and so is everything that
a test waits for.  Hashing a large buffer leaves the interpreter to the test.
"""
import collections
import hashlib
import threading
import time

PERIOD_S = 0.5
SAMPLE_COUNT = 20
SLOWEST = 12.0
WORK = bytes(4 << 20)


class Pace:
    def __init__(self):
        self.samples = collections.deque([1.0], maxlen=SAMPLE_COUNT)
        self.thread = None

    def start(self):
        self.thread = threading.Thread(target=self.watch, name="pace", daemon=True)
        self.thread.start()

    def watch(self):
        while True:
            due, cpu = time.monotonic() + PERIOD_S, time.thread_time()
            time.sleep(PERIOD_S)
            hashlib.sha256(WORK).digest()
            self.samples.append((time.monotonic() - due) / (time.thread_time() - cpu))

    def slowdown(self):
        """The worst but one of the last ten seconds, between 1 and SLOWEST.

        A single pause of the machine must not make a test that waits for a limit take minutes, and
        a test that hangs beside many other processes must end within a quarter of an hour.
        """
        return min(max([1.0, *sorted(self.samples)[:-1]]), SLOWEST)


pace = Pace()
