"""The tag: what Python writes, the hook reads."""

from __future__ import annotations

import re

import horovod.tensorflow  # noqa: F401  (hooks it)
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvd_omniccl import hook
from hvd_omniccl.tag import Block, default_block_elements, tagged_name

# What TensorFlow allows as the name of an operation.
VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.>-]{0,20}(/[A-Za-z0-9_.>-]{1,8}){0,3}", fullmatch=True)
blocks = st.builds(Block, st.integers(1, 65536), st.booleans())


def read(name: str) -> tuple[str, int]:
    """The kind of a name's tag as the hook reads it, and the block size in it."""
    module = hook.state().module
    assert module is not None, hook.state().failure
    tag: tuple[str, int] = module.tag_of(name)
    return tag


def as_read(block: Block) -> tuple[str, int]:
    return ("marked" if block.is_marked else "unmarked", block.elements)


@pytest.mark.parametrize(
    ("row", "block"),
    [
        (None, 256),
        (0, 256),
        (1, 16),
        (3, 18),
        (5, 20),
        (15, 30),
        (16, 16),
        (17, 17),
        (255, 255),
        (256, 256),
        (1000, 256),
    ],
)
def test_the_block_follows_the_row(row: int | None, block: int) -> None:
    assert default_block_elements(row) == block


@given(name=names, block=blocks)
def test_a_tagged_name_is_valid_and_read_back(name: str, block: Block) -> None:
    tag = tagged_name(name, [block])
    assert VALID_NAME.fullmatch(tag)
    assert tag.endswith(name.rpartition("/")[2])
    # TensorFlow puts scopes before it and a number behind it, Horovod may drop the scopes.
    for seen in (tag, f"scope/{tag}", f"a/b_1/{tag}_2", tag.rpartition("/")[2]):
        assert read(seen) == as_read(block)


@given(name=names, group=st.lists(st.one_of(st.just(Block(256, True)), blocks), min_size=2, max_size=40))
def test_each_tensor_of_a_group_finds_its_size(name: str, group: list[Block]) -> None:
    tag = tagged_name(name, group)
    assert VALID_NAME.fullmatch(tag)
    for index, block in enumerate(group, start=1):
        assert read(f"scope/{tag}_1_{index}of{len(group)}") == as_read(block)


@given(st.text(max_size=60))
def test_any_name_can_be_read(name: str) -> None:
    assert read(name) == ("none", 0) or "omniccl.b" in name


@pytest.mark.parametrize(
    "name",
    [
        "omniccl.b.x",
        "omniccl.b0.x",
        "omniccl.bu.x",
        "omniccl.bu0.x",
        "omniccl.buu32.x",
        "omniccl.b32u.x",
        "omniccl.b32-0.x_1of2",
        "omniccl.b65537.x",
        "omniccl.b-1.x",
        "omniccl.b32",
        "omniccl.b32x",
        "omniccl.b3 .x",
        "omniccl.b99999999999.x",
        "omniccl.b32x0.x",
        "omniccl.b32-.x_1of2",
        "omniccl.b32-64.x",
        "omniccl.b32-64.x_1of3",
        "omniccl.b32-64.x_3of2",
        "omniccl.b32-64.x_0of2",
        "omniccl.b8x4294967295-8x4294967295.x_1of2",
    ],
)
def test_a_malformed_tag_is_not_taken(name: str) -> None:
    assert read(name) == ("malformed", 0)


@pytest.mark.parametrize("name", ["", "x", "my_omniccl.b32.x", "omniccl", "HorovodAllreduce_grads_0"])
def test_other_names_are_not_ours(name: str) -> None:
    assert read(name) == ("none", 0)


def test_the_tag_stays_where_scopes_are_dropped() -> None:
    ours, other = Block(32, True), Block(32, False)
    assert tagged_name("a/b/c", [ours]) == "a/b/omniccl.b32.c"
    assert tagged_name("a/b/", [other]) == "a/omniccl.bu32.b/"
    assert tagged_name("c", [ours, ours, other, Block(16, True)]) == "omniccl.b32x2-u32-16.c"
