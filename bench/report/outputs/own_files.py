"""The style and the scripts that a page brings along, and the word by which its policy allows a script."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files


@cache
def static(name: str) -> str:
    """The text of a file of the page's own, without its indentation."""
    text = (files("bench.report") / "static" / name).read_text(encoding="utf-8")
    return re.sub(r"\n\s+", "\n", text).strip()


def digest_of(script: str) -> str:
    """The script's SHA-256 in base64, as a Content-Security-Policy names it."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
