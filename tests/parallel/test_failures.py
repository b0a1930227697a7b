"""What the other ranks see when one dies or has other settings."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest
from launch import HERE, horovodrun, ranks_by_hand, run_job

# The death of a process is seen at once; the rest is the import of TensorFlow on a busy machine.
DETECTED_WITHIN_SECONDS = 5
DEADLINE_SECONDS = 90


@pytest.mark.parametrize("size", [2, 3])
def test_a_killed_rank_ends_the_others_with_our_message(size: int, tmp_path: Path) -> None:
    extra = {"OMNICCL_TRANSPORT": "tcp"}  # whose bytes tell it when it is in the middle
    with ranks_by_hand(size, HERE / "rank_killed.py", tmp_path, extra) as ranks:
        deadline = time.monotonic() + DEADLINE_SECONDS
        *survivors, killed = ranks
        assert killed.wait(deadline) == -signal.SIGKILL, killed.output()
        died = time.monotonic()
        for rank in survivors:
            status = rank.wait(died + DETECTED_WITHIN_SECONDS + 10)  # and Horovod's own end
            output = rank.output()
            assert status == 3, output
            failure = re.search(r"FAILED AFTER ([\d.]+) s: (.*)", output)
            assert failure, output
            assert float(failure[1]) < DETECTED_WITHIN_SECONDS
            assert "HorovodAllreduce (omniccl): " in failure[2]
            assert re.search(rf"rank {size - 1}\b", failure[2]), failure[2]


@pytest.mark.parametrize(
    ("name", "others", "second", "shown"),
    [
        ("OMNICCL_BLOCK_SIZE", "32", "64", ("32 on rank 0", "64 on rank 1")),
        ("OMNICCL_SLOT_MEMORY", "4M", "8M", ("4194304 on rank 0", "8388608 on rank 1")),
        ("OMNICCL_INTERCEPT", "tagged", "off", ("tagged on rank 0", "off on rank 1")),
        ("OMNICCL_INTERCEPT", "tagged", "all", ("tagged on rank 0", "all on rank 1")),
        ("OMNICCL_INTERCEPT", "all", "off", ("all on rank 0", "off on rank 1")),
    ],
)
def test_different_settings_are_an_error_on_every_rank(
    name: str, others: str, second: str, shown: tuple[str, str]
) -> None:
    job = run_job(horovodrun(2, HERE / "settings_differ.py", name, others, second), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    plain = ("plain", "plain_in_graph")
    # With another mode than `all` nobody asked us to reduce what is not compressed.
    refused = ("compressed", "compressed", *(plain if "all" in (others, second) else ()))
    for rank in (0, 1):
        refusals = re.findall(rf"\[{rank}\]<stdout>:(\w+) REFUSED (.*)", job.output)
        assert tuple(what for what, _ in refusals) == refused, job.output
        for _, refusal in refusals:
            assert "HorovodAllreduce (omniccl): " in refusal
            assert f"{name} must be equal on all ranks" in refusal
            assert all(text in refusal for text in shown), refusal
        returned = re.findall(rf"\[{rank}\]<stdout>:(\w+) RETURNED (.*)", job.output)
        assert returned == [(what, "[2.0, 2.0, 2.0]") for what in plain if what not in refused], job.output
