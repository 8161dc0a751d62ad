"""The lab and real time: `warmpath sim` agrees with `engine`, `serve` and `load` on the same
workload.
"""
import concurrent.futures
import pathlib
import sys

import harness
import pytest

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))
import agree
from report import CannotMeasure


def compare_all(binary, directory):
    """{policy: comparison}, run side by side, since a fleet of four engines leaves most of a core
    idle.
    """
    def compare(policy):
        return agree.compare(binary, directory, agree.QUICK, policy, (harness.free_port(), harness.free_port()))

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(agree.POLICIES, pool.map(compare, agree.POLICIES)))


# Half a minute, three times at most where the machine has no time for it.
@pytest.mark.quiet
@pytest.mark.timeout(150)
def test_hit_rate_and_first_token_in_real_time_are_those_of_the_lab(binary, tmp_path):
    try:
        comparisons = compare_all(binary, tmp_path)
    except CannotMeasure as why:
        pytest.fail(str(why))
    for policy, comparison in comparisons.items():
        assert comparison.agrees(), f"{policy}: {comparison}"
    # The policies must differ by more than the tolerance, or either would pass for the other.
    warm, round_robin = comparisons["warm"], comparisons["round_robin"]
    for sim_or_real in range(2):
        hits = [one.pair("hit_rate")[sim_or_real] for one in (warm, round_robin)]
        times = [one.pair("ttft_mean")[sim_or_real] for one in (warm, round_robin)]
        assert hits[0] - hits[1] > agree.HIT_POINTS_MAX, f"{warm}; {round_robin}"
        assert times[0] / times[1] < 1 - agree.TTFT_PERCENT_MAX / 100, f"{warm}; {round_robin}"
