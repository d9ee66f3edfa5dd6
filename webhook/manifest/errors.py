"""What is wrong with a file that should hold manifests."""

from typing import Final

TEMPLATE: Final = ": a template, such as Helm's, has to be rendered first"


class ManifestError(Exception):
    """A file, or a place in it, that cannot be read. `line` counts from 1; 0 is the whole file."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem
