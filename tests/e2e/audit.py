"""Requests of accounts, and annotations of webhooks, from the audit log of an API server."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.installation import CONTROLLER, NAMESPACE, WEBHOOK, Right
from tests.e2e.process import lines


class AuditLog:
    """The log of one API server, which takes `flags`. `folder` holds the policy and the log."""

    def __init__(self, folder: Path) -> None:
        policy, self._log = folder / "policy.json", folder / "audit.log"
        rules = [
            {"level": "Metadata", "users": [*map(_user, (WEBHOOK, CONTROLLER))]},
            {"level": "Metadata", "verbs": ["create"]},
            {"level": "None"},
        ]
        content = {"omitStages": ["RequestReceived"], "rules": rules}
        policy.write_text(
            json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **content})
        )
        self.flags = [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
        ]

    def requests(self, account: str = WEBHOOK) -> "list[Asked]":
        """The requests of an account that were answered, but for discovery."""
        return [asked for asked in self._all(account) if not asked.discovers]

    def discovery(self, account: str = WEBHOOK) -> "list[Asked]":
        """Its questions about what is served, which everybody may ask who is authenticated."""
        return [asked for asked in self._all(account) if asked.discovers]

    def used(self, account: str = WEBHOOK) -> set[Right]:
        return {asked.right for asked in self.requests(account)}

    def annotations(self, namespace: str, resource: str) -> list[dict[str, str]]:
        """Return the annotations of the creations of a resource in a namespace."""
        created = ("create", namespace, resource)
        return [
            entry.get("annotations", {})
            for entry in self._entries()
            if (reference := entry.get("objectRef"))
            if (entry["verb"], reference.get("namespace"), reference["resource"]) == created
        ]

    def _all(self, account: str) -> "list[Asked]":
        user = _user(account)
        asked = [_asked(entry) for entry in self._entries() if entry["user"]["username"] == user]
        return [each for each in asked if not each.given_up]

    def _entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in lines(self._log)]


class Asked(NamedTuple):
    """A request: its answer, and the right that it needed; one that is for no resource needs its
    path. `message` says what was wrong with it.
    """

    code: int
    right: Right
    message: str = ""

    @property
    def discovers(self) -> bool:
        """Whether it asked what the API server serves, or of which release it is."""
        _, resource, verb = self.right
        return verb == "get" and resource.startswith(("/apis", "/version"))

    @property
    def given_up(self) -> bool:
        """Whether the process that asked was killed before the answer: that counts as an error."""
        return "context canceled" in self.message


def _user(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def _asked(entry: dict[str, Any]) -> Asked:
    reference, status = entry.get("objectRef"), entry["responseStatus"]
    code, message = status["code"], status.get("message", "")
    if reference is None:
        return Asked(code, ("", entry["requestURI"], entry["verb"]), message)
    resource = "/".join(
        part for part in (reference["resource"], reference.get("subresource")) if part
    )
    return Asked(code, (reference.get("apiGroup", ""), resource, entry["verb"]), message)
