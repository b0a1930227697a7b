"""The adapter: its cache, its lock, and what is said when it cannot be built."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import tarfile
from pathlib import Path

import horovod.tensorflow  # noqa: F401  (hooks it)
import pytest

from hvd_omniccl import AdapterError, adapter, hook, local_build
from hvd_omniccl.config import Config

BUILD = adapter.HorovodBuild(
    version="0.28.1",
    tensorflow_version="2.15.1",
    features=("GLOO", "MPI"),
    tensorflow_include="/tf/include",
    cxx11_abi=1,
    mpi_compile_flags="-I/mpi",
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("project(x)")
    (folder / "module.cpp").write_text("int x;")
    return folder


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    archive = tmp_path / "libomniccl_engine.a"
    archive.write_bytes(b"!<arch>\n")
    return archive


def horovod_source(folder: Path, version: str) -> Path:
    (folder / "horovod").mkdir(parents=True)
    (folder / "horovod" / "__init__.py").write_text(f"__version__ = '{version}'\n")
    return folder


def test_the_installed_adapter_fits() -> None:
    state = hook.state()
    assert state.module is not None, state.failure
    info = state.module.build_info()
    assert info["horovod_version"] == adapter.inspect_horovod().version
    report = state.module.attach(
        str(adapter.horovod_library()),
        intercept="off",  # the first settings stay: a second call only reports
        block_elements=0,
        slot_memory_bytes=0,
        aggregators=[],
        secret_file="",
        interface="",
        first_port=0,
        last_port=0,
        payload_checksum=True,
        huge_pages=True,
        transport="auto",
        congestion_control="auto",
        timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        kernels="auto",
        package_version="0",
    )
    attached = {entry["class_name"] for entry in report if entry["attached"]}
    classes = {"gloo": "GlooAllreduce", "mpi": "MPIAllreduce"}
    assert attached == {name for feature, name in classes.items() if info["features"][feature]}


def test_the_key_changes_with_all_that_changes_the_binary(source: Path, engine: Path) -> None:
    keys = {adapter.cache_key(BUILD, source, engine)}
    changes = {
        "version": "0.28.2",
        "tensorflow_version": "2.15.0",
        "features": ("GLOO",),
        "tensorflow_include": "/other",
        "cxx11_abi": 0,
        "mpi_compile_flags": "",
    }
    assert set(changes) == {field.name for field in dataclasses.fields(BUILD)}
    for name, value in changes.items():
        keys.add(adapter.cache_key(dataclasses.replace(BUILD, **{name: value}), source, engine))
    (source / "module.cpp").write_text("int y;")
    keys.add(adapter.cache_key(BUILD, source, engine))
    engine.write_bytes(b"other")
    keys.add(adapter.cache_key(BUILD, source, engine))
    assert len(keys) == len(changes) + 3
    assert adapter.cache_key(BUILD, source, engine) in keys


def hold_lock(folder: Path, log: Path) -> None:
    with local_build.locked(folder, "key"), log.open("a") as sink:
        for word in ("enter", "leave"):
            sink.write(f"{word} {os.getpid()}\n")
            sink.flush()


def test_one_process_at_a_time_builds(tmp_path: Path) -> None:
    log = tmp_path / "log"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=hold_lock, args=(tmp_path, log)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    lines = [line.split() for line in log.read_text().splitlines()]
    assert len(lines) == 6
    for enter, leave in zip(lines[::2], lines[1::2]):
        assert (enter[0], leave[0]) == ("enter", "leave")
        assert enter[1] == leave[1]


def test_a_failed_build_leaves_nothing_and_says_what_to_do(source: Path, tmp_path: Path) -> None:
    (source / "CMakeLists.txt").write_text(
        'cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\nmessage(FATAL_ERROR "omniccl: type this")\n'
    )
    config = Config.from_env({"OMNICCL_CACHE_DIR": str(tmp_path / "cache")})
    config = dataclasses.replace(config, horovod_source=horovod_source(tmp_path / "horovod", "0.28.1"))
    config.cache_dir.mkdir()
    with pytest.raises(AdapterError, match=r"^type this$"):
        adapter._build(BUILD, config, source, config.cache_dir / "key")
    assert list(config.cache_dir.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_an_error_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AdapterError, match="OMNICCL_CACHE_DIR"), local_build.locked(tmp_path / "file" / "cache", "key"):
        pass


def test_horovods_source_comes_as_a_folder_or_an_archive(tmp_path: Path) -> None:
    folder = horovod_source(tmp_path / "horovod-0.28.1", "0.28.1")
    archive = tmp_path / "horovod-0.28.1.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    for given in (folder, archive):
        config = Config.from_env({"OMNICCL_HOROVOD_SOURCE": str(given)})
        found = local_build.horovod_source("0.28.1", config, tmp_path)
        assert (found / "horovod" / "__init__.py").is_file()
        with pytest.raises(AdapterError, match=r"is Horovod 0\.28\.1, installed is 0\.29\.0"):
            local_build.horovod_source("0.29.0", config, tmp_path / "other")


@pytest.mark.parametrize("given", ["missing", "empty"])
def test_a_wrong_source_is_refused(given: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    config = Config.from_env({"OMNICCL_HOROVOD_SOURCE": str(tmp_path / given)})
    with pytest.raises(AdapterError, match=given):
        local_build.horovod_source("0.28.1", config, tmp_path)


def test_another_horovod_than_compiled_for_is_refused() -> None:
    module = hook.state().module
    installed = adapter.inspect_horovod()
    for other in (
        dataclasses.replace(installed, version="0.27.0"),
        dataclasses.replace(installed, features=("CCL",)),
    ):
        with pytest.raises(AdapterError, match="python -m hvd_omniccl adapter"):
            adapter._check_built_for(module, other)


class GpuHorovod:
    """Answers as a build for GPUs does."""

    def __getattr__(self, name: str) -> object:
        return lambda: name == "nccl_built"


def test_a_gpu_build_is_refused_by_name() -> None:
    with pytest.raises(AdapterError, match=r"NCCL.*CPU builds only"):
        adapter._refuse_unsupported(GpuHorovod())
