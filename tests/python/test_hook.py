"""When Horovod is hooked, and what the import of the package costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import python

# What every order of imports must come to.
HOOKED = """
state = hvd_omniccl.hook.state()
assert state.module is not None, state.failure
assert set(state.classes) <= {"GlooAllreduce", "MPIAllreduce"} and state.classes
import horovod.tensorflow as hvd
assert hvd.allreduce._omniccl_wrapped and hvd._allreduce._omniccl_wrapped
print("HOOKED")
"""


@pytest.mark.parametrize(
    "imports",
    [
        "import hvd_omniccl\nassert hvd_omniccl.hook.state().module is None\nimport horovod.tensorflow",
        "import horovod.tensorflow\nimport hvd_omniccl",
        "import hvd_omniccl\nimport horovod.tensorflow.keras",
        "import hvd_omniccl\nimport horovod.keras",
    ],
)
def test_both_imports_in_any_order_hook_horovod(imports: str, tmp_path: Path) -> None:
    done = python(imports + HOOKED, tmp_path)
    assert done.stdout == "HOOKED\n", done.stderr


def test_the_import_alone_is_quick_and_quiet(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "begin = time.process_time()\n"
        "import hvd_omniccl\n"
        "assert time.process_time() - begin < 0.3\n"
        "assert hvd_omniccl.stats() == hvd_omniccl.Stats()\n"
        "hvd_omniccl.reset_stats()\n"
        "assert not {'tensorflow', 'horovod', 'click', 'numpy'} & set(sys.modules)\n"
    )
    done = python(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# Finds neither, as if they were not installed.
WITHOUT = """
import importlib.abc, importlib.util, sys
class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("tensorflow", "horovod"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("tensorflow", "horovod") else find(name, *rest)
"""


def test_without_tensorflow_and_horovod_it_is_idle_until_it_is_used(tmp_path: Path) -> None:
    program = WITHOUT + (
        "import hvd_omniccl\n"
        "assert hvd_omniccl.stats() == hvd_omniccl.Stats()\n"
        "try: hvd_omniccl.omniccl.compress(None)\n"
        "except hvd_omniccl.NotHookedError as error: print(error)\n"
    )
    done = python(program, tmp_path)
    assert done.stderr == ""
    assert "the package tensorflow is not installed (pip install hvd_omniccl[tensorflow])" in done.stdout


def test_compress_without_horovod_says_what_to_import(tmp_path: Path) -> None:
    program = (
        "import hvd_omniccl\n"
        "try: hvd_omniccl.omniccl.compress(None)\n"
        "except hvd_omniccl.NotHookedError as error: print(error)\n"
    )
    assert "horovod.tensorflow is not imported. Import it" in python(program, tmp_path).stdout


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OMNICCL_TIMEOUT", "soon", "OMNICCL_TIMEOUT is 'soon'"),
        ("OMNICCL_INTERCEPTS", "all", "did you mean OMNICCL_INTERCEPT?"),
    ],
)
def test_a_wrong_setting_is_refused_at_import(name: str, value: str, message: str, tmp_path: Path) -> None:
    done = python("import hvd_omniccl", tmp_path, {name: value})
    assert done.returncode == 1
    assert "SettingError" in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    "fault",
    [
        "def fail(config): raise adapter.AdapterError('no compiler here')\nadapter.load = fail",
        "def fail(config): raise RuntimeError('no compiler here')\nadapter.load = fail",
    ],
)
def test_a_failure_to_hook_warns_and_leaves_horovod_as_it_is(fault: str, tmp_path: Path) -> None:
    program = (
        "import hvd_omniccl, warnings\n"
        "from hvd_omniccl import adapter, omniccl\n"
        f"{fault}\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    warnings.simplefilter('always')\n"
        "    import horovod.tensorflow as hvd\n"
        "ours = [str(one.message) for one in seen if 'hvd_omniccl' in str(one.message)]\n"
        "assert len(ours) == 1 and 'no compiler here' in ours[0], ours\n"
        "import tensorflow as tf\n"
        "hvd.init()\n"
        "assert hvd.allreduce(tf.ones(3)).numpy().tolist() == [1, 1, 1]\n"
        "assert hvd_omniccl.stats() == hvd_omniccl.Stats()\n"
        "try: hvd.allreduce(tf.ones(3), compression=omniccl)\n"
        "except hvd_omniccl.NotHookedError as error: print(error)\n"
    )
    done = python(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Horovod is not hooked" in done.stdout
    assert "no compiler here" in done.stdout


def test_with_all_a_failure_to_hook_is_an_error_of_the_first_reduction(tmp_path: Path) -> None:
    program = (
        "import hvd_omniccl\n"
        "from hvd_omniccl import adapter\n"
        "def fail(config): raise adapter.AdapterError('no compiler here')\n"
        "adapter.load = fail\n"
        "import horovod.tensorflow as hvd, tensorflow as tf\n"
        "hvd.init()\n"
        "try: hvd.allreduce(tf.ones(3))\n"
        "except hvd_omniccl.NotHookedError as error: print(error)\n"
    )
    done = python(program, tmp_path, {"OMNICCL_INTERCEPT": "all"})
    assert "OMNICCL_INTERCEPT=all cannot work" in done.stdout, done.stderr
    assert "no compiler here" in done.stdout
