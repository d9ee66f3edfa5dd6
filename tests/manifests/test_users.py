"""The mounted certificate can be read by every user, such as those that OpenShift assigns."""

import asyncio
import ctypes
import os
import tempfile
from pathlib import Path

import pytest

from tests.harness.listener import authority, server_pair, write
from tests.manifests.render import installation, pod_of
from webhook.certs.certificate_watcher import CertificateFiles
from webhook.certs.context import SwappingContext

pytestmark = [
    pytest.mark.manifests,
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),  # of Python 3.12, with threads
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user"),
]

_PR_SET_DUMPABLE = 4


def loads_as(user: int, group: int, folder: Path) -> bool:
    """Return whether a process of a user without further groups serves the pair of a directory."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a program that was started so
        pair = asyncio.run(CertificateFiles(folder / "tls.crt", folder / "tls.key").fetch())
        SwappingContext().load(pair)
    except BaseException:  # noqa: BLE001 - the child must not return into pytest
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("user", [65532, 1_000_650_000])
def test_every_user_reads_the_files_of_the_secret_with_the_mode_of_the_volume(user: int) -> None:
    volumes = pod_of(installation("cert-manager"))["volumes"]
    (mode,) = (each["secret"]["defaultMode"] for each in volumes if each["name"] == "tls")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, server_pair(authority()))
        for file in folder.iterdir():
            file.chmod(mode)
        folder.chmod(0o755)
        assert loads_as(user, 0, folder)
        for file in folder.iterdir():
            file.chmod(0o440)
            os.chown(file, 0, 65532)
        assert not loads_as(user, 0, folder)
