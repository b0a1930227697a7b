"""What ``omniccl bench`` measures: the allreduce beside its peers, the kernels, and the examples.

Needs the packages of ``pip install hvd_omniccl[bench]``.
"""
