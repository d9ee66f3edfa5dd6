"""Make the links of the README absolute in the metadata of the package, as PyPI needs them."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r"(!?)(\[[^]]*\])\((?![a-z]+:|#)")


class ReadmeHook(MetadataHookInterface):
    """Sets `readme`, with links to the tag of the version."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        url, tag = metadata["urls"]["Repository"], f"v{metadata['version']}"
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _LINK.sub(
                lambda link: f"{link[1]}{link[2]}({url}/{'raw' if link[1] else 'blob'}/{tag}/", text
            ),
        }
