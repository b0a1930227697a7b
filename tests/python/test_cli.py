"""The command `omniccl`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from programs import BIN, python, run

from hvd_omniccl.config import SETTINGS, markdown_table

OMNICCL = str(BIN / "omniccl")


def script(folder: Path, text: str, name: str = "train.py") -> str:
    (folder / name).write_text(textwrap.dedent(text))
    return name


SAYS_WHERE_IT_IS = """
    import os, pickle, sys
    print(__name__, __file__, sys.argv, sys.path[0] == os.path.dirname(os.path.realpath(__file__)))
    class Local: pass
    assert sys.modules["__main__"].Local is Local
    assert type(pickle.loads(pickle.dumps(Local()))) is Local
"""


@pytest.mark.parametrize("arguments", [[], ["--intercept", "off"], ["-m", "--help"], ["--", "-x", "--json"]])
def test_a_script_sees_what_it_sees_under_python(arguments: list[str], tmp_path: Path) -> None:
    name = script(tmp_path, SAYS_WHERE_IT_IS)
    expected = run([sys.executable, name, *arguments], tmp_path)
    assert expected.stdout.endswith(" True\n"), expected.stderr
    actual = run([OMNICCL, "run", name, *arguments], tmp_path)
    assert (actual.stdout, actual.stderr, actual.returncode) == (expected.stdout, expected.stderr, 0)


def test_a_module_and_a_folder_run_too(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    script(tmp_path / "job", "import sys, helper\nprint(__name__, sys.argv[1:], helper.__name__)", "__main__.py")
    script(tmp_path / "job", "", "helper.py")
    script(tmp_path, "import sys\nprint(__name__, sys.argv[1:], sys.path[0])", "train.py")
    for arguments in (["job", "--epochs", "3"], ["-m", "train", "-m", "x"]):
        expected = run([sys.executable, *arguments], tmp_path)
        actual = run([OMNICCL, "run", *arguments], tmp_path)
        assert (actual.stdout, actual.returncode) == (expected.stdout, 0), actual.stderr
        assert actual.stdout.startswith("__main__ ")


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit(7)",
        "raise SystemExit('a message')",
        "import sys\nsys.exit()",
        "def f():\n    raise ValueError('wrong')\nf()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error",
        "this is no python",
        "raise KeyboardInterrupt",
        "import os\nos._exit(3)",
    ],
)
def test_a_script_ends_as_under_python(text: str, tmp_path: Path) -> None:
    name = script(tmp_path, text)
    expected = run([sys.executable, name], tmp_path)
    actual = run([OMNICCL, "run", name], tmp_path)
    assert actual.returncode == expected.returncode
    # The path of the script: python makes it absolute for the traceback in some versions.
    assert actual.stderr.replace(f"{tmp_path}/", "") == expected.stderr.replace(f"{tmp_path}/", "")


def test_an_interrupt_ends_a_script_as_under_python(tmp_path: Path) -> None:
    name = script(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()")
    done = run([OMNICCL, "run", name], tmp_path)
    assert done.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in done.stderr


@pytest.mark.parametrize(
    ("options", "extra", "mode"),
    [
        ([], {}, "all"),
        ([], {"OMNICCL_INTERCEPT": ""}, "all"),
        ([], {"OMNICCL_INTERCEPT": "tagged"}, "tagged"),
        (["--intercept", "off"], {"OMNICCL_INTERCEPT": "tagged"}, "off"),
    ],
)
def test_an_option_beats_the_environment_beats_all(
    options: list[str], extra: dict[str, str], mode: str, tmp_path: Path
) -> None:
    name = script(tmp_path, "import hvd_omniccl, os\nprint(hvd_omniccl.hook.state().config.intercept)")
    assert run([OMNICCL, "run", *options, name], tmp_path, extra).stdout == f"{mode}\n"


def test_a_script_that_imports_horovod_is_hooked(tmp_path: Path) -> None:
    name = script(
        tmp_path,
        """
        import horovod.tensorflow as hvd, tensorflow as tf
        hvd.init()
        assert hvd.allreduce(tf.ones(3)).numpy().tolist() == [1, 1, 1]
        import hvd_omniccl
        print(hvd_omniccl.stats().tensors)
        """,
    )
    done = run([OMNICCL, "run", name], tmp_path)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'SCRIPT'"),
        (["run", "missing.py"], "there is no file missing.py"),
        (["run", "--intercept", "some", "x.py"], "'some' is not one of"),
        (["frobnicate"], "No such command 'frobnicate'"),
    ],
)
def test_wrong_usage_is_status_2_with_the_reason(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = run([OMNICCL, *arguments], tmp_path)
    assert done.returncode == 2
    assert message in done.stderr


def test_python_m_is_the_same_program_and_all_commands_have_help(tmp_path: Path) -> None:
    module = [sys.executable, "-m", "hvd_omniccl"]
    for arguments in (["--help"], ["--version"], *([command, "--help"] for command in ("run", "adapter", "doctor"))):
        done = run([OMNICCL, *arguments], tmp_path)
        assert done.returncode == 0
        assert done.stdout == run([*module, *arguments], tmp_path).stdout


def test_adapter_prints_the_path_of_the_adapter(tmp_path: Path) -> None:
    done = run([OMNICCL, "adapter"], tmp_path)
    assert Path(done.stdout.strip()).is_file(), done.stderr


def test_settings_in_three_forms(tmp_path: Path) -> None:
    extra = {"OMNICCL_BLOCK_SIZE": "1", "OMNICCL_CHECKSUM": "off"}

    def settings(form: str) -> subprocess.CompletedProcess[str]:
        return run([OMNICCL, "settings", "--format", form], tmp_path, extra)

    assert settings("markdown").stdout.strip() == markdown_table()
    values = {one["name"]: one for one in json.loads(settings("json").stdout)}
    assert set(values) == {setting.name for setting in SETTINGS}
    assert values["OMNICCL_BLOCK_SIZE"]["value"] == "1"
    assert values["OMNICCL_BLOCK_SIZE"]["source"] == "environment"
    assert values["OMNICCL_CHECKSUM"]["value"] == "off"
    assert (values["OMNICCL_TIMEOUT"]["value"], values["OMNICCL_TIMEOUT"]["source"]) == ("30.0", "default")
    assert "OMNICCL_BLOCK_SIZE" in settings("table").stdout


@pytest.mark.parametrize("command", [["doctor"], ["run", "x.py"], ["settings"], ["--help"]])
def test_a_wrong_setting_is_said_in_one_line(command: list[str], tmp_path: Path) -> None:
    done = run([OMNICCL, *command], tmp_path, {"OMNICCL_BLOCK_SIZE": "0"})
    assert done.returncode == 1
    assert done.stderr == "omniccl: OMNICCL_BLOCK_SIZE is '0'; allowed: 1 to 65536\n"
    assert done.stdout == ""


def test_doctor_is_content_here(tmp_path: Path) -> None:
    done = run([OMNICCL, "doctor", "--json"], tmp_path, {"OMNICCL_TIMEOUT": "7"})
    assert done.returncode == 0, done.stdout + done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert {"hvd_omniccl", "TensorFlow", "Horovod", "hook", "kernels", "transports", "settings"} <= set(checks)
    assert not [check for check in checks.values() if check["status"] == "fail"]
    assert "GlooAllreduce" in checks["hook"]["detail"]
    assert "OMNICCL_TIMEOUT=7 (environment)" in checks["settings"]["detail"]


@pytest.mark.parametrize(
    ("fault", "name", "remedy"),
    [
        ("sys.modules['horovod.tensorflow'] = None", "Horovod", "pip install"),
        ("adapter.horovod_library = lambda: '/lib/x86_64-linux-gnu/libm.so.6'", "hook", ""),
    ],
)
def test_doctor_finds_what_is_wrong(fault: str, name: str, remedy: str, tmp_path: Path) -> None:
    program = f"import sys\nfrom hvd_omniccl import adapter, cli\nsys.argv[1:] = ['doctor']\n{fault}\ncli.main()"
    done = python(program, tmp_path)
    assert done.returncode == 1
    assert f"FAIL  {name}: " in done.stdout
    assert remedy in done.stdout
    assert "Traceback" not in done.stderr
