"""What a run of ``omniccl bench allreduce`` found, beside the limit of each case."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from ..version import __version__
from .campaign import Measurement
from .case import Case, masks_of
from .limits import HostRates, Shares, limit_seconds

ENGINE = "omniccl"


@dataclass(frozen=True)
class Row:
    """One program on one case.

    Attributes
    ----------
    measurement
        What was measured.
    limit
        Seconds that the case takes at least, here.
    bound
        What sets the limit: ``link`` or ``host``.
    engine, plug_in
        How many times as long as the engine, and as the plug-in in the same Horovod, this took; None where there is
        nothing to compare with.
    """

    measurement: Measurement
    limit: float
    bound: str
    engine: Optional[float]
    plug_in: Optional[float]

    @property
    def efficiency(self) -> Optional[float]:
        """The limit over the median; None without a time."""
        return self.limit / self.measurement.median if self.measurement.seconds else None

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        times = self.measurement.seconds
        return {
            **self.measurement.to_json(),
            "median": statistics.median(times) if times else None,
            "limit": self.limit,
            "bound": self.bound,
            "efficiency": self.efficiency,
            "times_engine": self.engine,
            "times_plug_in": self.plug_in,
        }


@dataclass(frozen=True)
class Results:
    """A whole run.

    Attributes
    ----------
    settings
        How it was run, for the reader.
    link_rate
        Bytes per second of a plain TCP stream in each direction.
    host
        What the limits of the host are computed from.
    rows
        In the order of the cases.
    missing
        Programs that could not run, each with the reason.
    """

    settings: dict[str, Any]
    link_rate: float
    host: HostRates
    rows: Sequence[Row]
    missing: dict[str, str]

    @property
    def failures(self) -> list[str]:
        """What went wrong, a line each."""
        return list(self._failures())

    def _failures(self) -> Iterator[str]:
        told = set()
        for row in self.rows:
            one = row.measurement
            if one.failure and one.failure not in told:  # the same for all cases of a job
                told.add(one.failure)
                yield f"{one.mode}, {one.case.ranks} ranks: {one.failure}"
            if one.wrong:
                yield f"{one.mode}, {one.case}: {one.wrong} elements are wrong"

    def to_json(self) -> dict[str, Any]:
        """Return all of it, with the machine."""
        return {
            "hvd_omniccl": __version__,
            "machine": machine(),
            "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "settings": self.settings,
            "link_bytes_per_second": self.link_rate,
            "host_rates": asdict(self.host),
            "missing": self.missing,
            "rows": [row.to_json() for row in self.rows],
        }

    def write_json(self, path: Path) -> None:
        """Write all of it to a file, as a whole or not at all."""
        hidden = path.with_name(f".{path.name}.part")
        hidden.write_text(json.dumps(self.to_json(), indent=1) + "\n")
        hidden.replace(path)


def machine() -> dict[str, Any]:
    """Return what a reader has to know of this machine."""
    processor = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    return {
        "processor": processor or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def rows_of(measurements: Sequence[Measurement], seed: int, link_rate: float, host: HostRates) -> list[Row]:
    """Return the measurements with their limits, case by case."""
    medians = {(one.case, one.mode): one.median for one in measurements if one.seconds}
    cases: dict[Case, None] = {one.case: None for one in measurements}
    rows = []
    for case in cases:
        limit, bound = limit_seconds(case, Shares.of(masks_of(case, seed)), link_rate, host)
        for one in measurements:
            if one.case == case:
                engine = _ratio(medians, one, _comparable(one.mode, ENGINE))
                plug_in = _ratio(medians, one, _comparable(one.mode, f"omniccl in {_program(one.mode)}"))
                rows.append(Row(one, limit, bound, engine, plug_in))
    return rows


def _program(mode: str) -> str:
    return mode.partition(",")[0]


def _comparable(mode: str, ours: str) -> str:
    """Return ``ours`` on the terms of ``mode``."""
    _, comma, terms = mode.partition(",")
    return ours + comma + terms


def _ratio(medians: dict[tuple[Case, str], float], one: Measurement, ours: str) -> Optional[float]:
    if "omniccl" in one.mode or (one.case, ours) not in medians or not one.seconds:
        return None
    return one.median / medians[one.case, ours]
