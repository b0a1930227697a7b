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
    assert config.huge_pages is True
    assert config.transport == "auto"
    assert config.congestion_control == "auto"
    assert config.kernels == "auto"
    assert config.horovod_source is None
    assert config.cache_dir.name == "hvd_omniccl"


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("OMNICCL_INTERCEPT", "off", "intercept", "off"),
        ("OMNICCL_INTERCEPT", "all", "intercept", "all"),
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
        ("OMNICCL_IFACE", "eth0", "interface", "eth0"),
        ("OMNICCL_CONGESTION_CONTROL", "bbr", "congestion_control", "bbr"),
        ("OMNICCL_TRANSPORT", "shm", "transport", "shm"),
        ("OMNICCL_HUGE_PAGES", "off", "huge_pages", False),
        ("OMNICCL_PORT_RANGE", "40000-40100", "port_range", (40000, 40100)),
        ("OMNICCL_PORT_RANGE", "40000", "port_range", (40000, 40000)),
        ("OMNICCL_SECRET_FILE", "/etc/omniccl.secret", "secret_file", Path("/etc/omniccl.secret")),
    ],
)
def test_values(name: str, text: str, field: str, value: object) -> None:
    assert getattr(Config.from_env({name: text}), field) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("OMNICCL_INTERCEPT", "some"),
        ("OMNICCL_TRANSPORT", "udp"),
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
        ("OMNICCL_AGGREGATORS", "nic1"),
        ("OMNICCL_AGGREGATORS", "nic1:4711,"),
        ("OMNICCL_AGGREGATORS", "nic1:0"),
        ("OMNICCL_AGGREGATORS", "nic1:70000"),
        ("OMNICCL_AGGREGATORS", "fd00::5:4711"),
        ("OMNICCL_IFACE", "eth0 eth1"),
        ("OMNICCL_PORT_RANGE", "40100-40000"),
        ("OMNICCL_PORT_RANGE", "0-10"),
        ("OMNICCL_PORT_RANGE", "40000-70000"),
        ("OMNICCL_PORT_RANGE", "all"),
    ],
)
def test_a_wrong_value_is_refused_by_name_with_what_is_allowed(name: str, text: str) -> None:
    setting = next(one for one in SETTINGS if one.name == name)
    with pytest.raises(SettingError) as refusal:
        Config.from_env({name: text})
    assert name in str(refusal.value)
    assert repr(text) in str(refusal.value)
    assert setting.allowed in str(refusal.value)


def test_aggregators_are_a_list_and_need_a_secret() -> None:
    text = "nic1:4711, 10.0.0.5:80,[fd00::5]:4711"
    config = Config.from_env({"OMNICCL_AGGREGATORS": text, "OMNICCL_SECRET_FILE": "/s"})
    assert config.aggregators == ("nic1:4711", "10.0.0.5:80", "[fd00::5]:4711")
    with pytest.raises(SettingError, match="OMNICCL_SECRET_FILE"):
        Config.from_env({"OMNICCL_AGGREGATORS": "nic1:4711"})


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
