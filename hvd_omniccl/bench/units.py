"""Sizes and lists of numbers as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Optional, TypeVar

import click

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

_T = TypeVar("_T")


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


class ListOf(click.ParamType):
    """A list with commas.

    Parameters
    ----------
    parse
        Turns one item's text into its value. Raises ``ValueError`` when it is none.
    name
        What an item is, for the help.
    allowed
        What is allowed, for the error message.
    """

    def __init__(self, parse: Callable[[str], _T], name: str, allowed: str) -> None:
        self.name = f"{name},..."
        self._parse = parse
        self._allowed = allowed

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> Sequence[Any]:
        """Return the values."""
        if not isinstance(value, str):
            return list(value)
        values: list[Any] = []
        for text in value.split(","):
            try:
                values.append(self._parse(text.strip()))
            except ValueError:
                self.fail(f"{text.strip()!r} is not allowed; allowed: {self._allowed}", param, ctx)
        return values


class SizeType(click.ParamType):
    """A size in bytes, such as ``100M``."""

    name = "BYTES"

    def convert(self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> int:
        """Return the bytes."""
        if isinstance(value, int):
            return value
        try:
            return size_from(value)
        except ValueError:
            return self.fail(f"{value!r} is not allowed; allowed: a size such as 4K, 100M or 1G", param, ctx)
