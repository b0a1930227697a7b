"""One rank of a job in which all but rank 0 join before they reduce anything: connecting included."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_omniccl import omniccl, stats


def main() -> None:
    hvd.init()
    share = 1 / hvd.size()
    if hvd.rank() == 0:
        value = tf.constant([1.0, 2.0])
        assert hvd.allreduce(value, compression=omniccl, op=hvd.Sum).numpy().tolist() == [1.0, 2.0]
        assert hvd.allreduce(value, compression=omniccl).numpy().tolist() == [share, 2 * share]
        both = hvd.grouped_allreduce([value, tf.fill((3, 40), 5.0)], compression=omniccl, op=hvd.Sum)
        assert [one.numpy().tolist() for one in both] == [[1.0, 2.0], [[5.0] * 40] * 3]
    hvd.join()
    assert stats().operations == 3
    assert stats().passed_on == {}
    total = hvd.allreduce(tf.ones(4), compression=omniccl, op=hvd.Sum)
    assert total.numpy().tolist() == [hvd.size()] * 4
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
