"""Settings: the table, the defaults, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hvd_omniccl import SettingError
from hvd_omniccl.config import SETTINGS, Config, markdown_table


def test_defaults() -> None:
    config = Config.from_env({})
    assert config.intercept == "tagged"
    assert config.block_size is None
    assert config.slot_memory is None
    assert config.timeout == 30.0
    assert config.connect_timeout == 10.0
    assert config.checksum is True
    assert config.kernels == "auto"
    assert config.horovod_source is None
    assert config.cache_dir.name == "hvd_omniccl"


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("OMNICCL_INTERCEPT", "off", "intercept", "off"),
        ("OMNICCL_BLOCK_SIZE", "32", "block_size", 32),
        ("OMNICCL_SLOT_MEMORY", "4M", "slot_memory", 4 << 20),
        ("OMNICCL_SLOT_MEMORY", "512K", "slot_memory", 512 << 10),
        ("OMNICCL_SLOT_MEMORY", "1000", "slot_memory", 1000),
        ("OMNICCL_TIMEOUT", "1.5", "timeout", 1.5),
        ("OMNICCL_CHECKSUM", "off", "checksum", False),
        ("OMNICCL_CHECKSUM", " on ", "checksum", True),
        ("OMNICCL_KERNELS", "scalar", "kernels", "scalar"),
        ("OMNICCL_HOROVOD_SOURCE", "/src/horovod", "horovod_source", Path("/src/horovod")),
        ("OMNICCL_BLOCK_SIZE", "", "block_size", None),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(Config.from_env({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OMNICCL_INTERCEPT", "some"),
        ("OMNICCL_BLOCK_SIZE", "0"),
        ("OMNICCL_BLOCK_SIZE", "65537"),
        ("OMNICCL_BLOCK_SIZE", "many"),
        ("OMNICCL_SLOT_MEMORY", "4 MB"),
        ("OMNICCL_SLOT_MEMORY", "-1"),
        ("OMNICCL_TIMEOUT", "0"),
        ("OMNICCL_TIMEOUT", "nan"),
        ("OMNICCL_CONNECT_TIMEOUT", "inf"),
        ("OMNICCL_CHECKSUM", "yes"),
        ("OMNICCL_KERNELS", "avx9"),
    ],
)
def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(name: str, text: str) -> None:
    setting = next(one for one in SETTINGS if one.name == name)
    with pytest.raises(SettingError) as refusal:
        Config.from_env({name: text})
    assert name in str(refusal.value)
    assert repr(text) in str(refusal.value)
    assert setting.allowed in str(refusal.value)


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingError, match=r"OMNICCL_BLOCKSIZE.*OMNICCL_BLOCK_SIZE"):
        Config.from_env({"OMNICCL_BLOCKSIZE": "32"})
    assert Config.from_env({"OTHER_VARIABLE": "x"}) == Config.from_env({})


def test_the_table_is_complete() -> None:
    fields = set(Config.__dataclass_fields__)
    assert {setting.field for setting in SETTINGS} == fields
    table = markdown_table()
    for setting in SETTINGS:
        assert f"`{setting.name}`" in table


def test_the_documented_table_is_the_real_one() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "settings.md"
    assert markdown_table() in page.read_text()
