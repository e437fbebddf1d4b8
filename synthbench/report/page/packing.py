"""Data that the scripts of a page read: JSON, compressed with gzip, in base64."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any


def packed(content: Any) -> str:
    """The content for `unpack` of `assets/packing.js`.

    Compressed, because the samples of a large run are several megabytes; the same content always
    gives the same text, which has no character that HTML reads.
    """
    text = json.dumps(content, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("ascii"), 9, mtime=0)).decode("ascii")
