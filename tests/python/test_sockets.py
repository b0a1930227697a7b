"""The kernel's byte counters."""

from __future__ import annotations

import socket

from hvd_omniccl import tcp_bytes_sent
from hvd_omniccl.sockets import tcp_bytes_sent_by_connection


def test_bytes_sent_are_counted_by_connection() -> None:
    before = tcp_bytes_sent()
    known = set(tcp_bytes_sent_by_connection())
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        server, _ = listener.accept()
        with server:
            client.sendall(b"x" * 100_000)
            received = 0
            while received < 100_000:
                received += len(server.recv(65536))
            assert tcp_bytes_sent() - before == 100_000
            new = [sent for name, sent in tcp_bytes_sent_by_connection().items() if name not in known]
            assert sorted(new) == [0, 0, 100_000]  # listener, receiver, sender


def test_other_descriptors_do_not_count() -> None:
    before = tcp_bytes_sent()
    one, other = socket.socketpair()
    with one, other, socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        one.sendall(b"x" * 100)
        assert tcp_bytes_sent() == before
