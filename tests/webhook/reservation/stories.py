"""Histories of several processes: `python -m tests.webhook.reservation.stories [--seed N] [STEPS]`.
Exit code 1: a history ended with two pods of the same identity, or with an incomplete replica.
"""

import argparse
import logging
import random
import sys
from collections.abc import Callable
from unittest.mock import patch

from tests.webhook.reservation.scaling import ScalingModel
from tests.webhook.reservation.simulated import Model
from webhook.reservation import allocation

EACH = 800
"""Steps of one story."""
BLOCK = 2
"""Replicas that share a table, so that stories have several."""


def story(seed: int) -> str:
    """Return what is wrong at the end of a story; nothing when nothing is."""
    return _play(lambda: Model(seed, 2 + seed % 3), BLOCK)


def scaling(seed: int) -> str:
    """Return what is wrong in a story in which whole replicas are scaled away and pods of others
    are lost, of several blocks; nothing when nothing is.
    """
    block, replicas = ((BLOCK, 4), (allocation.BLOCK, 18))[seed % 8 == 0]
    return _play(lambda: ScalingModel(seed, 1 + seed % 3, replicas), block)


def _play(build: Callable[[], Model], block: int) -> str:
    with patch.object(allocation, "BLOCK", block):
        model = build()
        try:
            for _ in range(EACH):
                model.step()
            model.end()
        except AssertionError as error:
            return str(error)
        finally:
            model.close()
        return ""


def main() -> int:
    """Play them, and print what is wrong and how many there were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))  # noqa: S311
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    chosen, wrong = random.Random(arguments.seed), 0  # noqa: S311 - stories, no secrets
    for _ in range(0, arguments.steps, EACH):
        seed = chosen.randrange(1 << 32)
        for play in (story, scaling):
            if said := play(seed):
                print(f"{play.__name__} {seed}: {said}", flush=True)
                wrong += 1
    print(f"{arguments.steps} steps of seed {arguments.seed}, twice: {wrong} stories went wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
