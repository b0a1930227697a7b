"""Ranks on different hosts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from launch import HERE, environment, ranks_by_hand

from hvd_omniccl.bench.network import Host, add_decoy, network_of, reason_against

pytestmark = pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))


def test_ranks_on_three_hosts_find_each_other(tmp_path: Path) -> None:
    with network_of(3) as hosts, ranks_by_hand(3, HERE / "on_hosts.py", tmp_path, hosts=hosts) as ranks:
        deadline = time.monotonic() + 150
        for number, rank in enumerate(ranks):
            assert rank.wait(deadline) == 0, rank.output()
            peers = " ".join(host.address for i, host in enumerate(hosts) if i != number)
            assert f"SUM [6.0, 12.0] OVER {peers}" in rank.output()


def test_shared_memory_between_hosts_is_an_error_on_each(tmp_path: Path) -> None:
    extra = {"OMNICCL_TRANSPORT": "shm"}
    with network_of(2) as hosts, ranks_by_hand(2, HERE / "on_hosts.py", tmp_path, extra, hosts) as ranks:
        deadline = time.monotonic() + 150
        for number, rank in enumerate(ranks):
            assert rank.wait(deadline) != 0, rank.output()
            assert f"OMNICCL_TRANSPORT is shm, but rank {1 - number} is on another host" in rank.output()


def sums_without_horovod(hosts: Sequence[Host], *options: str) -> list[str]:
    """What each host's rank printed: the sum, and the addresses of its peers."""
    with ExitStack() as cleanup:
        ranks = []
        for rank, host in enumerate(hosts):
            command = [*host.prefix, sys.executable, str(HERE / "numpy_on_host.py"), str(rank), str(len(hosts))]
            pipe = subprocess.PIPE
            process = subprocess.Popen([*command, *options], stdin=pipe, stdout=pipe, text=True, env=environment())
            ranks.append(cleanup.enter_context(process))
            cleanup.callback(process.kill)
        endpoints = []
        for rank in ranks:
            assert rank.stdout is not None
            endpoints.append(rank.stdout.readline().strip())
        for rank in ranks:
            assert rank.stdin is not None
            rank.stdin.write(" ".join(endpoints) + "\n")
            rank.stdin.flush()
        return [rank.communicate(timeout=60)[0].strip() for rank in ranks]


# Like the bridge of a container engine: the same address on every host, where it leads back to the host itself.
@pytest.mark.parametrize("options", [(), ("eth0",)])
def test_the_right_interface_is_found_among_several(options: tuple[str, ...]) -> None:
    with network_of(2) as hosts:
        for host in hosts:
            add_decoy(host, "172.17.0.1/16")
        first, second = (host.address for host in hosts)
        default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
        expected = "cubic" if default == "bbr" else default  # root may use any
        assert sums_without_horovod(hosts, *options) == [f"[3.0] {second} {expected}", f"[3.0] {first} {expected}"]
