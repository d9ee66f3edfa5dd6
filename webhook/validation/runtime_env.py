"""Checks of Ray runtime environments in RayJobs and Serve configurations: keys and types of values.

https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
"""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import nearest, shorten
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED
from webhook.validation.field import Field
from webhook.validation.finding import Fault

KEYS: Final = frozenset({
    "working_dir", "py_modules", "py_executable", "excludes", "pip", "uv", "conda", "env_vars",
    "container", "image_uri", "java_jars", "config", "eager_install", "worker_process_setup_hook",
    "nsight", "rocprof_sys", "mpi",
    "_nsight", "_rocprof_sys", "_ray_release", "_ray_commit", "_inject_current_ray",
})  # fmt: skip
_INSTALLERS: Final = ("pip", "conda", "uv")


def runtime_env_keys(env: Field) -> Iterator[Fault]:
    """Yield faults for keys that Ray does not have."""
    for key in env.map:
        if key not in KEYS:
            yield unknown_key(env, key, KEYS)


def runtime_env_values(env: Field) -> Iterator[Fault]:
    """Yield faults for values that make Ray refuse a runtime environment."""
    variables = env / "env_vars"
    if variables.given and type(variables.value) is not dict:
        yield Fault(variables, "write a map of variables, such as A: '1'")
    for name, value in variables.map.items():
        if not isinstance(value, str):
            value_text = "null" if value is None else shorten(str(value))
            message = f"{value_text} is not a string: write it in quotes"
            yield Fault(variables.key(name), message)
    installers = [name for name in _INSTALLERS if env.map.get(name)]
    if len(installers) > 1:
        message = f"{' and '.join(installers)} cannot be used together: keep one"
        yield Fault(env / installers[1], message, FORBIDDEN)


def unknown_key(holder: Field, key: str, known: frozenset[str]) -> Fault:
    """Return the fault of a key that Ray does not have, with the most similar known key."""
    near = nearest(key, known)
    advice = f"write {near}" if near else "remove it, unless your Ray is newer than this rule"
    return Fault(
        holder / key,
        f"Ray has no {shorten(key)!r} here and ignores it: {advice}",
        NOT_SUPPORTED,
    )
