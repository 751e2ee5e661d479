"""Metadata of the wheel: the project's addresses, and a README whose links are whole."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# The repository's address, and the only line that has it.
ADDRESS = "https://github.com/OWNER/REPO"
_PAGES = {"Documentation": "docs", "Changelog": "CHANGELOG.md", "Security": "SECURITY.md"}
_LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!https?://|#)(?P<path>[^)\s]+)\)")


def readme(text: str, tag: str) -> str:
    """The README for an index page, which shows no file beside it."""

    def whole(link: re.Match[str]) -> str:
        view = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({ADDRESS}/{view}/{tag}/{link['path']})"

    return _LINK.sub(whole, text)


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        version = re.search(
            r'__version__ = "(.+)"', (root / "ascend_doctor/__init__.py").read_text("utf-8")
        )
        tag = f"v{version.group(1) if version else 'main'}"
        text = readme((root / "README.md").read_text("utf-8"), tag)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        pages = {name: f"{ADDRESS}/blob/{tag}/{path}" for name, path in _PAGES.items()}
        metadata["urls"] = {"Source": ADDRESS, **pages, "Issues": f"{ADDRESS}/issues"}
