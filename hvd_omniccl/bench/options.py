"""Types of options that several commands of the benchmark have."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, TypeVar

import click

from .units import size_from

_T = TypeVar("_T")

MAX_RANKS = 64
MAX_TENSORS = 100_000


def integer(least: int, most: int) -> Callable[[str], int]:
    """Return what parses an integer between two, both included."""

    def parse(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise ValueError(text)
        return value

    return parse


def share_from_percent(text: str) -> float:
    """Return a share from 0 to 1. Raises ``ValueError`` when the text is no percentage."""
    percent = float(text.rstrip("% "))
    if not 0.0 <= percent <= 100.0:
        raise ValueError(text)
    return percent / 100.0


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return what parses one of some words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return parse


def rate(_: click.Context, __: click.Parameter, value: Optional[str]) -> Optional[str]:
    """Check a rate of links: None for loopback, an empty text for unlimited."""
    if value is None or value == "unlimited":
        return None if value is None else ""
    if re.fullmatch(r"\d+(\.\d+)?[kmg]?bit", value) is None:
        raise click.BadParameter("a rate is such as 1gbit or 250mbit, or unlimited")
    return value


def file_to_write(_: click.Context, __: click.Parameter, value: Optional[Path]) -> Optional[Path]:
    """Refuse a file whose folder does not exist, before the work."""
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"there is no folder {value.parent}")
    return value


OUTPUT = click.Path(dir_okay=False, path_type=Path)


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
