"""What the engine asks of the kernel: huge pages for large new outputs, and how TCP finds its rate."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from ranks import Ranks

from hvd_omniccl import SettingError

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SIZE = 16 << 20


def huge_bytes_at(address: int) -> int:
    """The bytes in huge pages of the mapping that an address is in."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(match[1], 16) <= address < int(match[2], 16)
        elif inside and line.startswith("AnonHugePages:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no such mapping")


@pytest.mark.skipif(
    not HUGE_PAGES.exists() or "[madvise]" not in HUGE_PAGES.read_text(),
    reason="huge pages are not the program's choice here",
)
@pytest.mark.parametrize("wanted", [True, False])
def test_a_large_new_output_is_in_huge_pages(wanted: bool) -> None:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # NumPy's own memory is in huge pages anyway
    with mmap.mmap(-1, SIZE, flags) as memory, Ranks(1, huge_pages=wanted) as ranks:
        output = np.frombuffer(memory, np.float32)
        assert huge_bytes_at(output.ctypes.data) == 0
        ranks.communicators[0].allreduce(np.ones(output.shape, np.float32), out=output)
        assert output.min() == 1
        huge = huge_bytes_at(output.ctypes.data + SIZE // 2)
        del output  # the mapping cannot be closed while it is in use
    assert (huge >= SIZE // 2) if wanted else (huge == 0)


def algorithms() -> set[str]:
    """The congestion control of this process's TCP connections."""
    listed = subprocess.run(["ss", "-tinpOH"], capture_output=True, text=True, check=True).stdout
    found = set()
    for line in listed.splitlines():
        if f"pid={os.getpid()}," in line:
            found |= set(re.findall(r"\b(bbr|cubic|reno|dctcp|vegas)\b", line))
    return found


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss (package iproute2)")
def test_congestion_control() -> None:
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    for wanted in ("auto", "system", "reno"):
        with Ranks(2, transport="tcp", congestion_control=wanted):
            found = algorithms()
        assert found == {"reno" if wanted == "reno" else default}, wanted  # on loopback auto changes nothing


def test_an_unknown_congestion_control_is_refused() -> None:
    with pytest.raises(SettingError, match=r"OMNICCL_CONGESTION_CONTROL is fastest.*allowed: auto, system, "):
        Ranks(2, transport="tcp", congestion_control="fastest")
