"""Run the real server over HTTPS, send the examples as KubeRay and kube-apiserver would, and check
the answers: three facts, or with VERBOSE=1 every pod and check.
"""

import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from tests import ROOT
from tests.demo import page
from tests.harness.apiserver import ApiServer, object_review
from tests.harness.identities import Held, identity_of, violations
from tests.harness.server import serving
from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.cli.files import read_manifests
from webhook.cli.summary import table
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

Object = dict[str, Any]

EXAMPLES: Final = ROOT / "examples"
BROKEN: Final = Path(__file__).with_name("broken.yaml")
INDEXED: Final = "kuberay-indexed.yaml"
STORY: Final = "three-replicas"
COLUMNS: Final = 100
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
        self._checks = 0

    def run(self) -> int:
        manifests = read_manifests(sorted(EXAMPLES.glob("*.yaml")))
        for manifest in manifests:
            self._bring_up(Path(manifest.file), manifest.document, as_cluster(manifest))
        story = next(
            manifest for manifest in manifests if manifest.document["metadata"]["name"] == STORY
        )
        worker = list(expand(story.document, as_cluster(story)))[1]
        self._replace(worker)
        self._refuse()
        self._look(manifests)
        self._dry_run(worker)
        passed = f"all {self._checks} checks passed"
        verdict = f"{self._wrong} CHECKS FAILED" if self._wrong else passed
        say(f"\n{len(self._api.pods)} pods live, {self._api.calls} reviews over HTTPS: {verdict}.")
        if not verbose():
            say("VERBOSE=1 shows every pod and check.")
        return 1 if self._wrong else 0

    def _bring_up(self, path: Path, document: Object, cluster: RayCluster) -> None:
        indexed = path.name == INDEXED
        pods = list(expand(document, cluster, indexed=indexed))
        detail(
            f"\n== {path.name}: {len(pods)} "
            f"pods{', with the labels of KubeRay 1.6 and later' if indexed else ''}"
        )
        started = time.perf_counter()
        stored = []
        for number, pod in enumerate(pods, 1):
            stored.append(self._api.create(pod))
            progress(number, len(pods))
        took = (time.perf_counter() - started) * 1000
        workers = [
            pod
            for pod in stored
            if pod["metadata"]["labels"][names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER
        ]
        show(workers)
        hosts = {
            (cluster.metadata.name or "", group.group_name): group.num_of_hosts
            for group in cluster.groups
        }
        wrong = violations(stored, hosts)
        self._check(
            f"{len(workers)} workers have {len(workers)} different identities, replicas filled in "
            f"order ({took:.0f} ms)",
            wrong,
            is_fact=False,
        )

    def _replace(self, blank: Object) -> None:
        """Delete one host, then a replica, and create pods again as KubeRay without its gate."""
        say(f"\n{FACTS[0]}")
        lost = self._live(replica=2, host=1)
        for pod in lost:
            self._api.delete(pod)
        again = identities([self._api.create(blank)])
        self._check(
            "host 1 of replica 2 is deleted; the next pod gets exactly its identity",
            differ(again, identities(lost)),
        )

        lost = self._live(replica=1)
        for pod in lost:
            self._api.delete(pod)
        fresh = [self._api.create(blank) for _ in lost]
        show(fresh)
        wanted = [(1, host) for host in range(4)]
        self._check(
            "the middle replica is deleted; index 1 comes back with hosts 0 to 3",
            differ(places(fresh), wanted),
        )
        self._check(
            "and bears a new replica name",
            [] if names_of(fresh).isdisjoint(names_of(lost)) else ["the old name"],
        )

    def _dry_run(self, worker: Object) -> None:
        detail("\n== dry run")
        first, _ = self._api.admit(worker, dry_run=True)
        second, _ = self._api.admit(worker, dry_run=True)
        self._check(
            "two dry runs show the same next identity",
            differ(places([second]), places([first])),
            is_fact=False,
        )
        self._check(
            "and reserve nothing: the identity is still free",
            differ(places([self._api.create(worker)]), places([first])),
            is_fact=False,
        )

    def _refuse(self) -> None:
        say(f"\n{FACTS[1]}: kubectl apply -f {BROKEN.name}")
        document = read_manifests([BROKEN])[0].document
        response = self._api.review(object_review(document), "/validate")
        for line in response.get("status", {}).get("message", "").splitlines():
            say(f"   {line}")
        for warning in response.get("warnings", []):
            detail(f"   Warning: {warning}")
        self._check(
            "the broken RayCluster is refused, with every reason at once",
            ["it passed"] if response["allowed"] else [],
        )

    def _look(self, manifests: Sequence[Manifest]) -> None:
        """Leave what was played for the dashboard, with a host missing, and see that it shows."""
        say(f"\n{FACTS[2]}")
        (lost,) = self._live(replica=1, host=2)
        self._api.delete(lost)
        page.write(manifests, self._api.pods.values())
        found = page.looked_at()
        wrong = differ(len(found["clusters"]), len(manifests))
        self._check(f"the dashboard shows {len(manifests)} RayClusters", wrong)
        ours = next(each for each in found["clusters"] if each["name"] == STORY)
        missing = [each for each in ours["problems"] if each["id"] == "host-missing"]
        shown = [(each["replica"], each["hosts"]) for each in missing if each["replica"] == 1]
        self._check("and that host 2 of replica 1 is missing", differ(shown, [(1, [2])]))
        say(f"   to see it: {page.COMMAND}")

    def _live(self, *, replica: int, host: int | None = None) -> list[Object]:
        """Return the live pods of the story's cluster in one replica, or on one host of it."""
        found = []
        for pod in self._api.pods.values():
            identity = identity_of(pod)
            if (
                identity
                and identity.cluster == STORY
                and identity.replica == replica
                and host in {None, identity.host}
            ):
                found.append(pod)
        return found

    def _check(self, claim: str, wrong: Sequence[str], *, is_fact: bool = True) -> None:
        self._checks += 1
        write = say if is_fact or wrong else detail
        write(f"   {'ok  ' if not wrong else 'FAIL'} {claim}")
        for text in wrong:
            say(f"        {text}")
        self._wrong += bool(wrong)


def verbose() -> bool:
    return os.environ.get("VERBOSE", "0") not in ("", "0")


def say(text: str) -> None:
    """Print a text in lines of 100 columns, or as it is if verbose."""
    lines = text.split("\n")
    if not verbose():
        lines = [part for line in lines for part in _wrapped(line)]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, COLUMNS, subsequent_indent=indent) or [""]


def detail(text: str) -> None:
    if verbose():
        say(text)


def progress(number: int, total: int) -> None:
    """Show how far a long work is: on a terminal, in place."""
    if total > 20 and sys.stdout.isatty():
        sys.stdout.write(
            f"\r   pod {number} of {total}" + ("\r" + " " * 24 + "\r" if number == total else "")
        )
        sys.stdout.flush()


def show(pods: list[Object]) -> None:
    """Print what each worker got; of many, the first and the last."""
    for line in table(pods):
        detail(f"   {line}")


def identities(pods: Iterable[Object]) -> list[Held | None]:
    return [identity_of(pod) for pod in pods]


def places(pods: Iterable[Object]) -> list[tuple[int, int]]:
    return [
        (identity.replica, identity.host) for identity in identities(pods) if identity is not None
    ]


def names_of(pods: Iterable[Object]) -> set[str]:
    return {identity.name for identity in identities(pods) if identity is not None}


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
