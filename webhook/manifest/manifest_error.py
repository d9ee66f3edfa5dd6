"""Errors of files with manifests."""

from typing import Final, Self

TEMPLATE: Final = ": a template, such as Helm's, has to be rendered first"


class ManifestError(Exception):
    """A file, or a part of it, that cannot be read. `line` counts from 1; 0 is the whole file."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, str]]:
        """Return the arguments from which pickle recreates the error in another process."""
        return type(self), (self.file, self.line, self.problem)
