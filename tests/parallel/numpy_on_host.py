"""One rank without Horovod: prints its endpoint, reads all of them, prints a sum and how its peers are connected."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import psutil

from hvd_omniccl import Communicator, Session


def main() -> None:
    rank, size = int(sys.argv[1]), int(sys.argv[2])
    interface = sys.argv[3] if len(sys.argv) > 3 else None
    with Communicator(rank, size, Session(bytes(16), bytes(32)), interface=interface) as one:
        print(one.endpoint.hex(), flush=True)
        one.connect([bytes.fromhex(text) for text in sys.stdin.readline().split()])
        peers = sorted(
            {link.raddr.ip.replace("::ffff:", "") for link in psutil.Process().net_connections("tcp") if link.raddr}
        )
        links = subprocess.run(["ss", "-tinOH"], capture_output=True, text=True, check=True).stdout
        algorithms = set(re.findall(r"\b(bbr|cubic|reno)\b", links))
        print(one.allreduce(np.array([rank + 1.0])).tolist(), *peers, *sorted(algorithms), flush=True)


if __name__ == "__main__":
    main()
