"""The user's kubeconfig, as kubectl finds it, the access that it gives, and its namespace.

This module alone imports the `kubernetes` package, which takes 11 MiB: for exec plugins, the
refresh of their credentials, and all other forms of a kubeconfig.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, list_kube_config_contexts, load_kube_config

from webhook.follow.access import NAMESPACE_FILE, Access, Load, in_cluster
from webhook.follow.errors import ConfigurationError
from webhook.manifest.errors import ManifestError
from webhook.manifest.reader import read

_DEFAULT: Final = "default"
_package_log: Final = logging.getLogger(load_kube_config.__module__)


def locate(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the kubeconfig: the one given, else KUBECONFIG, else that in the home
    directory.

    Nothing is returned for a pod that has none: it has its service account.
    """
    found = path or environ.get("KUBECONFIG", "")
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if found or home.exists() or "KUBERNETES_SERVICE_HOST" not in environ:
        return found or str(home)
    return ""


def kubeconfig(path: str, context: str | None = None) -> Load:
    """Return the access in a kubeconfig file; `path` may be several, as in KUBECONFIG."""

    async def load() -> Access:
        configuration = Configuration()
        with _value_errors(), _reporting_plugins():
            await load_kube_config(
                path, context=context, client_configuration=configuration, persist_config=False
            )  # type: ignore[no-untyped-call] # no annotations there
        return access_of(configuration)

    return load


def access_of(configuration: Configuration) -> Access:
    """Return the access that a configuration of the package gives."""

    async def authorization() -> str:
        with _value_errors():
            token = (await configuration.auth_settings()).get("BearerToken")
        value = token["value"] if token is not None else None
        return value.strip() if value else ""  # its file may end with a line end

    paths = configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file
    return Access(
        configuration.host,
        lambda: RESTClientObject(configuration).ssl_context,
        authorization,
        tuple(path for path in paths if path),
        configuration.tls_server_name or "",
        configuration.proxy or "",
    )


@contextmanager
def _value_errors() -> Iterator[None]:
    """Raise ValueError in place of the package's exceptions: it uses values without checking."""
    try:
        yield
    except (ConfigException, TypeError, AttributeError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextmanager
def _reporting_plugins() -> Iterator[None]:
    """Raise ConfigException when an exec plugin fails: the package logs that, and goes on without
    credentials.
    """
    failures: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            failures.append(record.getMessage())
        return record.levelno < logging.ERROR

    _package_log.addFilter(note)
    try:
        yield
    finally:
        _package_log.removeFilter(note)
    if failures:
        msg = f"the exec plugin of the kubeconfig failed: {'; '.join(failures)}"
        raise ConfigException(msg)


def load_of(path: str, context: str | None) -> Load:
    """Return what fills in a configuration from a located kubeconfig."""
    return kubeconfig(path, context) if path else in_cluster()


def namespace_of(path: str, context: str | None) -> str:
    """Return the namespace of a context of a located kubeconfig. Raises ConfigurationError."""
    if path and not any(Path(part).exists() for part in path.split(os.pathsep)):
        msg = f"there is no kubeconfig {path}; name another with --kubeconfig or KUBECONFIG"
        raise ConfigurationError(msg)
    if not path:
        return (
            NAMESPACE_FILE.read_text(encoding="utf-8").strip()
            if NAMESPACE_FILE.exists()
            else _DEFAULT
        )
    try:
        contexts, current = list_kube_config_contexts(path)  # type: ignore[no-untyped-call] # no annotations there
        by_name = {each["name"]: each for each in contexts}
        chosen = by_name.get(context) if context else current
        namespace = chosen["context"].get("namespace") if chosen is not None else ""
    except Exception as error:  # the client lets those of its YAML reader through
        _require_maps(path)
        raise _unusable(path, str(error)) from error
    if chosen is None:
        msg = f"{path} has no context {context!r}: it has {', '.join(by_name) or 'none'}"
        raise ConfigurationError(msg)
    return str(namespace or _DEFAULT)


def _require_maps(path: str) -> None:
    """Raise ConfigurationError for a kubeconfig with a part that is no map in YAML.

    This is stricter than the client, which takes a key twice, and only says why it failed.
    """
    for part in path.split(os.pathsep):
        if not Path(part).exists():
            continue
        try:
            documents = [each.document for each in read(part, Path(part).read_bytes())]
        except ManifestError as error:
            where = f"{part}, line {error.line}" if error.line else part
            raise _unusable(where, error.problem) from error
        except OSError as error:
            raise _unusable(part, error.strerror or str(error)) from error
        if not documents or not isinstance(documents[0], dict):
            raise _unusable(part, "it is empty" if not documents else "it is no map")


def _unusable(path: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be read as a kubeconfig: {problem}; name another with --kubeconfig or "
        "KUBECONFIG"
    )
