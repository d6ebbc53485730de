"""A hang or a crash loses one task: the next one is answered by a new process."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import as_completed
from pathlib import Path

import helpers
import pytest

from fireiron import FireironError
from fireiron.jit.process import Lost, Process, Processes
from fireiron.jit.worker import Ended
from fireiron.tune.machine import Machine
from fireiron.tune.measurer import GpuMeasurer


@pytest.fixture
def process():
    made = Process()
    yield made
    made.kill()


def test_a_function_runs_elsewhere_and_may_print(process: Process) -> None:
    assert process.call(helpers.double, 21, limit_s=30) == 42


def test_a_hang_is_killed(process: Process) -> None:
    process.call(helpers.double, 1, limit_s=30)
    begin = time.perf_counter()
    with pytest.raises(Lost, match="no answer within") as raised:
        process.call(helpers.nap, 60, limit_s=0.3)
    assert raised.value.code == "hang"
    assert time.perf_counter() - begin < 5
    assert process.call(helpers.double, 2, limit_s=30) == 4


def test_a_crash_is_told(process: Process) -> None:
    with pytest.raises(Lost, match="exit code 7") as raised:
        process.call(helpers.die, 7, limit_s=30)
    assert raised.value.code == "crash"
    with pytest.raises(Lost, match="SIGSEGV: about to crash"):
        process.call(helpers._do, "crash", limit_s=30)
    assert process.call(helpers.double, 3, limit_s=30) == 6


def test_exceptions_come_back(process: Process) -> None:
    with pytest.raises(ValueError, match="an illegal address"):
        process.call(helpers._do, "raise", limit_s=30)
    with pytest.raises(RuntimeError, match="function"):
        process.call(helpers.unpicklable, limit_s=30)
    assert process.call(helpers.double, 4, limit_s=30) == 8


def test_processes_are_an_executor() -> None:
    with Processes(2, limit_s=2.0) as executor:
        good = [executor.submit(helpers.double, i) for i in range(5)]
        bad = executor.submit(helpers.die, 1)
        assert sorted(f.result() for f in as_completed(good)) == [0, 2, 4, 6, 8]
        assert isinstance(bad.exception(), Lost)
        assert executor.submit(helpers.double, 9).result() == 18


def test_a_shutdown_at_once_cancels_what_waits() -> None:
    executor = Processes(1, limit_s=60)
    first, second = executor.submit(helpers.nap, 60), executor.submit(helpers.double, 1)
    time.sleep(0.2)
    begin = time.perf_counter()
    executor.shutdown(cancel_futures=True)
    assert time.perf_counter() - begin < 10
    assert isinstance(first.exception(), Lost)
    assert second.cancelled()


@pytest.fixture
def measurer():
    made = GpuMeasurer(
        None, 0, Machine("", "sm_90a"), session=helpers.FakeSession, made=lambda built, spec: None, trial_limit_s=1.5
    )
    yield made
    made.close()


def test_a_candidate_that_ends_the_session_is_out_alone(measurer: GpuMeasurer) -> None:
    assert measurer.trial(0, helpers.built("good"), 3) == (1.0, 1.0, 1.0)
    codes = [measurer.trial(i, helpers.built(what), 3).code for i, what in enumerate(("hang", "crash", "raise"), 1)]  # type: ignore[union-attr]
    assert codes == ["hang", "crash", "ValueError"]
    wrong = measurer.trial(4, helpers.built("wrong"), 3)
    assert (wrong.stage, wrong.code) == ("verify", "wrong-result")  # type: ignore[union-attr]
    found, lost = measurer.sample([0], 2)  # loaded again in the new session
    assert (dict(found), lost) == ({0: [2.0, 2.0]}, {})


def test_who_fails_late_is_found_and_the_others_go_on(measurer: GpuMeasurer) -> None:
    for i, what in enumerate(("good", "late crash", "also good")):
        measurer.trial(i, helpers.built(what), 1)
    found, lost = measurer.sample([0, 1, 2], 2)
    assert sorted(found) == [0, 2]
    assert {i: f.code for i, f in lost.items()} == {1: "crash"}


def test_errors_of_the_library_keep_their_code(process: Process) -> None:
    from fireiron.algebra.arch import arch

    with pytest.raises(FireironError) as raised:
        process.call(arch, "sm_1", limit_s=30)
    assert raised.value.code == "unknown-arch"


def test_a_task_that_exits_ends_alone(process: Process) -> None:
    with pytest.raises(Ended, match="SystemExit: 3"):
        process.call(helpers.leave, 3, limit_s=30)
    assert process.alive
    with Processes(1, limit_s=30) as executor:
        assert isinstance(executor.submit(helpers.leave, 3).exception(), Ended)
        assert isinstance(executor.submit(helpers.die, 3).exception(), Lost)
        assert executor.submit(helpers.double, 3).result() == 6


def test_a_fork_neither_answers_twice_nor_holds_up(process: Process, tmp_path: Path) -> None:
    assert process.call(helpers.fork_and_return, 5, limit_s=30) == 5
    assert [process.call(helpers.double, i, limit_s=30) for i in range(4)] == [0, 2, 4, 6]
    begin = time.perf_counter()
    with pytest.raises(Lost, match="exit code 4"):  # the child holds the pipe, and is not waited for
        process.call(helpers.fork_and_die, str(tmp_path / "pid"), 4, limit_s=60)
    assert time.perf_counter() - begin < 20
    child = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the child of a lost task lives on")
    assert process.call(helpers.double, 5, limit_s=30) == 10


def test_a_task_reads_no_questions_and_prints_without_harm(process: Process) -> None:
    assert process.call(helpers.read_all, limit_s=30) == ""
    assert process.call(helpers.double, 6, limit_s=30) == 12
    with pytest.raises(OSError, match="too large"):
        process.call(helpers.print_much, limit_s=60)
    assert process.call(helpers.double, 7, limit_s=30) == 14


@pytest.mark.parametrize("how", ["script", "interactive", "module"])
def test_modules_of_the_current_folder_do_not_run(how: str, tmp_path: Path) -> None:
    """Where a worker starts, foreign files may be called as what it imports."""
    for name in ("attrs", "numpy", "queue", "pickle", "fireiron"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    script = (
        "import sys, os\n"
        "import fireiron.jit.process, fireiron.tune.candidates\n"  # what this process has found is its own
        f"os.chdir({str(tmp_path)!r})\n"
        + {"script": "", "interactive": "sys.path.insert(0, '')\n", "module": "sys.path.insert(0, os.getcwd())\n"}[how]
        + "from fireiron.jit.process import Process\n"
        "made = Process()\n"
        "print(made.call(fireiron.tune.candidates.preset, dict, limit_s=60).name, made.call(os.getcwd, limit_s=60))\n"
        "made.kill()\n"
    )
    said = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["builtins.dict", str(tmp_path)]
    assert not (tmp_path / "ran").exists()


def test_modules_beside_a_script_are_found(tmp_path: Path, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside_me.py").write_text("def nine():\n    return 9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import beside_me  # pyright: ignore[reportMissingImports]

    assert process.call(beside_me.nine, limit_s=30) == 9
