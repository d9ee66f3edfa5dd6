"""What the service accounts asked an API server, as that server's audit log tells."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.installation import CONTROLLER, NAMESPACE, WEBHOOK, Right


class AuditLog:
    """The log of one API server, which takes `flags`. `folder` holds the policy and the log."""

    def __init__(self, folder: Path) -> None:
        policy, self._log = folder / "policy.json", folder / "audit.log"
        rules = [
            {"level": "Metadata", "users": [*map(_user, (WEBHOOK, CONTROLLER))], "omitStages": ["RequestReceived"]},
            {"level": "None"},
        ]
        policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._log}", "--audit-log-mode=blocking"]

    def requests(self, account: str = WEBHOOK) -> "list[Asked]":
        """The requests of an account that were answered, but for discovery."""
        return [asked for asked in self._all(account) if not asked.discovers]

    def discovery(self, account: str = WEBHOOK) -> "list[Asked]":
        """Its questions about what is served, which everybody may ask who is authenticated."""
        return [asked for asked in self._all(account) if asked.discovers]

    def used(self, account: str = WEBHOOK) -> set[Right]:
        """The rights that its requests needed."""
        return {asked.right for asked in self.requests(account)}

    def _all(self, account: str) -> "list[Asked]":
        entries = [json.loads(line) for line in self._log.read_text().splitlines()]
        return [_asked(entry) for entry in entries if entry["user"]["username"] == _user(account)]


class Asked(NamedTuple):
    """A request: its answer, and the right that it needed; one that is for no resource needs its path."""

    code: int
    right: Right

    @property
    def discovers(self) -> bool:
        """Whether it asked what the API server serves."""
        _, resource, verb = self.right
        return verb == "get" and resource.startswith("/apis")


def _user(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def _asked(entry: dict[str, Any]) -> Asked:
    reference, code = entry.get("objectRef"), entry["responseStatus"]["code"]
    if reference is None:
        return Asked(code, ("", entry["requestURI"], entry["verb"]))
    resource = "/".join(part for part in (reference["resource"], reference.get("subresource")) if part)
    return Asked(code, (reference.get("apiGroup", ""), resource, entry["verb"]))
