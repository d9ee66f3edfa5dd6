"""Run all benchmarks, or those named on the command line."""

import sys
from importlib import import_module

PARTS = ("reviews_over_https", "layers", "reservations", "dashboard")


def main() -> int:
    chosen = sys.argv[1:] or PARTS
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.stderr.write(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(PARTS)}\n")
        return 2
    for name in chosen:
        import_module(f"tests.lab.bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
