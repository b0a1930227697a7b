"""Several ranks in one process, a thread each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hvd_omniccl import Communicator, Session

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
