"""All settings: one table, read from the environment once.

``omniccl settings --format markdown`` prints the table, the source of ``docs/settings.md``.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

from .errors import SettingError

PREFIX = "OMNICCL_"

# kMaxBlockElements of native/protocol/limits.h.
MAX_BLOCK_ELEMENTS = 65536

_BYTE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Setting:
    """One row of the table.

    Attributes
    ----------
    name
        The environment variable.
    field
        The field of :class:`Config` that it sets.
    type
        What a value looks like, for people.
    default
        The value of the field when the variable is unset or empty.
    parse
        Turns the variable's text into the field's value. Raises ``ValueError`` when it is none.
    allowed
        The allowed values, for the error message.
    doc
        What it does.
    """

    name: str
    field: str
    type: str
    default: Any
    parse: Callable[[str], Any]
    allowed: str
    doc: str


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(text)
        return text

    return parse


def _switch(text: str) -> bool:
    values = {"on": True, "1": True, "off": False, "0": False}
    if text not in values:
        raise ValueError(text)
    return values[text]


def _integer(minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not minimum <= value <= maximum:
            raise ValueError(text)
        return value

    return parse


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.001 <= value <= 86400.0:  # also refuses NaN
        raise ValueError(text)
    return value


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if match is None:
        raise ValueError(text)
    value = int(match[1]) * _BYTE_UNITS[match[2]]
    if not 1 <= value <= 1 << 40:
        raise ValueError(text)
    return value


_PORT_OF_PLACE = re.compile(r"(?:[^\s:\[\],]+|\[[0-9A-Fa-f:.]+(?:%\w+)?\]):(\d{1,5})")


def _places(text: str) -> tuple[str, ...]:
    """Return the parts of a list of HOST:PORT."""
    places = tuple(part.strip() for part in text.split(","))
    for place in places:
        match = _PORT_OF_PLACE.fullmatch(place)
        if match is None or not 1 <= int(match[1]) <= 65535:
            raise ValueError(text)
    return places


def _port_range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    ports = int(first), int(last or first)
    if not 1 <= ports[0] <= ports[1] <= 65535:
        raise ValueError(text)
    return ports


def _word(text: str) -> str:
    if re.search(r"\s", text):
        raise ValueError(text)
    return text


def _path(text: str) -> Path:
    return Path(text).expanduser().absolute()


def _default_cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "hvd_omniccl"


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "OMNICCL_INTERCEPT",
        "intercept",
        "word",
        "tagged",
        _choice("tagged", "all", "off"),
        "tagged, all, off",
        "Which tensors the engine takes: those given compression=omniccl, all that it can reduce, or none. "
        "Equal on all ranks.",
    ),
    Setting(
        "OMNICCL_BLOCK_SIZE",
        "block_size",
        "elements",
        None,
        _integer(1, MAX_BLOCK_ELEMENTS),
        f"1 to {MAX_BLOCK_ELEMENTS}",
        "Elements per block, for all tensors. Unset: a row for a last dimension under 256 (at "
        "least 16 elements), else 256. Equal on all ranks.",
    ),
    Setting(
        "OMNICCL_SLOT_MEMORY",
        "slot_memory",
        "bytes",
        None,
        _bytes,
        "a number of bytes up to 1024G, with K, M or G behind it for powers of 1024",
        "Memory in which a rank sums its share; chunk and window follow from it. Unset: 512K for "
        "each rank. Equal on all ranks.",
    ),
    Setting(
        "OMNICCL_AGGREGATORS",
        "aggregators",
        "list",
        (),
        _places,
        "HOST:PORT,HOST:PORT,... (an IPv6 address in brackets)",
        "Daemons (omniccl-aggregator) that sum instead of the ranks; one that is named twice serves two "
        "shares. Needs OMNICCL_SECRET_FILE. Unset: each rank sums a share. Equal on all ranks.",
    ),
    Setting(
        "OMNICCL_SECRET_FILE",
        "secret_file",
        "path",
        None,
        _path,
        "a path",
        "The secret of the aggregators: a file on each host that only its owner can read, 16 bytes or more.",
    ),
    Setting(
        "OMNICCL_IFACE",
        "interface",
        "word",
        None,
        _word,
        "the name of a network interface",
        "Listen and connect on this interface only. Unset: on those that lead to the other ranks.",
    ),
    Setting(
        "OMNICCL_TRANSPORT",
        "transport",
        "word",
        "auto",
        _choice("auto", "tcp", "shm"),
        "auto, tcp, shm",
        "What carries the data. auto: shared memory between ranks, and to aggregators, of one host, TCP to others. "
        "tcp: TCP alone. shm: shared memory alone, an error where a peer is on another host.",
    ),
    Setting(
        "OMNICCL_CONGESTION_CONTROL",
        "congestion_control",
        "word",
        "auto",
        _word,
        "auto, system, or one of /proc/sys/net/ipv4/tcp_allowed_congestion_control",
        "How TCP finds its rate. system: by the kernel's default. auto: by that too, but between hosts by cubic, "
        "or reno where cubic is not allowed, in place of bbr.",
    ),
    Setting(
        "OMNICCL_PORT_RANGE",
        "port_range",
        "ports",
        (0, 0),
        _port_range,
        "FIRST-LAST, 1 to 65535",
        "Where a rank listens, while the ranks of a process set connect: one port a rank. Unset: any "
        "free port. With aggregators no rank listens.",
    ),
    Setting(
        "OMNICCL_TIMEOUT",
        "timeout",
        "seconds",
        30.0,
        _seconds,
        "0.001 to 86400",
        "No progress inside an operation for this long is a failure; a third of it a warning.",
    ),
    Setting(
        "OMNICCL_CONNECT_TIMEOUT",
        "connect_timeout",
        "seconds",
        10.0,
        _seconds,
        "0.001 to 86400",
        "How long the ranks may take to connect to each other.",
    ),
    Setting(
        "OMNICCL_CHECKSUM",
        "checksum",
        "switch",
        True,
        _switch,
        "on, off (or 1, 0)",
        "Whether the data carry a CRC32C too. Headers always do. Equal on all ranks.",
    ),
    Setting(
        "OMNICCL_HUGE_PAGES",
        "huge_pages",
        "switch",
        True,
        _switch,
        "on, off (or 1, 0)",
        "Whether to ask the system for huge pages where an output of 4 MiB or more is new: the page faults "
        "of a fresh 100 MiB output cost more than its reduction.",
    ),
    Setting(
        "OMNICCL_KERNELS",
        "kernels",
        "word",
        "auto",
        _choice("auto", "scalar", "avx2", "avx512", "neon"),
        "auto, scalar, avx2, avx512, neon",
        "The inner loops; all give the same bits. auto: the best that the processor has.",
    ),
    Setting(
        "OMNICCL_HOROVOD_SOURCE",
        "horovod_source",
        "path",
        None,
        _path,
        "a path",
        "Source of the installed Horovod version (folder or .tar.gz) for hosts that cannot download it.",
    ),
    Setting(
        "OMNICCL_CACHE_DIR",
        "cache_dir",
        "path",
        None,
        _path,
        "a path",
        "Where an adapter built at first use is kept. Unset: ~/.cache/hvd_omniccl.",
    ),
)


@dataclass(frozen=True)
class Config:
    """The settings of this process. See :data:`SETTINGS` for what they mean."""

    intercept: str
    block_size: Optional[int]
    slot_memory: Optional[int]
    aggregators: tuple[str, ...]
    secret_file: Optional[Path]
    transport: str
    congestion_control: str
    interface: Optional[str]
    port_range: tuple[int, int]
    timeout: float
    connect_timeout: float
    checksum: bool
    huge_pages: bool
    kernels: str
    horovod_source: Optional[Path]
    cache_dir: Path

    @classmethod
    def from_env(cls, environ: Optional[Mapping[str, str]] = None) -> Config:
        """Read all settings.

        Parameters
        ----------
        environ
            The environment; ``os.environ`` if None.

        Raises
        ------
        SettingError
            For a value that is not allowed and for an ``OMNICCL_*`` variable that does not exist.
        """
        environ = os.environ if environ is None else environ
        _refuse_unknown(environ)
        values = {setting.field: _value(setting, environ) for setting in SETTINGS}
        if values["cache_dir"] is None:
            values["cache_dir"] = _default_cache_dir()
        if values["aggregators"] and values["secret_file"] is None:
            raise SettingError("OMNICCL_AGGREGATORS needs OMNICCL_SECRET_FILE, the file with the aggregators' secret")
        return cls(**values)


def _value(setting: Setting, environ: Mapping[str, str]) -> Any:
    text = environ.get(setting.name, "").strip()
    if not text:
        return setting.default
    try:
        return setting.parse(text)
    except ValueError:
        raise SettingError(f"{setting.name} is {text!r}; allowed: {setting.allowed}") from None


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    known = [setting.name for setting in SETTINGS]
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in known:
            continue
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(known)}"
        raise SettingError(f"{name} is not a setting of hvd_omniccl; {hint}")


class ValueInForce(NamedTuple):
    """The value of one setting as text, and where it comes from: ``environment`` or ``default``."""

    name: str
    value: str
    source: str


def values_in_force(environ: Optional[Mapping[str, str]] = None) -> list[ValueInForce]:
    """Return all settings as they are in ``environ``, ``os.environ`` if None."""
    environ = os.environ if environ is None else environ
    values = []
    for setting in SETTINGS:
        text = environ.get(setting.name, "").strip()
        source = "environment" if text else "default"
        values.append(ValueInForce(setting.name, text or _default_text(setting), source))
    return values


def _default_text(setting: Setting) -> str:
    if isinstance(setting.default, bool):
        return "on" if setting.default else "off"
    return "unset" if setting.default in (None, (), (0, 0)) else str(setting.default)


def markdown_table() -> str:
    """Return the table of all settings as Markdown."""
    lines = ["| Variable | Value | Default | Meaning |", "|---|---|---|---|"]
    for setting in SETTINGS:
        default = _default_text(setting)
        lines.append(f"| `{setting.name}` | {setting.type}: {setting.allowed} | {default} | {setting.doc} |")
    return "\n".join(lines)
