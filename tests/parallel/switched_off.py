"""One rank of a job with OMNICCL_INTERCEPT=off."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf

from hvd_omniccl import omniccl, stats


def main() -> None:
    hvd.init()
    assert hvd.allreduce(tf.ones(3), compression=omniccl, op=hvd.Sum).numpy().tolist() == [hvd.size()] * 3
    assert stats().operations == 0
    assert stats().bytes_sent == 0
    assert stats().passed_on == {"OMNICCL_INTERCEPT=off": 1}
    print("OFF", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
