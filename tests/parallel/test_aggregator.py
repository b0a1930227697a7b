"""Jobs whose sums are made by daemons."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from aggregator_daemon import daemon
from launch import HERE, Finished, horovodrun, run_job

DEADLINE_SECONDS = 200


def sums(ranks: int, extra: dict[str, str]) -> Finished:
    return run_job(horovodrun(ranks, HERE / "random_sums.py"), DEADLINE_SECONDS, extra)


def test_two_jobs_on_one_daemon_beside_one_without(tmp_path: Path) -> None:
    with daemon(tmp_path, listen="[::1]:0") as one, ThreadPoolExecutor(3) as threads:
        jobs = [
            (2, threads.submit(sums, 2, {**one.environment(2), "OMNICCL_TRANSPORT": "shm"})),
            (3, threads.submit(sums, 3, {**one.environment(1), "OMNICCL_TRANSPORT": "tcp"})),
            (2, threads.submit(sums, 2, {})),
        ]
        for ranks, job in jobs:
            finished = job.result()
            assert finished.status == 0, finished.output
            assert finished.output.count("DONE") == ranks, finished.output
        log = one.log
    assert log.count("ranks are there") == 3  # two shards of one job and one of the other
    assert "has failed" not in log


def test_another_secret_on_the_ranks_is_an_error_on_each_of_them(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.touch(mode=0o600)
    other.write_text("this is not the secret\n")
    with daemon(tmp_path) as one:
        job = sums(2, {**one.environment(1), "OMNICCL_SECRET_FILE": str(other)})
    assert job.status != 0
    assert "another secret" in job.output
    assert one.place in job.output
    assert "this is not the secret" not in job.output
