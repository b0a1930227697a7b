"""Jobs that must begin in a way of their own, or need a machine that is large enough."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from launch import HERE, horovodrun, run_job

DEADLINE_SECONDS = 120


@pytest.mark.parametrize(
    ("script", "ranks", "extra"),
    [
        ("static_process_sets.py", 3, {}),
        ("joins_at_once.py", 2, {}),
        ("one_thread.py", 2, {}),
        ("one_thread.py", 2, {"HOROVOD_FUSION_THRESHOLD": "0"}),
    ],
)
def test_job(script: str, ranks: int, extra: dict[str, str]) -> None:
    job = run_job(horovodrun(ranks, HERE / script), DEADLINE_SECONDS, extra)
    assert job.status == 0, job.output
    assert job.output.count("DONE") == ranks, job.output


def available_bytes() -> int:
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    assert match
    return int(match[1]) * 1024


# Two ranks with an input, a result, and for a moment the bytes that a check makes of it.
@pytest.mark.skipif(available_bytes() < 16 << 30, reason="needs 16 GiB of memory")
def test_more_elements_than_an_int_counts() -> None:
    job = run_job(horovodrun(2, HERE / "big_tensor.py"), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    assert job.output.count("DONE") == 2, job.output
    refusals = re.findall(r"REFUSED (.*)", job.output)
    assert len(refusals) == 2, job.output
    for refusal in refusals:
        assert "HorovodAllreduce (omniccl): " in refusal
        assert "more than 2147483647 elements" in refusal
        assert "operation Max" in refusal


# What ssh does with its command, on this host: a shell of its own that inherits nothing.
SSH = """#!/bin/sh
host=
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then shift 2; elif [ -z "$host" ]; then host=$1; shift; else break; fi
done
echo "$host" >>"$0.hosts"
exec env -i sh -c "$*"
"""


def test_settings_of_the_launching_shell_reach_ranks_behind_ssh(tmp_path: Path) -> None:
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    environment = {"OMNICCL_BLOCK_SIZE": "48", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    command = horovodrun(2, HERE / "prints_blocks.py")
    command[1:1] = ["--hosts", "localhost:1,127.0.0.2:1", "--network-interfaces", "lo", "--disable-cache"]
    job = run_job(command, DEADLINE_SECONDS, environment)
    assert job.status == 0, job.output
    assert (tmp_path / "ssh.hosts").read_text().split()[-1] == "127.0.0.2"
    assert sorted(re.findall(r"(\d+) BLOCKS ON (\S+)", job.output)) == [("10", "127.0.0.2"), ("10", "localhost")]
