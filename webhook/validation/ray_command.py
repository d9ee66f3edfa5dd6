"""Rules of `command` and `args` of Ray's container, which KubeRay puts before `ray start`."""

import re
from collections.abc import Iterator
from itertools import dropwhile
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import shorten
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.shell import read_marks

_LONGEST: Final = 65536
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_PYTHON: Final = re.compile(r"python[0-9.]*$")
_HARMLESS: Final = frozenset({"set", "echo", "true", ":", "ulimit"})
"""Commands that may lose their arguments: what follows runs as written."""
_TAKES_TEXT: Final = re.compile(r"-[a-zA-Z]*c[a-zA-Z]*$")
_STARTS: Final = re.compile(r"\bray\s+start\b")
_WRAPPERS: Final = frozenset({"nohup", "sudo", "env", "time", "stdbuf", "tini", "dumb-init", "--"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=|-")
_ENDLESS: Final = re.compile(
    r"""
    sleep\s+inf | tail\s+(?:.*\s)?(?:-[a-zA-Z]*[fF]|--follow) | sshd\s+.*-D
    | (?:uvicorn|gunicorn|hypercorn|tensorboard|tritonserver|code-server)\b(?!.*--version)
    | (?:text-generation-launcher|trtllm-serve|jupyter-lab|jupyter-notebook)\b(?!.*--version)
    | jupyter\s+(?:lab|notebook|server) | (?:vllm|ollama|lmdeploy)\s+serve | streamlit\s+run
    | mlflow\s+(?:server|ui) | serve\s+run(?!.*--non-blocking) | redis-server(?!.*--daemonize)
    | python[0-9.]*\s+(?:-[a-ln-zA-Z]+\s+)*-m\s+(?:vllm\.entrypoints\.(?:openai\.)?api_server
      |sglang\.launch_server|http\.server|uvicorn|gunicorn|jupyter|notebook|tensorboard)
    | (?:while|until)\s+(?:true|:|false|\[\s*1\s*\]|\[\[\s*1\s*\]\])\s*$
    | exec\s+[^<>&0-9]
    """,
    re.VERBOSE,
)
_BREAK: Final = re.compile(r"\bbreak\b")
_DONE: Final = re.compile(r"\bdone\b[^\n;]*")
_BACKGROUND: Final = re.compile(r"&(?!&)")


def ray_command_nested_shell(cluster: ClusterSpec) -> Iterator[Fault]:
    """A shell or Python with a text as its program, before `ray start`.

    KubeRay joins `command` and `args` of Ray's container with blanks and puts them, without quotes,
    before `ray start`, in a shell of its own. Of `[sh, -c, "pip install x && echo done"]` the inner
    shell runs `pip` without arguments, so that nothing is installed, and Ray starts. The text alone
    is right, since KubeRay has a shell; so is `ray.io/overwrite-container-cmd` with
    `$KUBERAY_GEN_RAY_START_CMD` in the text.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`BuildPod`, `convertCmdToString`)
    """
    for group in cluster.every_group:
        program = _read_program(_words(cluster, group))
        if program is not None and (first := program.lost_after):
            problem = f"{program.interpreter} -c runs only {shorten(first)!r}"
            message = f"{problem}: KubeRay drops the quotes; {program.advice}"
            yield Fault(program.field, message)


def ray_command_never_ends(cluster: ClusterSpec) -> Iterator[Fault]:
    """A server or an endless command before `ray start`.

    KubeRay puts `command` and `args` of Ray's container before `ray start`, which therefore never
    runs: the head has no GCS, and workers stay in Init. Run the command in parentheses with `&`, in
    a `postStart` hook, in a container of its own, or by Ray.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`BuildPod`)
    """
    for group in cluster.every_group:
        script = _join_words(cluster, group)
        ends = _ends_loops(script)
        for command in _foreground(script) if script else ():
            match = _ENDLESS.match(_bare(command))
            loop = command.startswith(("while", "until"))
            if match and not (loop and ends):
                problem = (
                    f"{shorten(' '.join(command.split()))!r} does not end, so Ray never starts"
                )
                yield Fault(_field(group), f"{problem}: use another container, or (... &)")
                break


def ray_command_syntax(cluster: ClusterSpec) -> Iterator[Fault]:
    """A text before `ray start` that is not a complete command of a shell.

    KubeRay continues the text with `&& ulimit ...; ray start ...`. After an operator or a line end
    this is a syntax error of bash, so the container restarts repeatedly; a comment hides it. A YAML
    block with `|` ends with a line end, one with `|-` does not.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`BuildPod`)
    """
    for group in cluster.every_group:
        entries = _words(cluster, group)
        if entries and (problem := _incomplete(" ".join(word for _, word in entries))):
            last_field, _ = entries[-1]
            yield Fault(last_field, problem)


class _Program(Struct, frozen=True):
    """The program that an interpreter receives as a text, and the list that contains it."""

    field: Field
    interpreter: str
    text: str

    @property
    def lost_after(self) -> str:
        """The first word if the interpreter loses words that it needs, else an empty string."""
        program_text = self.text.strip()
        if program_text[:1] in ("'", '"'):
            return ""
        if self.interpreter not in _SHELLS:
            first, *rest = program_text.split() or [""]
            return first if rest else ""
        end = next(
            (mark.start for mark in read_marks(program_text) if mark.kind == "operator"),
            len(program_text),
        )
        first, *rest = program_text[:end].split() or [""]
        return first if rest and first not in _HARMLESS else ""

    @property
    def advice(self) -> str:
        if self.interpreter in _SHELLS:
            return f"remove {self.interpreter} -c"
        return "put the program in a file"


def _read_program(words: list[tuple[Field, str]]) -> _Program | None:
    """Return the program of the first interpreter that receives one as a text."""
    for index, (_, word) in enumerate(words):
        interpreter = _interpreter(word)
        takes_text = False
        for field, argument in words[index + 1 :] if interpreter else ():
            if argument[:1] != "-":
                if takes_text:
                    return _Program(field, interpreter, argument)
                break
            takes_text |= bool(_TAKES_TEXT.match(argument))
    return None


def _interpreter(word: str) -> str:
    """Return the name of a shell or of Python; empty for any other word."""
    name = word.rpartition("/")[2]
    return name if name in _SHELLS or _PYTHON.match(name) else ""


def _words(cluster: ClusterSpec, group: GroupSpec) -> list[tuple[Field, str]]:
    """Return the words that KubeRay puts before `ray start`, with the list of each; none if the
    template has a start of its own.
    """
    container = group.first.field
    parts = [container / "command", container / "args"]
    entries = [(part, word.text) for part in parts for word in part.items() if word.text]
    if not entries or cluster.overwrites_start(group):
        return []
    script = " ".join(word for _, word in entries)
    # A command that starts Ray itself is meant to be complete: KubeRay then adds none.
    if len(script) > _LONGEST or names.RAY_START_COMMAND in script or _STARTS.search(script):
        return []
    split: list[tuple[Field, str]] = []
    for part, word in entries:
        first = word.partition(" ")[0]
        split += [
            (part, argument) for argument in (word.split() if _interpreter(first) else [word])
        ]
    return split


def _join_words(cluster: ClusterSpec, group: GroupSpec) -> str:
    return " ".join(word for _, word in _words(cluster, group))


def _field(group: GroupSpec) -> Field:
    command = group.first.field / "command"
    return command if command.size else group.first.field / "args"


def _incomplete(text: str) -> str:
    """Return the problem of a text that `&&` cannot continue."""
    end = len(text.rstrip())
    for mark in read_marks(text):
        last = mark.end >= end
        if mark.kind == "quote":
            return f"the quote {mark.text} is not closed: close it"
        if mark.kind == "comment" and last:
            return f"{shorten(mark.text)!r} hides ray start, which KubeRay appends: remove it"
        if mark.kind == "operator" and last:
            operator = "a line end" if mark.text == "\n" else mark.text
            return f"{operator} before the && that KubeRay appends is a syntax error: remove it"
    return ""


def _foreground(text: str) -> Iterator[str]:
    """Yield the simple commands outside of parentheses that the shell waits for."""
    waiting: list[str] = []
    depth = start = 0
    for mark in read_marks(text):
        if mark.kind == "parenthesis":
            depth += 1 if mark.text == "(" else -1
        elif mark.kind == "operator" and depth <= 0:
            waiting.append(text[start : mark.start])
            start = mark.end
            # A command in the background does not keep `ray start` from running.
            if mark.text == "&":
                waiting.clear()
            elif mark.text in (";", "\n"):
                yield from waiting
                waiting.clear()
    yield from (*waiting, text[start:])


def _ends_loops(script: str) -> bool:
    """Return whether a loop of a script ends, or runs in the background."""
    if _BREAK.search(script):
        return True
    return any(_BACKGROUND.search(done[0]) for done in _DONE.finditer(script))


def _bare(command: str) -> str:
    """Return a command without assignments and wrappers before it, and without its folder."""
    tokens = [
        *dropwhile(
            lambda token: token in _WRAPPERS or bool(_ASSIGNMENT.match(token)), command.split()
        )
    ]
    return " ".join([tokens[0].rpartition("/")[2], *tokens[1:]]) if tokens else ""
