"""The rule of the addresses of code in runtime environments."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import shorten
from webhook.api.release import Release
from webhook.api.review import NOT_SUPPORTED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_REMOTE: Final = ("https", "s3", "gs", "azure", "abfss", "file")
_ARCHIVES: Final = (".zip", ".whl")
_TARS: Final = (".tar.gz", ".tgz")
_TARS_SINCE: Final = (2, 55)
"""At the latest; releases up to 2.54 have neither tar archives nor `http`."""
_LOCAL_SINCE: Final = (2, 60)
"""The first release with `local://` and `.tar.xz`, and without `.whl` in `working_dir`."""
_UPLOADED: Final = "gcs"
_LOCAL: Final = "local"
_DEPTH: Final = 2
"""Slashes in the address of a repository: `github.com/OWNER/NAME`."""


def working_dir_no_archive(ray_object: RayObject) -> Iterator[Fault]:
    """A remote `working_dir`, or an entry of `py_modules`, that is not an archive, or has a
    protocol that Ray does not have.

    Ray refuses the runtime environment, so the job fails, or the application is never deployed.
    The address of a repository is not that of its archive, which for GitHub ends in
    `/archive/BRANCH.zip`. `local:///dir`, since Ray 2.60, is a folder of the image.

    https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#remote-uris
    """
    release = ray_object.cluster.release if ray_object.cluster is not None else None
    for env in _runtime_envs(ray_object):
        working_dir, modules = env / "working_dir", env / "py_modules"
        for field in (working_dir, *modules.items()):
            wheels = field is not working_dir or release is None or release < _LOCAL_SINCE
            if problem := _problem(field.text, release, wheels=wheels):
                yield Fault(field, problem, NOT_SUPPORTED)


def _runtime_envs(ray_object: RayObject) -> Iterator[Field]:
    if ray_object.job is not None:
        yield ray_object.job.environment
    if ray_object.service is not None:
        yield from ray_object.service.runtime_envs()


def _problem(text: str, release: Release | None, *, wheels: bool) -> str:
    """Return why Ray refuses an address; empty for a path, and for a text with variables."""
    protocol, separator, rest = text.partition("://")
    # A path in the image is legal, and a variable may be replaced before Ray reads the text.
    if not separator or "$" in text:
        return ""
    tarred = release is None or release >= _TARS_SINCE
    local = release is None or release >= _LOCAL_SINCE
    if protocol == _UPLOADED or (protocol == _LOCAL and local):
        return ""
    protocols = (*_REMOTE, *(["http"] * tarred))
    if protocol.lower() not in protocols:
        return f"Ray has no protocol {shorten(protocol)!r}: write one of {', '.join(protocols)}"
    tars = (*(_TARS * tarred), *([".tar.xz"] * local))
    archives = tuple(suffix for suffix in (*_ARCHIVES, *tars) if wheels or suffix != ".whl")
    path = rest.partition("#")[0].partition("?")[0]
    if path.endswith(archives):
        return ""
    repository = path.rstrip("/").removesuffix(".git")
    github = repository.startswith("github.com/") and repository.count("/") == _DEPTH
    advice = f"https://{repository}/archive/BRANCH.zip" if github else " or ".join(archives)
    return f"{shorten(text)!r} is not an archive: write {advice}"
