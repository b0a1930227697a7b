"""One rank of a job over several hosts: reduces, and says over which addresses the sums travelled."""

from __future__ import annotations

import horovod.tensorflow as hvd
import psutil
import tensorflow as tf

from hvd_omniccl import omniccl, stats


def main() -> None:
    hvd.init()
    before = {connection.raddr for connection in psutil.Process().net_connections("tcp")}
    value = tf.constant([1.0, 2.0]) * (hvd.rank() + 1)
    total = hvd.allreduce(value, compression=omniccl, op=hvd.Sum)
    assert stats().operations == 1
    after = {connection.raddr for connection in psutil.Process().net_connections("tcp")}
    peers = sorted({address.ip for address in after - before if address})
    print(f"SUM {total.numpy().tolist()} OVER {' '.join(peers)}", flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
