"""Sizes, times and shares as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_from(text: str) -> int:
    """Return the bytes of a text such as ``100M``, ``4KiB`` or ``4096``. Raises ``ValueError`` when it is none."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?)(?:iB|B)?", text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(text)
    return int(match[1]) * _UNITS[match[2]]


def size_text(size: int) -> str:
    """Return ``size`` bytes as people write it, such as ``100 MiB``."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} B"


def seconds_text(seconds: float) -> str:
    """Return a time in the unit that fits it."""
    if seconds >= 1:
        return f"{seconds:.3f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def percent_text(share: float) -> str:
    """Return a share as per cent."""
    return f"{share * 100:.4g} %"
