"""Run the real server over HTTPS, send the examples as KubeRay and kube-apiserver would, and check
the answers.
"""

import json
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx

from tests import ROOT
from tests.harness.apiserver import ApiServer, Object, object_review
from tests.harness.identities import Held, identity_of, violations
from tests.harness.server import serving, serving_dashboard
from webhook.cli.files import read_manifests
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

EXAMPLES: Final = ROOT / "examples"
BROKEN: Final = Path(__file__).with_name("broken.yaml")
INDEXED: Final = "kuberay-indexed.yaml"
STORY: Final = "three-replicas"
COLUMNS: Final = 100
FOLDER: Final = ROOT / ".cache" / "demo"
COMMAND: Final = ".venv/bin/ray-webhook dashboard --state .cache/demo"
FACTS: Final = (
    "1. A replacement gets the identity of the pod that it replaces",
    "2. A broken object is refused, with all reasons",
    "3. A missing host is found",
)


class Demo:
    """One run: what was found wrong is counted, and decides the exit code."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._wrong = 0

    def run(self) -> int:
        manifests = read_manifests([EXAMPLES])
        for manifest in manifests:
            self._bring_up(manifest)
        story = next(each for each in manifests if each.metadata["name"] == STORY)
        self._replace(list(expand(story.document, as_cluster(story)))[1])
        self._refuse()
        self._look(manifests)
        verdict = f"{self._wrong} CHECKS FAILED" if self._wrong else "all checks passed"
        say(f"\n{len(self._api.pods)} pods live, {self._api.calls} reviews over HTTPS: {verdict}.")
        return 1 if self._wrong else 0

    def _bring_up(self, manifest: Manifest) -> None:
        cluster = as_cluster(manifest)
        indexed = Path(manifest.file).name == INDEXED
        pods = expand(manifest.document, cluster, indexed=indexed)
        name = cluster.metadata.name or ""
        hosts = {(name, group.group_name): group.num_of_hosts for group in cluster.groups}
        if wrong := violations(map(self._api.create, pods), hosts):
            self._check(f"the workers of {name} have different identities", wrong)

    def _replace(self, blank: Object) -> None:
        """Delete one host, then a replica, and create pods again as KubeRay without its gate."""
        say(f"\n{FACTS[0]}")
        lost = self._delete(replica=2, host=1)
        self._check(
            "host 1 of replica 2 is deleted; the next pod gets exactly its identity",
            differ(identities([self._api.create(blank)]), lost),
        )
        lost = self._delete(replica=1)
        fresh = identities(self._api.create(blank) for _ in lost)
        self._check(
            "the middle replica is deleted; index 1 comes back with hosts 0 to 3",
            differ([(each.replica, each.host) for each in fresh], [(1, host) for host in range(4)]),
        )
        old = {each.name for each in lost} & {each.name for each in fresh}
        self._check("and bears a new replica name", [f"it is {name} again" for name in old])

    def _refuse(self) -> None:
        say(f"\n{FACTS[1]}: kubectl apply -f {BROKEN.name}")
        document = read_manifests([BROKEN])[0].document
        response = self._api.review(object_review(document), "/validate")
        for line in response.get("status", {}).get("message", "").splitlines():
            say(f"   {line}")
        self._check(
            "the broken RayCluster is refused, with every reason at once",
            ["it passed"] if response["allowed"] else [],
        )

    def _look(self, manifests: Sequence[Manifest]) -> None:
        """Leave what was played for the dashboard, with a host missing, and see that it shows."""
        say(f"\n{FACTS[2]}")
        self._delete(replica=1, host=2)
        write_page(manifests, self._api.pods.values())
        found = open_page()
        wrong = differ(len(found["clusters"]), len(manifests))
        self._check(f"the dashboard shows {len(manifests)} RayClusters", wrong)
        ours = next(each for each in found["clusters"] if each["name"] == STORY)
        missing = [each for each in ours["problems"] if each["id"] == "host-missing"]
        shown = [(each["replica"], each["hosts"]) for each in missing if each["replica"] == 1]
        self._check("and that host 2 of replica 1 is missing", differ(shown, [(1, [2])]))
        say(f"   to see it: {COMMAND}")

    def _delete(self, *, replica: int, host: int | None = None) -> list[Held]:
        """Delete the story's pods in a replica, or on a host of it; return their identities."""
        lost = []
        for pod in [*self._api.pods.values()]:
            identity = identity_of(pod)
            if (
                identity
                and (identity.cluster, identity.replica) == (STORY, replica)
                and host in {None, identity.host}
            ):
                self._api.delete(pod)
                lost.append(identity)
        return lost

    def _check(self, claim: str, wrong: Sequence[str]) -> None:
        say(f"   {'ok  ' if not wrong else 'FAIL'} {claim}")
        for text in wrong:
            say(f"        {text}")
        self._wrong += bool(wrong)


def write_page(manifests: Sequence[Manifest], pods: Iterable[Object]) -> None:
    """Write the state that was played, as if all of its pods had run for an hour."""
    since = f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    clusters = []
    for manifest in manifests:
        meta = as_cluster(manifest).metadata
        given = {"namespace": meta.namespace, "uid": meta.uid, "creationTimestamp": since}
        document = manifest.document
        clusters.append({**document, "metadata": {**document["metadata"], **given}})
    items = [*clusters, *(_running(pod, since) for pod in pods)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "state.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )


def open_page() -> Object:
    """Serve the page on a free port, let a browser in, and return what it shows, as JSON."""
    with (
        serving_dashboard("--state", str(FOLDER)) as address,
        httpx.Client(follow_redirects=True, timeout=30) as client,
    ):
        page = client.get(address)
        assert page.status_code == httpx.codes.OK, page.text
        assert 'id="clusters"' in page.text
        found: Object = client.get(str(page.url.join("/api/v1/status"))).json()
        return found


def _running(pod: Object, since: str) -> Object:
    meta = {"namespace": "default", **pod["metadata"], "creationTimestamp": since}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    spec = {**pod["spec"], "nodeName": f"node-of-{meta['name']}"}
    return {**pod, "metadata": meta, "spec": spec, "status": status}


def say(text: str) -> None:
    """Print a text in lines of 100 columns."""
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print(textwrap.fill(line, COLUMNS, subsequent_indent=indent), flush=True)


def identities(pods: Iterable[Object]) -> list[Held]:
    return [identity for pod in pods if (identity := identity_of(pod))]


def differ(found: object, wanted: object) -> list[str]:
    """Return a line that says how two things differ, or nothing."""
    return [] if found == wanted else [f"found {found}, wanted {wanted}"]


def main() -> int:
    say(
        "ray-webhook: a server on loopback HTTPS, the RayClusters of examples/, and a "
        "kube-apiserver played against it"
    )
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with (
            serving(directory, [EXAMPLES]) as server,
            ApiServer(server.url, server.authority) as api,
        ):
            say(f"serving {server.url}/mutate")
            return Demo(api).run()


if __name__ == "__main__":
    sys.exit(main())
