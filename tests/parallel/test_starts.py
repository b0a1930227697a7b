"""Jobs that must begin in a way of their own."""

from __future__ import annotations

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
