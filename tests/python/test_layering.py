"""The layers of the native code depend on each other in one direction only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"

# What the files of a layer may include, besides their own layer.
ALLOWED = {
    "base": set(),
    "encoder": {"base"},
    "protocol": {"base", "encoder"},
    "transport": {"base", "encoder", "protocol"},
    "aggregator": {"base", "encoder", "protocol", "transport"},
    "worker": {"base", "encoder", "protocol", "transport"},
    "engine": {"base", "encoder", "protocol", "transport", "aggregator", "worker"},
    "daemon": {"base", "encoder", "protocol", "transport", "aggregator"},
    # These see the engine's public API, not what it is made of.
    "horovod_op": {"base", "encoder", "protocol", "transport", "engine"},
    "bindings": {"base", "encoder", "protocol", "transport", "engine"},
}
FRAMEWORKS = re.compile(r"horovod|tensorflow|Python\.h|pybind11")


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def sources(layer: str) -> list[Path]:
    return [p for p in (NATIVE / layer).rglob("*") if p.suffix in {".h", ".cpp", ".inl"}]


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_a_layer_includes_only_what_lies_below(layer: str) -> None:
    files = sources(layer)
    assert files
    for path in files:
        for include in includes(path):
            target = include.split("/")[0]
            if target in ALLOWED and target != layer:
                assert target in ALLOWED[layer], f"{path.relative_to(NATIVE)} includes {include}"


@pytest.mark.parametrize("layer", sorted(set(ALLOWED) - {"horovod_op", "bindings"}))
def test_the_engine_knows_no_framework(layer: str) -> None:
    for path in sources(layer):
        for include in includes(path):
            assert not FRAMEWORKS.search(include), f"{path.relative_to(NATIVE)} includes {include}"


def test_every_layer_is_listed() -> None:
    folders = {p.name for p in NATIVE.iterdir() if p.is_dir() and sources(p.name)}
    assert folders == set(ALLOWED)
