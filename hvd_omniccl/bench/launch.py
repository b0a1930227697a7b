"""Starts the ranks of a job on this machine, on one host or on several, and ends only what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .network import Host


class LaunchError(RuntimeError):
    """A rank ended with an error, or not in time. The message has the end of its output."""


@dataclass(frozen=True)
class RankCommand:
    """How one process is started.

    Attributes
    ----------
    command
        The program and its arguments.
    environment
        What is added to this process's environment.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Make SIGTERM an exception, so that what was started and made goes with this process."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def descendants(pid: int) -> list[int]:
    """Return ``pid`` and all processes below it, parents first."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found.extend(int(child) for child in children.read_text().split())
            except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
                continue
    return found


def end_tree(pid: int) -> None:
    """Kill a process that the caller started and all that it started."""
    for process in descendants(pid):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


def run_together(commands: Sequence[RankCommand], seconds: float) -> None:
    """Run processes side by side to their end.

    Raises
    ------
    LaunchError
        When one fails, which ends the others, or when they take longer than ``seconds``.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="omniccl-bench-") as folder:
        processes: list[subprocess.Popen[bytes]] = []
        logs = [Path(folder) / str(number) for number in range(len(commands))]
        try:
            for one, log in zip(commands, logs):
                with log.open("wb") as sink:
                    # Not here: `python -m` would find a folder of the package's name first.
                    options: Any = {"cwd": folder, "env": {**os.environ, **one.environment}}
                    processes.append(
                        subprocess.Popen(one.command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, **options)
                    )
            _wait_for(processes, logs, deadline, seconds)
        finally:
            for process in processes:
                if process.poll() is None:
                    end_tree(process.pid)
                    process.wait()


def _wait_for(
    processes: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], deadline: float, seconds: float
) -> None:
    waiting = dict(zip(processes, logs))
    while waiting:
        for process, log in list(waiting.items()):
            try:
                status = process.wait(timeout=min(0.2, max(0.0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() >= deadline:
                    raise LaunchError(f"{_shown(process)} took longer than {seconds:.0f} s{_end_of(log)}") from None
                continue
            del waiting[process]
            if status != 0:
                raise LaunchError(f"{_shown(process)} ended with status {status}{_end_of(log)}")


def _shown(process: subprocess.Popen[bytes]) -> str:
    command: Any = process.args
    return " ".join(command)


def _end_of(log: Path, lines: int = 20) -> str:
    text = log.read_text(errors="replace").strip().splitlines()
    return ":\n" + "\n".join(text[-lines:]) if text else ""


@contextmanager
def horovod_rendezvous(count: int, hosts: Optional[Sequence[Host]] = None) -> Iterator[list[dict[str, str]]]:
    """Serve the meeting point of ``count`` Horovod ranks on Gloo that are started one by one.

    Yields what each rank needs in its environment. Rank r is on ``hosts[r]``; without hosts all are on this one.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousServer

    server: Any = RendezvousServer(verbose=0)
    port = server.start()
    try:
        slots = ",".join(f"{host.address}:1" for host in hosts) if hosts else f"localhost:{count}"
        server.init(get_host_assignments(parse_hosts(slots), count))
        yield [_horovod_variables(rank, count, port, hosts) for rank in range(count)]
    finally:
        server.stop()
        server._httpd.server_close()


def _horovod_variables(rank: int, count: int, port: int, hosts: Optional[Sequence[Host]]) -> dict[str, str]:
    variables = {
        "HOROVOD_HOSTNAME": "localhost",
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(count),
        "HOROVOD_LOCAL_RANK": str(rank),
        "HOROVOD_LOCAL_SIZE": str(count),
        "HOROVOD_CROSS_RANK": "0",
        "HOROVOD_CROSS_SIZE": "1",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_GLOO_IFACE": "lo",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
    if hosts:
        variables.update(
            HOROVOD_HOSTNAME=hosts[rank].address,
            HOROVOD_LOCAL_RANK="0",
            HOROVOD_LOCAL_SIZE="1",
            HOROVOD_CROSS_RANK=str(rank),
            HOROVOD_CROSS_SIZE=str(count),
            HOROVOD_GLOO_RENDEZVOUS_ADDR=hosts[rank].gateway,
            HOROVOD_GLOO_IFACE=hosts[rank].interface,
        )
    return variables


# What a launcher starts instead of ssh: after ssh's options comes the host, the rest is the command.
_AGENT = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
case "$1" in
{cases}
*) echo "$0: no host $1" >&2; exit 1;;
esac
shift
exec ip netns exec "$namespace" /bin/sh -c "$*"
"""


def _agent(folder: Path, hosts: Sequence[Host]) -> Path:
    """Write the script that stands in for ssh."""
    path = folder / "agent.sh"
    path.write_text(_AGENT.format(cases="\n".join(f"{host.address}) namespace={host.namespace};;" for host in hosts)))
    path.chmod(0o700)
    return path


def open_mpi_command(
    program: Sequence[str], count: int, folder: Path, hosts: Optional[Sequence[Host]] = None
) -> list[str]:
    """Return the command that starts ``count`` ranks of ``program`` under Open MPI.

    Parameters
    ----------
    program
        Equal for all ranks.
    count
        Ranks; rank r is on ``hosts[r]``.
    folder
        Where a small script is put that stands in for ssh.
    hosts
        Without them all are on this host.
    """
    # Where each namespace is a host with all cores, every rank would be bound to the same one.
    command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none"]
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    # Reading another process's memory is forbidden in most containers; Open MPI then says so for each rank.
    command += ["--mca", "btl_vader_single_copy_mechanism", "none"]
    if hosts:
        names = ",".join(f"{host.address}:1" for host in hosts)
        command += ["--mca", "plm_rsh_agent", str(_agent(folder, hosts)), "--host", names]
        for layer in ("oob_tcp", "btl_tcp"):  # its control connections, and the data's
            command += ["--mca", f"{layer}_if_include", hosts[0].network]
    return [*command, "-np", str(count), *program]


def mpich_command(
    program: Sequence[str], count: int, folder: Path, hosts: Optional[Sequence[Host]] = None
) -> list[str]:
    """Return the command that starts ``count`` ranks of ``program`` under MPICH. As :func:`open_mpi_command`."""
    command = ["mpiexec.mpich", "-bind-to", "none"]
    if hosts:
        names = ",".join(host.address for host in hosts)
        command += ["-launcher", "ssh", "-launcher-exec", str(_agent(folder, hosts)), "-hosts", names]
        # On a host this machine's name leads to that host itself.
        command += ["-localhost", hosts[0].gateway]
    return [*command, "-n", str(count), *program]


def python_module(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of this package with this Python."""
    return [sys.executable, "-m", module, *arguments]


def python_script(script: Path, *arguments: str) -> list[str]:
    """Return the command that runs a script with this Python."""
    return [sys.executable, str(script), *arguments]
