"""One rank of a job that reduces a tensor of more elements than 32 bits with a sign can count."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from hvd_omniccl import omniccl, stats

ELEMENTS = 2**31 + 16
MARKED = (0, 2**31 - 1, 2**31, ELEMENTS - 1)  # where it is not zero


def main() -> None:
    hvd.init()
    values = np.zeros(ELEMENTS, np.int8)
    values[list(MARKED)] = 1 + hvd.rank()
    tensor = tf.convert_to_tensor(values)
    try:
        hvd.allreduce(tensor, op=hvd.Max, compression=omniccl)
    except tf.errors.FailedPreconditionError as error:
        print(f"REFUSED {' '.join(error.message.split())}", flush=True)
    total = hvd.allreduce(tensor, op=hvd.Sum, compression=omniccl).numpy()
    assert np.flatnonzero(total).tolist() == list(MARKED)
    assert total[list(MARKED)].tolist() == [hvd.size() * (hvd.size() + 1) // 2] * len(MARKED)
    assert stats().tensors == 1
    print("DONE", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
