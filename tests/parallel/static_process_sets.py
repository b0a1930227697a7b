"""One rank of three that imports our package before Horovod, with process sets from the start."""

from __future__ import annotations

from hvd_omniccl import omniccl, stats  # isort: split

import horovod.tensorflow as hvd
import tensorflow as tf


def main() -> None:
    pair, alone = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1])
    hvd.init(process_sets=[pair, alone])
    own = alone if hvd.rank() == 1 else pair
    value = tf.fill((40, 20), hvd.rank() + 1.0)
    for _ in range(3):
        for op, expected in ((hvd.Sum, [4.0, 2.0, 4.0]), (hvd.Average, [2.0, 2.0, 2.0])):
            result = hvd.allreduce(value, compression=omniccl, op=op, process_set=own)
            assert result.numpy().tolist() == [[expected[hvd.rank()]] * 20] * 40
        total = hvd.allreduce(value, compression=omniccl, op=hvd.Sum)
        assert total.numpy().tolist() == [[6.0] * 20] * 40
    assert stats().operations == 9
    assert stats().passed_on == {}
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
