"""What OMNICCL_INTERCEPT changes, and scripts that never import us."""

from __future__ import annotations

import re

import pytest
from launch import BIN, HERE, horovodrun, run_job

DEADLINE_SECONDS = 180


def omniccl_run(ranks: int, *arguments: str) -> list[str]:
    """`horovodrun … omniccl run unaware.py …`."""
    command = horovodrun(ranks, HERE / "unaware.py", *arguments)
    python = command.index(str(HERE / "unaware.py")) - 1
    command[python : python + 1] = [str(BIN / "omniccl"), "run"]
    return command


def said(output: str, word: str) -> list[str]:
    """What the ranks said behind `word`."""
    return re.findall(rf"\b{word} (.*)", output)


def test_a_script_that_never_imports_us_trains_to_the_weights_of_stock_horovod() -> None:
    stock = run_job(horovodrun(2, HERE / "unaware.py", "train"), DEADLINE_SECONDS)
    assert stock.status == 0, stock.output
    [weights] = set(said(stock.output, "WEIGHTS"))
    assert said(stock.output, "TOOK") == ["0, LEFT {}"] * 2

    ours = run_job(omniccl_run(2, "train"), DEADLINE_SECONDS)
    assert ours.status == 0, ours.output
    assert said(ours.output, "WEIGHTS") == [weights] * 2
    # 2 epochs of 4 steps: 3 gradients each; and the loss at the end of each epoch.
    assert said(ours.output, "TOOK") == [f"{2 * 4 * 3 + 2}, LEFT {{}}"] * 2


def test_off_is_plain_horovod() -> None:
    job = run_job(omniccl_run(2, "train"), DEADLINE_SECONDS, {"OMNICCL_INTERCEPT": "off"})
    assert job.status == 0, job.output
    for answer in said(job.output, "TOOK"):
        assert re.fullmatch(r"0, LEFT \{'not marked': \d+\}", answer)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_joined_rank_takes_part_in_what_is_taken_without_a_mark(ranks: int) -> None:
    job = run_job(omniccl_run(ranks, "join"), DEADLINE_SECONDS)
    assert job.status == 0, job.output
    assert job.output.count("JOINED") == ranks
    assert said(job.output, "TOOK") == [f"{3 * 5}, LEFT {{}}"] * ranks
