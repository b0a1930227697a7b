"""Sums NumPy arrays of two processes on this host, without Horovod."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np

from hvd_omniccl import Communicator, Session

SIZE = 2


def work(rank: int, session: Session, pipe: Connection) -> None:
    with Communicator(rank, SIZE, session, loopback_only=True) as communicator:
        pipe.send(communicator.endpoint)
        communicator.connect(pipe.recv())

        gradient = np.zeros((100_000, 32), np.float32)  # two rows of many are used
        gradient[[rank, 7]] = 1.0
        communicator.allreduce(gradient, out=gradient)

        stats = communicator.stats()
        rows = np.flatnonzero(gradient.any(axis=1)).tolist()
        # With its end of line in one piece: the ranks share the output.
        print(f"rank {rank}: rows {rows}, {stats.bytes_sent:,} bytes sent, {stats.dense_bytes:,} if dense\n", end="")


def main() -> None:
    session = Session.random()
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(SIZE):
        here, there = context.Pipe()
        pipes.append(here)
        processes.append(context.Process(target=work, args=(rank, session, there)))
        processes[-1].start()
        there.close()  # so that the end of the process ends the wait for it
    endpoints = [pipe.recv() for pipe in pipes]
    for pipe in pipes:
        pipe.send(endpoints)
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
