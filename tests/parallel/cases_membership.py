"""Process sets, and ranks that have joined."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
from case import case
from support import allreduce, counted


@case(4, mpi=False)
def two_process_sets_side_by_side() -> None:
    sets = [hvd.add_process_set([0, 2]), hvd.add_process_set([1, 3])]
    own = sets[hvd.rank() % 2]
    value = np.full(600, hvd.rank() + 1, np.float32)
    for _ in range(3):
        with counted() as change:
            assert np.all(allreduce(value, process_set=own) == [4, 6][hvd.rank() % 2])
            assert np.all(allreduce(value, process_set=own, op=hvd.Average) == [2, 3][hvd.rank() % 2])
        assert change.operations == 2
        assert np.all(allreduce(value) == 10)  # the global one is not disturbed
    for one in sets:
        assert hvd.remove_process_set(one)


@case(3)
def a_process_set_whose_id_comes_back() -> None:
    value = np.full(8, hvd.rank() + 1, np.float32)
    for members in ([0, 1], [1, 2], [0, 2]):
        one = hvd.add_process_set(members)
        if hvd.rank() in members:
            assert np.all(allreduce(value, process_set=one) == sum(members) + 2)
        assert hvd.remove_process_set(one)


@case(2, 3)
def joined_ranks_count_as_zeros() -> None:
    size = 5000
    first = hvd.rank() == 0
    if first:
        for step in range(5):
            value = np.full((size // 50, 50), step + 1, np.float32)
            assert np.all(allreduce(value, name="joined") == step + 1)
            average = allreduce(value, name="joined", op=hvd.Average)
            assert np.all(average == np.float32(step + 1) * np.float32(1 / hvd.size()))
    assert hvd.join() in range(hvd.size())
    assert np.all(allreduce(np.ones(4, np.float32)) == hvd.size())
