"""Access by a kubeconfig, and its contexts.

Only this module imports the `kubernetes` package, which takes 11 MiB: for exec plugins, the refresh
of their credentials, and all other formats of a kubeconfig.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, list_kube_config_contexts, load_kube_config

from webhook.kubeclient.access import Access, Load
from webhook.kubeclient.errors import ConfigurationError

_package_log: Final = logging.getLogger(load_kube_config.__module__)


def kubeconfig(path: str, context: str | None = None) -> Load:
    """Return the access of a kubeconfig file; `path` may be a list of files, as in KUBECONFIG."""

    async def load() -> Access:
        configuration = Configuration()
        with _value_errors(), _reporting_plugins():
            # A refreshed token must not be written into the user's file.
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
        authorization=authorization,
        files=tuple(path for path in paths if path),
        tls_name=configuration.tls_server_name or "",
        proxy=configuration.proxy or "",
    )


@contextmanager
def _value_errors() -> Iterator[None]:
    """Raise ValueError for the package's exceptions for invalid values."""
    try:
        yield
    except (ConfigException, TypeError, AttributeError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


@contextmanager
def _reporting_plugins() -> Iterator[None]:
    """Raise ConfigException if an exec plugin fails, which the package only logs."""
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


def _format_problem(error: Exception) -> str:
    """Return why the package cannot read a kubeconfig."""
    match error:
        case TypeError():
            return "it is not a map of YAML"
        case UnicodeDecodeError():
            return "it is not a text file in UTF-8"
        case OSError():
            return str(error.strerror or error)
        case _:
            return str(error).removeprefix("Invalid kube-config file. ")


def namespace_in(path: str, context: str | None) -> str:
    """Return the namespace of a context, of the current one if none is given; empty if it has none.
    Raises ConfigurationError.
    """
    try:
        contexts, current = list_kube_config_contexts(path)  # type: ignore[no-untyped-call] # no annotations there
        by_name = {named_context["name"]: named_context for named_context in contexts}
        chosen = by_name.get(context) if context else current
        namespace = chosen["context"].get("namespace") if chosen is not None else ""
    # The package does not validate the types, or wrap errors of its YAML parser
    except Exception as error:
        msg = (
            f"{path} cannot be read as a kubeconfig: {_format_problem(error)}; name another with "
            "--kubeconfig or KUBECONFIG"
        )
        raise ConfigurationError(msg) from error
    if chosen is None:
        msg = f"{path} has no context {context!r}: it has {', '.join(by_name) or 'none'}"
        raise ConfigurationError(msg)
    return str(namespace or "")
