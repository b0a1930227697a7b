"""The examples, on little data."""

from __future__ import annotations

import json
import random
from pathlib import Path

from launch import HERE, horovodrun, run_job

DEADLINE_SECONDS = 150
EXAMPLES = HERE.parents[1] / "examples"


def test_word_vectors(tmp_path: Path) -> None:
    """Words that stand together come to lie together, and few bytes travel."""
    rng = random.Random(1)
    topics = [[f"{letter}{word}" for word in ("na", "ne", "ni", "no", "nu")] for letter in "bdfgklmprst"]
    sentences = (" ".join(rng.choices(rng.choice(topics), k=12)) for _ in range(4000))
    (tmp_path / "text").write_text(". ".join(sentences))
    report = tmp_path / "report.json"
    options = ["--batch-size", "32", "--steps-per-epoch", "400", "--show", "bna", "--report", str(report)]
    job = run_job(
        horovodrun(2, EXAMPLES / "tf2_word2vec.py", str(tmp_path / "text"), *options, "--learning-rate", "0.02"),
        DEADLINE_SECONDS,
    )
    assert job.status == 0, job.output
    figures = json.loads(report.read_text())
    assert figures["steps"] == 400
    assert figures["loss"] < 3.6  # 6 ln 2 = 4.16 before it learns
    assert 0 < figures["density"] <= 1
    neighbours = job.output.split("bna: ")[1].splitlines()[0].split(", ")
    assert len({"bne", "bni", "bno", "bnu"} & set(neighbours[:4])) >= 2  # of 54 other words
