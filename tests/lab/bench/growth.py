"""The CPU time of all public entries for twice the input, at the limit of the API server: it shows
what C functions do, such as a search in a list, which the lines of the tests do not.

Prints the parts for which it is more than 2.3 times as much, and the largest times.
"""

from heapq import nlargest

from tests.growth.entries import cases
from tests.harness.work import RATIO_MAX, seconds
from tests.lab.bench.reviews_over_https import say

_LONGEST = 20
_REPORTS = ("examine", "show a report")
_REPORTED = 500
"""The scenes of reports take long to build."""
_NOISE_SECONDS = 0.004


def main() -> None:
    """Measure and print."""
    say("CPU time of twice the input to that of the input, where it exceeds 2.3")
    times = []
    for case in cases():
        number = min(case.limit, _REPORTED) if case.entry in _REPORTS else case.limit
        half, whole = case.build(max(number // 2, 1)), case.build(number)
        before, after = seconds(half, 2), seconds(whole, 2)
        if after > max(RATIO_MAX * before, _NOISE_SECONDS):
            before, after = seconds(half), seconds(whole)
        if after > max(RATIO_MAX * before, _NOISE_SECONDS):
            say(f"{after / before:>6.2f} {after:>8.3f} s  {case.entry}: {number} {case.part}")
        times.append((after, f"{case.entry}: {number} {case.part}"))
    say("the largest times, in seconds")
    for time, text in nlargest(_LONGEST, times):
        say(f"{time:>8.3f}  {text}")


if __name__ == "__main__":
    main()
