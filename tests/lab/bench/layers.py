"""Server CPU saved by each layer around the plain path of a review: servers without one, compared
with one that has all of them. Another one that has them shows the precision of the ratios.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.lab.bench.load import posts
from tests.lab.bench.reviews import Body, review_bodies
from tests.lab.bench.reviews_over_https import Target, compare, pinned, webhook
from tests.lab.bench.without import LAYERS

CONNECTIONS = 16
ROUNDS = 15


def main() -> None:
    with pinned() as pin, tempfile.TemporaryDirectory() as folder:
        for kind in Body:
            with ExitStack() as stack:
                targets = [
                    Target(
                        name,
                        stack.enter_context(
                            webhook(
                                Path(folder) / f"{kind}-{number}",
                                pin,
                                ("-m", "tests.lab.bench.without", name),
                            )
                        ),
                        posts(review_bodies(kind), "/mutate"),
                        "nothing",
                    )
                    for number, name in enumerate(LAYERS)
                ]
                compare(f"{kind}, without", targets, CONNECTIONS, rounds=ROUNDS)
