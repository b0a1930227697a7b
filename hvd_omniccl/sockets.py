"""What the kernel counted on this process's TCP connections, to check our own counters against."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")

# struct tcp_info of linux/tcp.h: tcpi_bytes_acked, and since Linux 4.19 tcpi_bytes_sent and, behind
# it, tcpi_bytes_retrans.
_TCP_INFO_SIZE = 256
_BYTES_ACKED_OFFSET = 120
_BYTES_SENT_OFFSET = 200


def tcp_bytes_sent() -> int:
    """Return the bytes sent over all TCP connections that are open in this process now.

    As the kernel counted them, each once: without headers and without what it sent again.
    """
    return sum(tcp_bytes_sent_by_connection().values())


def tcp_bytes_sent_by_connection() -> dict[str, int]:
    """Return the bytes sent over each open TCP connection, by a name that the kernel gives it."""
    connections = {}
    for entry in _DESCRIPTORS.iterdir():
        try:
            name = str(entry.readlink())
        except OSError:  # closed by another thread since the listing
            continue
        if name.startswith("socket:"):
            connections[name] = _bytes_sent(int(entry.name))
    return connections


def _bytes_sent(descriptor: int) -> int:
    """Return the bytes sent over one socket, 0 when it is no TCP connection."""
    try:
        duplicate = os.dup(descriptor)
    except OSError:  # as above
        return 0
    with socket.socket(fileno=duplicate) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return 0
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) != socket.IPPROTO_TCP:
            return 0
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    if len(info) < _BYTES_SENT_OFFSET + 16:
        return int(struct.unpack_from("=Q", info, _BYTES_ACKED_OFFSET)[0])
    sent, sent_again = struct.unpack_from("=QQ", info, _BYTES_SENT_OFFSET)
    return int(sent - sent_again)
