"""Tells failures from troubles that the faults explain, by the rules in soak.py."""
import collections

from soak_engine import HOLE_BODIES

# Refusals of one hole that clients may get, for each kind of request (path, streamed or not).
# Refusals that show only in the body convict after about nine in a row (docs/errors.md), and as
# many may be in flight by then.  Up to 17 were seen.
HOLE_REFUSALS_MAX = 30
SLACK_S = 0.5  # between the clocks' readings in three processes


class Judge:
    def __init__(self, engines, chaos):
        self.kills, self.holes = chaos.kills, chaos.holes
        self.allowed = collections.Counter()
        self.failed, self.altered = [], []
        self.refusals = collections.Counter()  # by hole and kind
        # Request id -> event -> URLs of engines.
        self.seen = collections.defaultdict(lambda: collections.defaultdict(set))
        self.wanted = {trouble.ask.id for trouble in chaos.crowd.troubles if trouble.ask}
        for engine in engines:
            for _, what, request_id in engine.lines():
                if what == "altered":
                    self.altered.append(f"{request_id}: the body that {engine.url} got")
                if request_id in self.wanted:
                    self.seen[request_id][what].add(engine.url)

    def judge(self, troubles):
        for trouble in troubles:
            if trouble.what == "altered":
                self.altered.append(describe(trouble, self.seen))
            elif excuse := self.excuse_of(trouble):
                self.allowed[excuse] += 1
            else:
                self.failed.append(describe(trouble, self.seen))
        for hole, count in self.refusals.items():
            if count > HOLE_REFUSALS_MAX:
                self.failed += [f"{count} refusals reached clients, at most {HOLE_REFUSALS_MAX}: {hole}"] * (
                    count - HOLE_REFUSALS_MAX)

    def excuse_of(self, trouble):
        """The name of the rule that allows it, or None."""
        if trouble.what in ("hung", "no connection"):
            return None
        if trouble.what == "cut":
            return "cut by its engine" if self.is_cut(trouble) else None
        if self.is_refusal(trouble):
            return "refused by a hole"
        if trouble.what in ("status", "no response") and self.has_died_twice(trouble):
            return "two engines died under it"
        return None

    def killed(self, trouble):
        """URLs of the engines that were killed while the request ran."""
        return {url for url, at in self.kills if trouble.begun - SLACK_S <= at <= trouble.ended + SLACK_S}

    def is_cut(self, trouble):
        seen = self.seen[trouble.ask.id]
        return trouble.backend in seen["cut"] or trouble.backend in self.killed(trouble)

    def has_died_twice(self, trouble):
        """One engine died under it, and the only other one that it may reach failed it."""
        seen = self.seen[trouble.ask.id]
        died = seen["death"] | (self.killed(trouble) - seen["out"])
        return bool(died) and len(died | seen["bad"] | seen["refused"]) >= 2

    def is_refusal(self, trouble):
        """Whether the response is that of a hole; counts it."""
        if trouble.backend not in self.seen[trouble.ask.id]["refused"]:
            return False
        if not any(trouble.detail.endswith(repr(bytes(body))) for body in HOLE_BODIES):
            return False
        for hole in self.holes:
            if (hole.url == trouble.backend and hole.begun - SLACK_S <= trouble.ended
                    and trouble.begun <= hole.ended + SLACK_S):
                streamed = "streamed" if trouble.ask.streamed else "whole"
                self.refusals[f"{hole.form} of {hole.url} at {hole.begun:.1f} s", trouble.ask.path, streamed] += 1
                return True
        return False


def describe(trouble, seen):
    journal = {what: sorted(urls) for what, urls in seen[trouble.ask.id].items()} if trouble.ask else {}
    return (f"{trouble.what}: {trouble.ask} by {trouble.backend}, {trouble.begun:.2f} to {trouble.ended:.2f} s: "
            f"{trouble.detail}; engines: {journal}")
