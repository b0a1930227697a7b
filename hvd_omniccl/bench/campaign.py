"""Runs cases on programs, in turns, and gathers what their ranks measured."""

from __future__ import annotations

import json
import secrets
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from ..communicator import Session
from ..paths import AGGREGATOR
from .case import Case
from .launch import LaunchError, end_tree
from .network import Host, network_of
from .programs import Plan, Program
from .rank import Barrier

_TENSORS_AT_ONCE = 6  # arrays of the tensor's size that a rank holds at most
_TENSORFLOW_BYTES = 500 << 20
_START_SECONDS = 240.0
_SECRET = "secret"
# No program that works at all is slower than this.
_LEAST_BYTES_PER_SECOND = 10e6

# What a second column is measured with: huge pages for every large piece of memory that malloc gives.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


@dataclass(frozen=True)
class Settings:
    """What is run, and how often.

    Attributes
    ----------
    cases
        What is reduced.
    programs
        By what.
    rate
        Of the links between hosts that are made for it, such as ``1gbit``; ``""`` for as fast as the machine; None for
        loopback.
    rounds
        How often each program is started, in turns with the others.
    repetitions, warmups
        In each round, of each case.
    seed
        Of the data.
    equal_terms
        Whether each program runs a second time, with huge pages from malloc.
    slot_memory
        Of omniccl, in bytes; None for its default.
    checksum
        Whether omniccl checks its data too.
    """

    cases: Sequence[Case]
    programs: Sequence[Program]
    rate: Optional[str] = None
    rounds: int = 2
    repetitions: int = 5
    warmups: int = 2
    seed: int = 1
    equal_terms: bool = False
    slot_memory: Optional[int] = None
    checksum: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return what a reader of the results has to know."""
        return {
            "rate": self.rate,
            "rounds": self.rounds,
            "repetitions": self.repetitions,
            "warmups": self.warmups,
            "seed": self.seed,
            "slot_memory": self.slot_memory,
            "checksum": self.checksum,
        }


@dataclass
class Measurement:
    """What one program did with one case.

    Attributes
    ----------
    case, mode
        Which case, and the program's name with what it used.
    seconds
        From the first rank's begin to the last one's end, of each repetition.
    core_seconds
        Processor time of all ranks together, likewise.
    wrong
        Elements of any rank's result that were not the sum.
    failure
        Why there is nothing, or no more.
    aggregator_memory
        Bytes that the largest of the dedicated aggregators held at most, all cases of its job together.
    """

    case: Case
    mode: str
    seconds: list[float] = field(default_factory=list)
    core_seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    failure: Optional[str] = None
    aggregator_memory: int = 0

    @property
    def median(self) -> float:
        """Of the seconds."""
        return statistics.median(self.seconds)

    def to_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {
            "case": self.case.to_json(),
            "mode": self.mode,
            "seconds": self.seconds,
            "core_seconds": self.core_seconds,
            "wrong": self.wrong,
            "failure": self.failure,
            "aggregator_memory": self.aggregator_memory,
        }


def groups_of(cases: Sequence[Case]) -> list[list[Case]]:
    """Return the cases that one job of ranks can run one after the other."""
    groups: dict[tuple[int, int, str], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.ranks, case.aggregators, case.transport].append(case)
    return list(groups.values())


def needed_bytes(settings: Settings) -> int:
    """Return the memory that the largest job takes."""
    most = 0
    for case in settings.cases:
        for program in settings.programs:
            rank = _TENSORS_AT_ONCE * case.size + (_TENSORFLOW_BYTES if program.needs_tensorflow else 0)
            most = max(most, case.ranks * rank)
    return most


def kibibytes_of(path: Path, name: str) -> int:
    """Return an entry of one of the kernel's files of names and kibibytes."""
    for line in path.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"{path} has no {name}")


def available_bytes() -> int:
    """Return the memory that programs can get on this machine."""
    return kibibytes_of(Path("/proc/meminfo"), "MemAvailable") * 1024


class Campaign:
    """Runs the settings' programs on the settings' cases.

    Parameters
    ----------
    settings
        What to run.
    progress
        Called before each job with what is about to run.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._progress = progress
        self._measured: dict[tuple[Case, str], Measurement] = {}
        self._first_transport = settings.cases[0].transport

    @property
    def jobs(self) -> int:
        """How often ``progress`` is called."""
        return sum(1 for group in groups_of(self._settings.cases) for _ in self._turns(group))

    def run(self, hosts: Sequence[Host]) -> list[Measurement]:
        """Run all of it on ``hosts``, without any over loopback."""
        for group in groups_of(self._settings.cases):
            failed: set[str] = set()
            for program, environment in self._turns(group):
                label = program.name + (", huge pages" if environment else "")
                self._progress(f"{group[0].ranks} ranks, {label}")
                if label in failed:
                    continue
                try:
                    self._run_job(program, group, hosts, environment)
                except LaunchError as error:
                    failed.add(label)
                    self._note_failure(program, group, environment, str(error))
        return list(self._measured.values())

    def _turns(self, group: Sequence[Case]) -> Iterator[tuple[Program, dict[str, str]]]:
        environments: list[dict[str, str]] = [{}, HUGE_PAGES] if self._settings.equal_terms else [{}]
        for _ in range(self._settings.rounds):
            for program in self._settings.programs:
                if not program.ours and (group[0].aggregators or group[0].transport != self._first_transport):
                    continue
                for environment in environments:
                    yield program, environment

    def _of(self, case: Case, mode: str, environment: dict[str, str]) -> Measurement:
        mode += ", huge pages" if environment else ""
        return self._measured.setdefault((case, mode), Measurement(case, mode))

    def _note_failure(self, program: Program, group: Sequence[Case], environment: dict[str, str], why: str) -> None:
        for case in group:
            for mode in program.modes:
                self._of(case, mode, environment).failure = why

    def _run_job(
        self, program: Program, group: Sequence[Case], hosts: Sequence[Host], environment: dict[str, str]
    ) -> None:
        ranks, settings = group[0].ranks, self._settings
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="omniccl-bench-")))
            daemons = stack.enter_context(aggregators_for(group[0], hosts[ranks:], folder))
            options: dict[str, Any] = {
                "slot_memory": settings.slot_memory,
                "checksum": settings.checksum,
                "transport": group[0].transport,
            }
            if daemons:
                options["aggregators"] = [daemon.place for daemon in daemons]
                options["secret_file"] = str(folder / _SECRET)
            (folder / "session").write_bytes(Session.random().to_bytes())
            Barrier.make(folder / "barrier", ranks)
            plan = Plan(
                cases=[case.to_json() for case in group],
                ranks=ranks,
                warmups=settings.warmups,
                repetitions=settings.repetitions,
                seed=settings.seed,
                hosts=hosts[:ranks],
                folder=folder,
                seconds=self._deadline(program, group),
                options=options,
                environment=environment,
            )
            program.start(program, plan)
            memory = max((daemon.peak_memory() for daemon in daemons), default=0)
            self._gather(group, folder, environment, memory)

    def _deadline(self, program: Program, group: Sequence[Case]) -> float:
        turns = (self._settings.warmups + self._settings.repetitions) * len(program.modes)
        return _START_SECONDS + sum(turns * 2 * case.size * case.ranks / _LEAST_BYTES_PER_SECOND for case in group)

    def _gather(self, group: Sequence[Case], folder: Path, environment: dict[str, str], aggregator_memory: int) -> None:
        lines: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
        for rank in range(group[0].ranks):
            for text in (folder / f"times.{rank}").read_text().splitlines():
                line = json.loads(text)
                lines[line["case"], line["mode"]].append(line)
        for (number, mode), of_ranks in lines.items():
            measurement = self._of(group[number], mode, environment)
            measurement.wrong += sum(line["wrong"] for line in of_ranks)
            measurement.aggregator_memory = max(measurement.aggregator_memory, aggregator_memory)
            begins = zip(*(line["begin"] for line in of_ranks))
            ends = zip(*(line["end"] for line in of_ranks))
            measurement.seconds += [(max(end) - min(begin)) / 1e9 for begin, end in zip(begins, ends)]
            measurement.core_seconds += [sum(cpu) for cpu in zip(*(line["cpu"] for line in of_ranks))]


@dataclass(frozen=True)
class Daemon:
    """An aggregator that runs: where it listens, and its process."""

    place: str
    pid: int

    def peak_memory(self) -> int:
        """Return how many bytes it held at most."""
        return kibibytes_of(Path(f"/proc/{self.pid}/status"), "VmHWM") * 1024


@contextmanager
def aggregators_for(case: Case, hosts: Sequence[Host], folder: Path) -> Iterator[list[Daemon]]:
    """Run the case's daemons, with a secret that lies in ``folder``."""
    secret = folder / _SECRET
    secret.touch(0o600)
    secret.write_text(secrets.token_hex(32))
    with ExitStack() as stack:
        yield [
            stack.enter_context(_daemon(hosts[number] if hosts else None, secret, folder / f"daemon.{number}"))
            for number in range(case.aggregators)
        ]


@contextmanager
def _daemon(host: Optional[Host], secret: Path, log: Path) -> Iterator[Daemon]:
    address = host.address if host else "127.0.0.1"
    command = [
        *(host.prefix if host else ()),
        str(AGGREGATOR),
        "--listen",
        f"{address}:0",
        "--secret-file",
        str(secret),
    ]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sink, text=True)
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()  # "listening on HOST:PORT"
        if not words:
            raise LaunchError(f"{' '.join(command)} did not start:\n{log.read_text()}")
        yield Daemon(words[-1], process.pid)
    finally:
        end_tree(process.pid)
        process.stdout.close()
        process.wait()


@contextmanager
def hosts_for(settings: Settings) -> Iterator[list[Host]]:
    """Make the hosts that the settings need: none over loopback."""
    if settings.rate is None:
        yield []
        return
    count = max(case.ranks + case.aggregators for case in settings.cases)
    with network_of(max(2, count), settings.rate or None) as hosts:
        yield hosts
