"""The start and the end of Horovod, and what is left of us."""

from __future__ import annotations

import json
import re
from pathlib import Path

from launch import HERE, horovodrun, run_job

DEADLINE_SECONDS = 90


def test_shutdown_leaves_no_socket_and_no_thread() -> None:
    job = run_job(horovodrun(2, HERE / "lifecycle.py"), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    for rank in (0, 1):
        left = re.findall(rf"\[{rank}\]<stdout>:LEFT (\d+) threads (\d+) sockets", job.output)
        assert len(left) == 3, job.output
        assert left[0] == left[1] == left[2], left


def test_intercept_off_is_stock_horovod() -> None:
    job = run_job(horovodrun(2, HERE / "switched_off.py"), DEADLINE_SECONDS, {"OMNICCL_INTERCEPT": "off"})
    assert job.status == 0, job.output
    assert job.output.count("OFF") == 2


def test_the_timeline_shows_our_activity(tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    job = run_job(horovodrun(2, HERE / "lifecycle.py"), DEADLINE_SECONDS, {"HOROVOD_TIMELINE": str(timeline)})
    assert job.status == 0, job.output
    text = timeline.read_text().rstrip().rstrip(",")
    events = json.loads(text if text.endswith("]") else text + "]")
    activities = [event for event in events if event.get("name") == "OMNICCL_ALLREDUCE"]
    assert activities
    assert all(event["ph"] == "B" for event in activities)
