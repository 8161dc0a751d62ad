"""The cost of metrics, logs and history: requests/s with all of them over requests/s without.

Two servers in turns on one core, round after round: one counts, keeps decisions and logs every
request to the disk, the other does none of that.  The scribe shares the core of the worker, so its
work is in the figure.  The core is never idle: requests/s are per second of CPU time of the server
with all its threads, so that other programs on the core do not count.
"""
import statistics

from decision import CHATS, ORIGINS, Windows, cores, cpu_of
from proxy import median, spread
from servers import Load, Proxy, free_ports

# Case -> servers compared, first over second: with the default policy, and with one that does not
# read prompts.
CASES = {"all_on": ("all_on", "all_off"), "plain_all_on": ("plain_all_on", "plain_all_off")}
NEEDED = {("all_on", "rps_ratio"): ("≥", 0.95)}


def rate_of(window):
    return window["answers"] / window["server_ran"]


def busy_of(window):
    return window["server_ran"] / window["seconds"]


class Alone(Windows):
    """Threads of the server may wait for each other; only waiting of the load counts as a
    disturbance.
    """

    def one(self, server):
        measure = self.load.measure

        def undisturbed(server, words):
            return {**measure(server, words), "server_waited": 0}

        self.load.measure = undisturbed
        try:
            return super().one(server)
        finally:
            self.load.measure = measure


def overhead(report, build, quick, directory, case):
    load_core, server_core = cores()
    ports = free_ports()
    load = Load(build, load_core, [next(ports) for _ in range(ORIGINS)])
    servers = []
    try:
        for name in CASES[case]:
            servers.append(Proxy(name, build, server_core, directory, next(ports), load.origins))
        windows = Alone(load, quick)
        found = windows.all(servers)
    finally:
        for process in (*servers, load):
            process.stop()
    on, off = (found[name] for name in CASES[case])
    for name, mine in found.items():
        report.figure(case, "rps", median(mine, rate_of), "1/s", server=name,
                      spread=spread(mine, rate_of))
        report.figure(case, "cpu_us_per_request", median(mine, cpu_of), "us", server=name,
                      spread=spread(mine, cpu_of))
        report.figure(case, "core_busy", median(mine, busy_of), "1", server=name)
    for metric, of in (("rps_ratio", rate_of), ("cpu_ratio", cpu_of)):
        # Round by round, since both drift together.
        ratios = [of(ours) / of(theirs) for ours, theirs in zip(on, off)]
        report.figure(case, metric, statistics.median(ratios), "x",
                      spread=spread(ratios, lambda ratio: ratio))
    report.figure(case, "disturbed_windows", windows.disturbed, "1")
    report.say(f"{case}: {median(on, rate_of):.0f} against {median(off, rate_of):.0f} requests/s, "
               f"{median(on, cpu_of):.2f} against {median(off, cpu_of):.2f} us of CPU each; "
               f"{CHATS} conversations")
