"""What the service account asked an API server, as that server's audit log tells."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.installation import ACCOUNT, Right


class AuditLog:
    """The log of one API server, which takes `flags`. `folder` holds the policy and the log."""

    def __init__(self, folder: Path) -> None:
        policy, self._log = folder / "policy.json", folder / "audit.log"
        rules = [{"level": "Metadata", "users": [ACCOUNT], "omitStages": ["RequestReceived"]}, {"level": "None"}]
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}", "--audit-log-mode=blocking"]

    def requests(self) -> "list[Asked]":
        """The requests of the account that were answered, but for discovery."""
        return [asked for asked in self._all() if not asked.discovers]

    def discovery(self) -> "list[Asked]":
        """Its questions about what is served, which everybody may ask who is authenticated."""
        return [asked for asked in self._all() if asked.discovers]

    def used(self) -> set[Right]:
        """The rights that its requests needed."""
        return {asked.right for asked in self.requests()}

    def _all(self) -> "list[Asked]":
        return [_asked(json.loads(line)) for line in self._log.read_text().splitlines()]


class Asked(NamedTuple):
    """A request: its answer, and the right that it needed; one that is for no resource needs its path."""

    code: int
    right: Right

    @property
    def discovers(self) -> bool:
        """Whether it asked what the API server serves."""
        _, resource, verb = self.right
        return verb == "get" and resource.startswith("/apis")


def _asked(entry: dict[str, Any]) -> Asked:
    reference, code = entry.get("objectRef"), entry["responseStatus"]["code"]
    if reference is None:
        return Asked(code, ("", entry["requestURI"], entry["verb"]))
    resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
    return Asked(code, (reference.get("apiGroup", ""), resource, entry["verb"]))
