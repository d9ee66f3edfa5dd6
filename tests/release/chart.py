"""Push the chart of a release: `python -m tests.release.chart FOLDER REGISTRY [FLAG...]`.

Its reference with the digest that Helm prints becomes a file of the release, so that its checksum
covers it.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.e2e import build

_PUSHED = re.compile(r"^Pushed: (\S+)\nDigest: (sha256:[0-9a-f]{64})$", re.MULTILINE)


def push_chart(folder: Path, registry: str, *flags: str) -> None:
    (chart,) = folder.glob("ray-webhook-[0-9]*.tgz")
    command = [
        str(build.binary(build.HELM)), "push", *flags, str(chart), f"oci://{registry}/charts",
    ]  # fmt: skip
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    done.check_returncode()
    ((name, digest),) = _PUSHED.findall(done.stdout)
    (folder / "chart.txt").write_text(f"{name}@{digest}\n")


if __name__ == "__main__":
    push_chart(Path(sys.argv[1]), *sys.argv[2:])
