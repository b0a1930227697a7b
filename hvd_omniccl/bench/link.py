"""What a plain TCP stream gets between two hosts, both directions at once.

``python -m hvd_omniccl.bench.link FOLDER END ADDRESS SECONDS`` is one end: 0 listens at the address, 1 comes to it.
"""

from __future__ import annotations

import multiprocessing
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .launch import RankCommand, python_module, run_together
from .network import Host

_BUFFER = 1 << 20
_MEET_SECONDS = 30.0
_WARM_UP = 0.2  # share of the time that is not counted: buffers and the congestion window grow


def link_rate(hosts: Sequence[Host] = (), seconds: float = 3.0) -> float:
    """Return the bytes per second that one stream gets in the slower direction.

    Parameters
    ----------
    hosts
        The stream is between the first two; by default over loopback.
    seconds
        How long it runs.
    """
    address = hosts[0].address if hosts else "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="omniccl-bench-") as folder:
        commands = []
        for end in (0, 1):
            prefix = hosts[end].prefix if hosts else ()
            module = python_module("hvd_omniccl.bench.link", folder, str(end), address, str(seconds))
            commands.append(RankCommand([*prefix, *module]))
        run_together(commands, seconds + 2 * _MEET_SECONDS)
        return min(float((Path(folder) / f"rate.{end}").read_text()) for end in (0, 1))


def _meet(folder: Path, end: int, address: str) -> socket.socket:
    port = folder / "port"
    if end == 0:
        with socket.create_server((address, 0)) as listener:
            listener.settimeout(_MEET_SECONDS)
            hidden = folder / "port.part"
            hidden.write_text(str(listener.getsockname()[1]))
            hidden.rename(port)
            return listener.accept()[0]
    deadline = time.monotonic() + _MEET_SECONDS
    while not port.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the other end did not come")
        time.sleep(0.01)
    return socket.create_connection((address, int(port.read_text())), timeout=_MEET_SECONDS)


def _avoid_bbr(stream: socket.socket) -> None:
    """BBR takes seconds to find the rate of a link, and not the same one each time."""
    for name in (b"cubic", b"reno"):
        try:
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name)
        except OSError:  # not every process may use every algorithm
            continue
        return


def _send(stream: socket.socket, until: float) -> None:
    data = bytes(_BUFFER)
    while time.monotonic() < until:
        stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)


def _receive(stream: socket.socket, begin: float, until: float) -> float:
    """Read to the end of the stream; return the bytes per second between two moments."""
    buffer = bytearray(_BUFFER)
    received = 0
    while count := stream.recv_into(buffer):
        now = time.monotonic()
        if begin <= now <= until:
            received += count
    return received / (until - begin)


def main() -> None:
    """Be one end."""
    folder, end, address, seconds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    with _meet(folder, end, address) as stream:
        _avoid_bbr(stream)
        stream.settimeout(_MEET_SECONDS)
        begin = time.monotonic()
        # A process, as threads would hold each other up: only one of them runs Python at a time.
        sender = multiprocessing.get_context("fork").Process(target=_send, args=(stream, begin + seconds))
        sender.start()
        rate = _receive(stream, begin + seconds * _WARM_UP, begin + seconds)
        sender.join()
    (folder / f"rate.{end}").write_text(repr(rate))


if __name__ == "__main__":
    main()
