"""The tag in a tensor's name, which the hook reads (native/horovod_op/tensor_tag.cpp)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple, Optional

_DEFAULT_BLOCK = 256
_MIN_BLOCK = 16


class Block(NamedTuple):
    """How one tensor is cut, and whether it is marked.

    Attributes
    ----------
    elements
        The block size.
    is_marked
        Whether the engine takes the tensor; one that is not only with ``OMNICCL_INTERCEPT=all``.
    """

    elements: int
    is_marked: bool

    def __str__(self) -> str:
        return f"{'' if self.is_marked else 'u'}{self.elements}"


def default_block_elements(row_elements: Optional[int]) -> int:
    """Return the block size for a tensor with this last dimension.

    The rule of native/encoder/tensor_view.h: whole rows of at least 16 elements for a row under
    256, else 256 elements.

    Parameters
    ----------
    row_elements
        The last dimension; None when it is unknown or the tensor is a scalar.
    """
    if not row_elements or row_elements >= _DEFAULT_BLOCK:
        return _DEFAULT_BLOCK
    return -(-_MIN_BLOCK // row_elements) * row_elements


def tagged_name(name: str, blocks: Sequence[Block]) -> str:
    """Return ``name`` with our tag before its last component.

    The last component, because Horovod drops what is before it under ``ignore_name_scope``.

    Parameters
    ----------
    name
        The caller's name of the operation.
    blocks
        Those of the operation's tensors, in order.
    """
    exact_scope = name.endswith("/")  # TensorFlow: take the name as it is
    scope, slash, last = (name[:-1] if exact_scope else name).rpartition("/")
    return f"{scope}{slash}omniccl.b{_block_list(blocks)}.{last}{'/' if exact_scope else ''}"


def _block_list(blocks: Sequence[Block]) -> str:
    runs = []
    for block, members in itertools.groupby(blocks):
        count = len(list(members))
        runs.append(str(block) if count == 1 else f"{block}x{count}")
    return "-".join(runs)
