"""Several ranks in one process, a thread each, and an aggregator daemon beside them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hvd_omniccl
from hvd_omniccl import Communicator, Session

AGGREGATOR = Path(hvd_omniccl.__file__).parent / "_engine" / "bin" / "omniccl-aggregator"
DEADLINE_SECONDS = 60


class Ranks:
    """A connected group. `run` calls a function with each rank's communicator, all at the same time."""

    def __init__(self, size: int, **options: Any) -> None:
        session = Session.random()
        self.communicators = [
            Communicator(rank, size, session, **{"loopback_only": True, **options}) for rank in range(size)
        ]
        self._threads = ThreadPoolExecutor(size)
        endpoints = [one.endpoint for one in self.communicators]
        self.run(lambda one: one.connect(endpoints))

    def run(self, function: Callable[[Communicator], Any]) -> list[Any]:
        futures = [self._threads.submit(function, one) for one in self.communicators]
        return [future.result(DEADLINE_SECONDS) for future in futures]

    def errors(self, function: Callable[[Communicator], Any]) -> list[BaseException | None]:
        futures = [self._threads.submit(function, one) for one in self.communicators]
        return [future.exception(DEADLINE_SECONDS) for future in futures]

    def close(self) -> None:
        for one in self.communicators:
            one.close()
        self._threads.shutdown()

    def __enter__(self) -> Ranks:  # noqa: PYI034
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@dataclass(frozen=True)
class Daemon:
    process: subprocess.Popen[str]
    place: str
    secret_file: Path

    @property
    def log(self) -> str:
        return (self.secret_file.parent / "log").read_text()

    def shards(self, count: int) -> dict[str, Any]:
        """Options for communicators that use so many shards of this daemon."""
        return {"aggregators": [self.place] * count, "secret_file": self.secret_file}


@contextmanager
def daemon(folder: Path, *options: str, prefix: Sequence[str] = ()) -> Iterator[Daemon]:
    """A daemon on a free port, ended by SIGTERM, which has to end it well."""
    secret_file = folder / "secret"
    secret_file.touch(mode=0o600)
    secret_file.write_text("correct horse battery staple\n")
    command = [*prefix, str(AGGREGATOR), "--listen", "127.0.0.1:0", "--secret-file", str(secret_file), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), (folder / "log").read_text()
        yield Daemon(process, line.split()[-1], secret_file)
        if process.poll() is None:
            process.terminate()
        assert process.wait(DEADLINE_SECONDS) == 0
    finally:
        process.kill()
        process.communicate()
