"""What is compared: one module for each program that can reduce, with the part of a rank that is timed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Protocol

from ..case import Array, Case


@dataclass(frozen=True)
class Job:
    """What a rank is told when it starts.

    Attributes
    ----------
    folder
        Shared by the ranks and nobody else.
    rank, size
        This rank and how many there are; -1 where the launcher of the peer says it.
    interface
        The network interface to use; None for loopback.
    options
        What else the peer needs.
    """

    folder: Path
    rank: int
    size: int
    interface: Optional[str]
    options: dict[str, Any]


class Peer(Protocol):
    """One rank of a program that reduces. Its modes are what it can be asked to time, in turns."""

    rank: int
    size: int
    modes: tuple[str, ...]

    def prepare(self, case: Case, data: Array) -> None:
        """Get ready to reduce ``data``, which stays where it is until the next call."""

    def reduce(self, mode: str) -> None:
        """Reduce once; this is what is timed."""

    def result(self) -> Array:
        """Return what the last reduction gave."""

    def close(self) -> None:
        """Leave the other ranks, in order."""


def open_peer(module: str, job: Job) -> Peer:
    """Return this rank of the peer in ``module``, connected to the others."""
    peer: Peer = importlib.import_module(f"{__name__}.{module}").open_peer(job)
    return peer
