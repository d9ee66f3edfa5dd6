"""Access by a kubeconfig, and its contexts.

Only this module imports the `kubernetes` package, which takes 11 MiB: for exec plugins, the refresh
of their credentials, and all other formats of a kubeconfig.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, list_kube_config_contexts, load_kube_config

from webhook.kubeclient.access import Access, Load

_package_log: Final = logging.getLogger(load_kube_config.__module__)


def kubeconfig(path: str, context: str | None = None) -> Load:
    """Return the access of a kubeconfig file; `path` may be a list of files, as in KUBECONFIG."""

    async def load() -> Access:
        configuration = Configuration()
        with _value_errors(), _reporting_plugins():
            await load_kube_config(
                path, context=context, client_configuration=configuration, persist_config=False
            )  # type: ignore[no-untyped-call] # no annotations there
        return access_of(configuration)

    return load


def access_of(configuration: Configuration) -> Access:
    """Return the access of a configuration of the package."""

    async def authorization() -> str:
        with _value_errors():
            token = (await configuration.auth_settings()).get("BearerToken")
        value = token["value"] if token is not None else None
        return value.strip() if value else ""  # the file may end with a newline

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
    """Raise ValueError instead of the package's exceptions for invalid values, which it does not
    validate.
    """
    try:
        yield
    except (ConfigException, TypeError, AttributeError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextmanager
def _reporting_plugins() -> Iterator[None]:
    """Raise ConfigException if an exec plugin fails: the package only logs the error, and continues
    without credentials.
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


def contexts_of(path: str) -> tuple[list[Any], Any]:
    """Return the contexts of a kubeconfig, and the current one. Raises the package's exceptions."""
    found: tuple[list[Any], Any] = list_kube_config_contexts(path)  # type: ignore[no-untyped-call] # no annotations there
    return found
