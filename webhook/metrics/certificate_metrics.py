"""Log messages and metrics of certificates."""

from collections.abc import Callable
from datetime import UTC, datetime

from webhook.logging.log import Log
from webhook.metrics.collector import Metrics
from webhook.metrics.table import CERTIFICATE_EXPIRY, CERTIFICATE_LOADS, CERTIFICATE_REJECTED


class CertificateObserver:
    """Logs and counts certificates. `expires` is in seconds since 1970, 0 without a certificate."""

    def __init__(self, log: Log, metrics: Metrics, expires: Callable[[], float]) -> None:
        self._log = log
        self._expires = expires
        self._rejected = False
        self._loads = 0
        metrics.expose(CERTIFICATE_EXPIRY, expires)
        metrics.expose(CERTIFICATE_LOADS, lambda: self._loads)
        metrics.expose(CERTIFICATE_REJECTED, lambda: self._rejected)

    def expiry(self) -> str:
        """Return a sentence with the expiry of the served certificate."""
        return f"expires {datetime.fromtimestamp(self._expires(), UTC):%Y-%m-%dT%H:%M:%SZ}"

    def loaded(self, expires: datetime) -> None:
        self._loads += 1
        self._rejected = False
        self._log.event(
            "info",
            "certificate",
            f"serving with a certificate that expires on {expires:%Y-%m-%d %H:%M} UTC",
        )

    def rejected(self, reason: str) -> None:
        self._rejected = True
        self._log.event("error", "certificate", reason)

    def recovered(self) -> None:
        """Record that the source returns the served pair again."""
        self._rejected = False
        self._log.event("info", "certificate", "the source has the served certificate again")
