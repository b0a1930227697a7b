"""Ranks on different hosts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hosts import network_of, reason_to_skip
from launch import HERE, ranks_by_hand

pytestmark = pytest.mark.skipif(reason_to_skip() is not None, reason=str(reason_to_skip()))


def test_ranks_on_three_hosts_find_each_other(tmp_path: Path) -> None:
    with network_of(3) as hosts, ranks_by_hand(3, HERE / "on_hosts.py", tmp_path, hosts=hosts) as ranks:
        deadline = time.monotonic() + 150
        for number, rank in enumerate(ranks):
            assert rank.wait(deadline) == 0, rank.output()
            peers = " ".join(host.address for i, host in enumerate(hosts) if i != number)
            assert f"SUM [6.0, 12.0] OVER {peers}" in rank.output()
