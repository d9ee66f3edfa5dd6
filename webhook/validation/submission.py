"""Rules of the submission of RayJobs by a shell, which the submitter runs."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.api.formats import shorten
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Job
from webhook.validation.shell import Mark, read_expansions, read_marks, wrap_in_bash

_SINCE: Final = (1, 3)
"""The first release of KubeRay that does not split the entrypoint into arguments itself."""

_CHECKED: Final = 2000
"""Maximum values of a runtime environment that are checked; YAML aliases can create very many."""
_LONGEST: Final = 65536
_SAME: Final = frozenset({"HOME", "PATH", "PWD", "USER"})
"""Variables with the same value in the submitter, whose image is that of the head."""
_KUBERAY: Final = frozenset({
    "RAY_DASHBOARD_ADDRESS", "RAY_JOB_SUBMISSION_ID", "PYTHONUNBUFFERED", "RAY_AUTH_TOKEN",
    "RAY_AUTH_MODE",
})  # fmt: skip
"""Variables that KubeRay sets in the submitter.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go
"""
_SCRIPT: Final = "put the command in a script in the image, and write bash SCRIPT"
_COMMANDS: Final = {"$(": "$(...)", "`": "`...`"}
_ENDS: Final = (";", "&", "&&", "||", "|", "|&", ";;")


def job_entrypoint_in_shell(job: Job) -> Iterator[Fault]:
    """An entrypoint of which the submitter's shell runs a part, or replaces a variable.

    The submitter's shell reads the entrypoint as the end of its own command `ray job submit`. What
    follows `&&`, `||`, `;`, `|`, `&` or a line end runs in the submitter, without GPUs and without
    Ray, as do `$(...)` and backticks; a redirection is that of the submitter; variables have the
    submitter's values, which are usually empty; and `#`, `(` or an operator at the end is a syntax
    error. One argument of `bash -c` in quotes reaches Ray as it is. Ray before its use of
    `shlex.join` puts the arguments into double quotes once more, so a command with `$` needs a
    script. HTTPMode has no shell.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
    (`BuildJobSubmitCommand`)
    """
    field = job.field / "entrypoint"
    entrypoint = field.text.strip()
    if not entrypoint or len(entrypoint) > _LONGEST or not job.in_shell:
        return
    present = _present(job)
    marks = [mark for mark in read_marks(entrypoint) if not _is_same(mark, present)]
    if problem := _syntax(entrypoint, marks) or _operator(entrypoint, marks) or _expansion(marks):
        yield Fault(field, problem, since=_SINCE)


def job_runtime_env_in_shell(job: Job) -> Iterator[Fault]:
    """A variable in the runtime environment or the metadata of a RayJob.

    They stand in double quotes in the submitter's shell, which replaces the variable by its own
    value, usually an empty one, before Ray receives the text. In HTTPMode Ray receives it as it is.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
    (`BuildJobSubmitCommand`)
    """
    if not job.in_shell:
        return
    present = _present(job)
    parts: list[tuple[Field, object]] = []
    environment, metadata = job.field / "runtimeEnvYAML", job.field / "metadata"
    if "$" in environment.text or "`" in environment.text:
        parts.append((environment, job.runtime_env.value))
    parts += [(metadata.key(key), {key: value}) for key, value in metadata.map.items()]
    for field, value in parts:
        # A hostile object may have hundreds of thousands of texts.
        texts = islice(_texts(value), _CHECKED)
        marks = (mark for string in texts for mark in read_expansions(string))
        mark = next((mark for mark in marks if not _is_same(mark, present)), None)
        if mark is not None:
            message = f"{_problem_of(mark)}: use HTTPMode, or env in the pods"
            yield Fault(field, message, since=_SINCE)


def _present(job: Job) -> frozenset[str] | None:
    """Return the variables that the submitter has; None if it may have any, by `envFrom`."""
    container = job.submitter_container
    if (container / "envFrom").size:
        return None
    return _SAME | _KUBERAY | {(entry / "name").text for entry in (container / "env").entries()}


def _is_same(mark: Mark, present: frozenset[str] | None) -> bool:
    """Return whether a mark is a variable that the submitter has, or may have."""
    return bool(mark.variable) and (present is None or mark.variable in present)


def _texts(value: object) -> Iterator[str]:
    """Yield the keys and strings of a JSON value."""
    stack = [value]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            stack += [*value.values(), *value]
        elif isinstance(value, list):
            stack += value


def _syntax(text: str, marks: list[Mark]) -> str:
    """Return the problem of a text that ends the submitter's command with a syntax error."""
    for mark in marks:
        if mark.kind == "operator" and mark.start == 0:
            return f"{mark.text} at the beginning is a syntax error in the submitter: remove it"
        if mark.kind == "quote":
            return f"the quote {mark.text} is not closed: close it"
        if mark.kind == "comment" and mark.end == len(text):
            return f"{shorten(mark.text)!r} hides the end of the submitter's command: remove it"
        if mark.kind == "operator" and mark.text in _ENDS and mark.end == len(text):
            return f"{mark.text} at the end is a syntax error in the submitter: remove it"
        if mark.kind == "parenthesis":
            begins = mark.start == 0 or text[mark.start - 1].isspace()
            advice = _remedy(text) if begins else "put quotes around it"
            return f"{mark.text} is a syntax error in the submitter: {advice}"
    return ""


def _operator(text: str, marks: list[Mark]) -> str:
    """Return the problem of a text of which a part runs in the submitter."""
    for mark in marks:
        if mark.kind == "operator":
            rest = " ".join(text[mark.end :].split())
            return f"{shorten(rest)} runs in the submitter: {_remedy(text)}"
        if mark.kind == "redirection":
            rest = text[mark.start :].strip().splitlines()[0]
            return f"{shorten(rest)} redirects the submitter: {_remedy(text)}"
    return ""


def _expansion(marks: list[Mark]) -> str:
    for mark in marks:
        if mark.kind == "expansion":
            return f"{_problem_of(mark)}: {_SCRIPT}"
    return ""


def _problem_of(mark: Mark) -> str:
    """Return the problem of a variable or a command that the submitter's shell replaces."""
    if mark.text in _COMMANDS:
        return f"{_COMMANDS[mark.text]} runs in the submitter"
    return f"{shorten(mark.text)} is the submitter's, usually empty"


def _remedy(text: str) -> str:
    command = wrap_in_bash(text)
    return f"write {command}" if command else _SCRIPT
