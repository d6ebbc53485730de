"""The command line: each verb on a preset, as people read it and as JSON, and what each mistake says."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fireiron.front.cli import RIGHT, USAGE, WRONG, main
from fireiron.front.cli.find import presets

ROOT = Path(__file__).resolve().parents[2]
SMALL = ("--shape", "128x128x32")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIREIRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command: its exit code, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def data(call: Callable[..., tuple[int, str, str]]) -> Callable[..., Any]:
    """Run a command that succeeds with --json: the data, which is all of stdout."""

    def run(*words: str) -> Any:
        code, out, err = call(*words, "--json")
        assert code == RIGHT, err
        return json.loads(out)

    return run


def test_every_preset_builds_as_it_is_listed(call: Any) -> None:
    """Sizes, types and layouts by default are those that the preset takes."""
    for target in presets():
        told = [word for keyword in target.keywords if keyword.required for word in (keyword.option, "1")]
        code, _, err = call("emit", target.reference, *told)
        assert code == RIGHT, err
        if told:
            _, _, err = call("emit", target.reference)
            assert (
                f"the following arguments are required: {told[0]}\nfix: see fireiron emit {target.reference} --help"
                in err
            )


def test_a_preset_is_found_in_its_file_alone() -> None:
    script = (
        "import sys\nfrom fireiron.front.cli.find import find\n"
        "assert find('simt.sgemm').reference == 'simt.sgemm'\n"
        "print(*(name for name in sys.modules if name.startswith('fireiron.schedules.')))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "fireiron.schedules.simt" in done.stdout.split()
    assert "fireiron.schedules.conv" not in done.stdout.split()


def test_a_move_is_asked_for_by_its_shape(call: Any, data: Any) -> None:
    assert data("run", "pointwise.move", "--shape", "100x60", "--dtype", "f32:f16", "--layout", "row,col")["spec"] == (
        "Move(100, 60)(GL, GL)(Kernel)"
    )
    assert data("show", "pointwise.move")["schedule"].startswith("Move(256, 256)(GL, GL)(Kernel)")
    for words, said in (
        (("run", "pointwise.move", "--shape", "1x2x3"), "--shape 1x2x3: a Move has 2 extents\nfix: write --shape MxN"),
        (("run", "simt.sgemm", "--shape", "12x12"), "--shape 12x12: a product has 3 extents\nfix: write --shape MxNxK"),
        (("run", "pointwise.move", "--batch", "3"), "a Move has no --batch"),
        (("tune", "pointwise.move"), "pointwise.move schedules a Move"),
    ):
        code, _, err = call(*words)
        assert code == USAGE
        assert said in err


def test_an_error_shows_no_line_of_the_command_line_itself(call: Any) -> None:
    code, _, err = call("run", "volta.tvm", "--dtype", "f16")
    assert code == WRONG
    assert err.startswith("FireironError[result-type]: C is f16 and the accumulator f32")
    assert "-->" not in err


def test_list_names_presets_with_their_keywords(call: Any, data: Any) -> None:
    code, out, _ = call("list")
    assert code == RIGHT
    assert "simt.listing2\n    Schedule as the paper's Listing 2" in out
    assert "--m 128" in out
    found = {preset["name"]: preset for preset in data("list")["presets"]}
    assert found["simt.listing1"]["keywords"] == []
    assert found["simt.listing2"]["shape"] == [256, 256, 128]
    warp = next(k for k in found["simt.sgemm"]["keywords"] if k["name"] == "warp")
    assert warp == {"name": "warp", "option": "--warp", "type": "tuple", "default": None}


def test_show_prints_the_tree(call: Any, data: Any) -> None:
    code, out, _ = call("show", "simt.listing2", "--k", "16")
    assert code == RIGHT
    assert out.startswith("MatMul(256, 256, 128)(GL, GL, GL)(Kernel)\n")
    assert "split 16" in out
    assert max(map(len, out.splitlines())) <= 80
    found = data("show", "simt.listing2", "--width", "100")
    assert found["finished"] is True
    assert found["name"] == "listing2_128x128x8_f32"
    assert found["tree"][0] == "MatMul(256, 256, 128)(GL, GL, GL)(Kernel)"


def test_check_tells_findings_and_facts(call: Any, data: Any) -> None:
    code, out, _ = call("check", "simt.listing2", "--arch", "sm_80")
    assert code == RIGHT
    assert "threads: 256" in out
    found = data("check", "simt.listing2", "--arch", "sm_80")
    assert found["right"] is True
    assert found["facts"]["threads"] == 256
    assert {"severity", "code", "message"} <= found["findings"][0].keys()


def test_check_tells_every_error_and_is_wrong(call: Any) -> None:
    # 64 KiB of A and 64 KiB of B, where a block of sm_86 has 99 KiB.
    words = ("check", "simt.listing2", "--k", "128", "--arch", "sm_86", "--json")
    code, out, _ = call(*words)
    found = json.loads(out)
    assert code == WRONG
    assert found["right"] is False
    assert "shared-memory" in {f["code"] for f in found["findings"] if f["severity"] == "error"}


def test_explain_and_estimate(call: Any, data: Any) -> None:
    code, out, _ = call("explain", "simt.listing2")
    assert code == RIGHT
    assert "split 8" in out
    assert data("explain", "simt.listing2")["explanation"]["rows"][0]["link"] == "tile 128x128 to Block"
    code, out, _ = call("estimate", "simt.listing2", "--arch", "sm_90a")
    assert code == RIGHT
    assert out
    assert data("estimate", "simt.listing2", "--arch", "sm_90a")["estimate"]


@pytest.mark.parametrize("between", [(), ("--",)])
def test_diff_takes_two_schedules_with_options_of_their_own(call: Any, data: Any, between: tuple[str, ...]) -> None:
    words = ("diff", "simt.listing2", "--k", "8", *between, "simt.listing2", "--k", "16", *SMALL)
    code, out, _ = call(*words)
    assert code == RIGHT
    assert "8" in out
    assert "16" in out
    assert data(*words)["schedules"] == ["simt.listing2 k=8", "simt.listing2 k=16"]


def test_diff_of_one_schedule_is_usage(call: Any) -> None:
    code, _, err = call("diff", "simt.listing2")
    assert code == USAGE
    assert "name two schedules" in err


def test_emit_prints_cuda_alone(call: Any, tmp_path: Path) -> None:
    code, out, _ = call("emit", "simt.listing1")
    assert code == RIGHT
    assert 'extern "C"' in out
    path = tmp_path / "kernel.cu"
    code, said, _ = call("emit", "simt.listing1", "-o", str(path))
    assert code == RIGHT
    assert path.read_text() == out
    assert said.startswith(f"{path}: listing1")


def test_sizes_of_packed_elements_are_whole_bytes(data: Any) -> None:
    found = data("run", "turing.gemm", "--shape", "MxNxK", "--dtype", "i4", "--layout", "TN", "--set", "K=64")
    assert found["right"] is True
    assert found["bound"] == "exact"


def test_emit_json_is_enough_to_launch(data: Any) -> None:
    found = data("emit", "simt.listing2", "--shape", "Mx256x64")
    assert found["entry"] in found["source"]
    assert found["block"] == [256, 1, 1]
    assert found["cluster"] == 1
    assert found["tensor_maps"] == []
    assert "M" in found["grid"]
    assert isinstance(found["shared_nbytes"], int)
    assert [p["name"] for p in found["parameters"]] == ["A", "B", "C", "M"]


def test_compile_tells_resources_and_the_cache(call: Any, data: Any, tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    path = tmp_path / "k.cubin"
    words = ("compile", "simt.listing1", "--arch", "sm_80")
    first = data(*words, "-o", str(path))
    assert first["cache"] == "miss"
    assert first["registers"] > 0
    assert first["spill_stores"] == 0
    assert path.read_bytes()[:4] == b"\x7fELF"
    assert first["cubin_nbytes"] == path.stat().st_size
    code, out, _ = call(*words)
    assert code == RIGHT
    assert "cache      hit" in out
    assert data(*words, "--no-cache")["cache"] == "off"
    code, out, err = call(*words, "--ptx")
    assert ".visible .entry" in out
    assert "registers:" in err
    assert call(*words, "--ptx", "--sass")[0] == USAGE


def test_compile_takes_a_cap_of_registers(data: Any) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC is not installed")
    words = ("compile", "simt.listing1", "--arch", "sm_80")
    assert data(*words)["registers"] > 24
    capped = (*words, "--max-registers", "24", "--allow-spills")
    assert data(*capped)["registers"] == 24
    capped = (*words, "--max-registers", "40")
    assert [data(*capped)["cache"] for _ in range(2)] == ["miss", "hit"], "a cap is a part of the entry's name"


@pytest.mark.parametrize("dtype", ["float16", "f16:f16:f32", "i8", "bf16", "f64"])
def test_simulate_verifies_every_dtype(data: Any, dtype: str) -> None:
    found = data("simulate", "simt.listing2", *SMALL, "--dtype", dtype, "--layout", "TN")
    assert found["right"] is True
    assert found["comparison"]["compared"] == 128 * 128
    assert found["comparison"]["ratio"] <= 1
    assert found["report"]["blocks"] == found["report"]["grid"] == 1
    assert found["bound"] == "exact" if dtype == "i8" else "√(K+2)" in found["bound"]
    assert found["verdict"] == "right"
    assert found["exact"]["exact"] == 128 * 128
    assert found["random"]["wrong"] == 0


def test_simulate_prints_traffic(call: Any) -> None:
    code, out, _ = call("simulate", "simt.listing2", *SMALL)
    assert code == RIGHT
    assert "simulated   1 of 1 block" in out
    assert "right       whole numbers: C: all 16384 elements right, each bit" in out
    assert "random numbers: C: all 16384 elements within bounds" in out
    assert not any(line.endswith(" ") for line in out.splitlines())


def test_blocks_verifies_what_was_written(data: Any) -> None:
    found = data("simulate", "simt.listing2", "--shape", "1024x1024x64", "--blocks", "2")
    assert found["right"] is True
    assert found["report"]["blocks"] == 2
    assert found["comparison"]["compared"] == 2 * 128 * 128
    assert found["comparison"]["total"] == 1024 * 1024


def test_run_says_where(call: Any, data: Any) -> None:
    # --blocks is the simulator's, so that this holds with and without a GPU.
    code, out, _ = call("run", "simt.sgemm", "--blocks", "4")
    assert code == RIGHT
    assert out.startswith("ran on    simulator (")
    assert data("run", "simt.sgemm", "--blocks", "4", "--seed", "7")["where"] == "simulator"


def test_persistent_presets_simulate_whole_or_in_part(data: Any) -> None:
    found = data("simulate", "hopper.gemm")
    assert found["right"] is True
    assert found["comparison"]["compared"] == found["comparison"]["total"]
    found = data("run", "hopper.gemm", "--shape", "2048x2048x128", "--layout", "TN", "--blocks", "1")
    assert found["right"] is True
    assert found["blocks"] < found["grid"]
    assert 0 < found["comparison"]["compared"] < found["comparison"]["total"]


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_run_on_a_gpu_verifies_before_it_times(call: Any, monkeypatch: pytest.MonkeyPatch, error: float) -> None:
    from fireiron.front import verbs
    from fireiron.front.cli import execute
    from fireiron.jit import driver
    from fireiron.jit.timing import summarise

    class Kernel:
        """Stand for a compiled kernel on a GPU."""

        def __call__(self, a: Any, b: Any, out: Any) -> None:
            out[...] = a @ b + error

        def time(self, flops: float) -> object:
            return summarise([2.0], "events", flops=flops)

    monkeypatch.setattr(driver, "probe", lambda: driver.DriverFacts((13, 0), 1))
    monkeypatch.setattr(verbs, "_gpu", lambda: 90)
    monkeypatch.setattr(execute, "_gpu_name", lambda: "H200")
    monkeypatch.setattr(verbs.Schedule, "compile", lambda self, arch: Kernel())
    code, out, _ = call("run", "simt.sgemm", "--json")
    found = json.loads(out)
    assert found["where"] == "GPU H200"
    assert found["right"] is (error == 0)
    assert code == (WRONG if error else RIGHT)
    if error:
        assert "timing" not in found
    else:
        assert found["timing"]["tflops"] == 2 * 256 * 256 * 128 / 2e-6 / 1e12


def test_symbols_and_scalars(data: Any) -> None:
    found = data(
        "simulate", "simt.listing2", "--shape", "Mx100xK", "--set", "M=70", "--set", "beta=0.5", "--beta", "beta",
        "--alpha", "2",
    )  # fmt: skip
    assert found["scalars"] == {"K": 128, "M": 70, "beta": 0.5}
    assert found["comparison"]["compared"] == 70 * 100


def test_a_long_simulation_is_refused_naming_what_fits(call: Any) -> None:
    code, out, err = call("run", "simt.sgemm", "--shape", "8192x4096x4096", "--blocks", "2000")
    assert (code, out) == (USAGE, "")
    assert "UsageError[long-simulation]: simulating 2000 of 2048 blocks takes about" in err
    words = dict(part.split(" ")[:2] for part in err.split("fix: ")[1].split("; "))
    assert words.keys() == {"--shape", "--blocks"}
    m, n, k = map(int, words["--shape"].split("x"))
    assert 0 < k == n < m < 4096
    assert 0 < int(words["--blocks"]) < 2000


def test_a_refused_shape_fits(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from fireiron.front.cli import limit

    monkeypatch.setattr(limit, "LIMIT_S", 0.5)
    _, _, err = call("simulate", "simt.listing2", "--shape", "1024x1024x1024")
    shape = err.split("--shape ")[1].split(" ")[0]
    assert call("simulate", "simt.listing2", "--shape", shape)[0] == RIGHT


def test_doctor_and_cache(call: Any, data: Any, tmp_path: Path) -> None:
    found = {fact["what"]: fact for fact in json.loads(call("doctor", "--json")[1])["facts"]}
    assert {"Python", "driver", "NVRTC", "nvdisasm", "cache", "works"} <= found.keys()
    code, out, _ = call("doctor")
    assert code == (RIGHT if found["works"]["ok"] else WRONG)
    assert "Python" in out
    folder = tmp_path / "cache"
    assert call("cache", "path") == (RIGHT, f"{folder}\n", "")
    folder.mkdir()
    (folder / "x.kernel").write_bytes(b"old")
    assert data("cache", "clear") == {"path": str(folder), "deleted": 1}
    assert not list(folder.iterdir())


def test_version_and_help_are_quick() -> None:
    began = time.perf_counter()
    script = (
        "import sys; from fireiron.front.cli import main; code = main(['--help']);"
        "print(sorted({'rich', 'cuda', 'torch', 'ml_dtypes'} & {n.split('.')[0] for n in sys.modules})); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert time.perf_counter() - began < 5  # 0.4 s on a quiet machine
    done = subprocess.run([sys.executable, "-m", "fireiron", "--version"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (RIGHT, "fireiron 0.1.0\n")


def test_help_shows_the_presets_options(call: Any) -> None:
    code, out, _ = call("run", "simt.sgemm", "--help")
    assert code == RIGHT
    assert "--warp" in out
    assert "(default: 128)" in out
    assert "options of simt.sgemm" in out
    assert "--shape MxNxK" in call("run", "--help")[1]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "arguments are required: VERB"),
        (("paint", "simt.sgemm"), "invalid choice: 'paint'"),
        (("run",), "name a schedule"),
        (("run", "--stages", "3", "simt.sgemm"), "UsageError[schedule-first]: 3 is no schedule"),
        (("run", "simt.sgem"), "there is no preset simt.sgem\nfix: did you mean simt.sgemm?"),
        (("show", "listing4"), "there is no preset listing4\nfix: did you mean simt.listing4?"),
        (("show", "zzz.zzz"), "there is no preset zzz.zzz\nfix: see fireiron list, or name path/file.py:function"),
        (("run", "simt.sgemm", "--shape", "12x"), "argument --shape: '' is neither a number nor a name"),
        (("run", "simt.sgemm", "--shape", "0x12x12"), "argument --shape: '0' is too small: extents start at 1"),
        (("run", "simt.sgemm", "--layout", "XY"), "argument --layout: unknown layout 'XY' of a product"),
        (("run", "simt.sgemm", "--dtype", "f7"), "UsageError[unknown-dtype]: unknown dtype 'f7'"),
        (("run", "simt.sgemm", "--dtype", "a:b:c:d"), "argument --dtype: 'a:b:c:d' is not in[:acc[:out]]"),
        (("run", "simt.sgemm", "--warp", "6.5"), "argument --warp: '6.5' is no whole numbers joined by x"),
        (("run", "simt.sgemm", "--stages", "two"), "argument --stages: 'two' is no whole number"),
        (("run", "simt.sgemm", "--paint", "1"), "unrecognized arguments: --paint 1"),
        (("check", "simt.sgemm", "--arch", "sm_80", "--arch", "sm_90a"), "--arch: has two values, sm_80 and sm_90a"),
        (("run", "simt.sgemm", "--shape", "8x8x8", "--shape", "8x8x4"), "--shape: has two values, 8x8x8 and 8x8x4"),
        (("run", "simt.sgemm", "--stages", "2", "--stages", "3"), "argument --stages: has two values, 2 and 3"),
        (("export", "simt.sgemm", "--arch", "sm_80,sm_1", "-o", "x"), "[unknown-arch]: unknown architecture 'sm_1'"),
        (("run", "simt.sgemm", "--blocks", "0"), "argument --blocks: '0' is no number from 1 on"),
        (("run", "simt.sgemm", "--set", "Q=3"), "UsageError[unknown-argument]"),
        (("check", "simt.sgemm", "--arch", "sm_1"), "[unknown-arch]: unknown architecture 'sm_1'"),
        (("emit", "simt.listing1", "-o", "/nowhere/x.cu"), "UsageError[cannot-write]: /nowhere/x.cu"),
    ],
)
def test_commands_that_cannot_be_understood(call: Any, words: tuple[str, ...], text: str) -> None:
    code, out, err = call(*words)
    assert code == USAGE
    assert out == ""
    assert text in err
    assert "Traceback" not in err


def test_errors_are_data_too(call: Any) -> None:
    code, out, err = call("run", "simt.sgem", "--json")
    assert code == USAGE
    assert json.loads(out)["error"]["code"] == "unknown-preset"
    assert err.startswith("UsageError[unknown-preset]")


def test_a_schedule_of_programs_is_named_with_its_program(call: Any) -> None:
    _, _, err = call("show", "attention.wgmma")
    assert "did you mean attention.attention --schedule wgmma" in err


def test_the_architecture_reaches_the_preset_too(call: Callable[..., tuple[int, str, str]]) -> None:
    words = ("fused.gemm_bias", "--dtype", "f16", "--layout", "row,col", "--shape", "256x256x64")
    _, out, _ = call("show", *words, "--arch", "sm_80")
    assert "done by mma.m16n8k16" in out
    _, out, _ = call("show", *words, "--arch", "sm_90a")
    assert "done by wgmma" in out
    _, out, _ = call("show", *words, "--help")
    assert "--preset-arch" not in out


@pytest.mark.product
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_120"])
@pytest.mark.parametrize("name", ["add_gemm_gemm", "swiglu", "lstm_pattern", "lstm_cell", "mlp", "mlp_block"])
def test_the_architecture_reaches_presets_of_several_products(call: Any, name: str, arch: str) -> None:
    code, out, err = call("check", f"fused.{name}", "--arch", arch)
    assert code == RIGHT, err
    assert arch in out


def test_operations_of_microkernels_are_not_counted_and_it_is_said(call: Any) -> None:
    _, out, _ = call("simulate", "simt.listing1", "--shape", "32x32x8")
    assert "0, without those of microkernels" in out
    _, out, _ = call("simulate", "simt.sgemm", "--shape", "128x128x8")
    assert "operations  262144\n" in out


def test_an_option_may_be_repeated_with_its_value(call: Any) -> None:
    words = ("--stages", "2", "--stages", "2", "--arch", "sm_80", "--arch", "sm_80")
    assert call("show", "simt.sgemm", *words)[0] == RIGHT


def test_help_needs_no_other_option(call: Any) -> None:
    code, out, err = call("export", "--help")
    assert (code, err) == (RIGHT, "")
    assert "--output" in out


def test_help_takes_little_time() -> None:
    """200 ms on a quiet machine: processor time, as a share of what plain arithmetic takes here now."""

    def elapsed(*words: str) -> float:
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True, env=environment)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began

    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
        elapsed("-m", "fireiron", "--help")  # writes bytecode
        pairs = [
            (elapsed("-m", "fireiron", "--help"), elapsed("-c", "sum(k * k for k in range(10**6))")) for _ in range(3)
        ]
    assert min(ours / plain for ours, plain in pairs) < 200 / 50, pairs  # that sum takes 50 ms on a quiet machine


def test_a_record_is_written_by_its_fields(call: Callable[..., tuple[int, str, str]]) -> None:
    words = ("show", "hopper.gemm", "--shape", "1024x1024x512", "--layout", "TN", "--plan")
    code, out, _ = call(*words, "n=192,pingpong,cluster=2x1")
    assert code == RIGHT
    assert "tile 128x192 to Block" in out
    assert "clusters of 2" in out
    for plan, said in {
        "q=3": "'q' is no field of Plan: use m, n, consumers,",
        "n": "n has no value: write n=INT",
        "n=x": "'x' is no whole number",
        "n=7": "n=7 is no multiple of 8",
        "pingpong=maybe": "'maybe' is no yes or no",
        "keep=up": "'up' is none of \"\", left, right",
    }.items():
        code, _, err = call(*words, plan)
        assert code == USAGE
        assert said in err


@pytest.mark.parametrize(
    "words", [("nonsense",), ("run",), ("run", "simt.sgemm", "--shape", "12x"), ("bench", "--what")]
)
def test_commands_that_cannot_be_understood_are_json_too(
    words: tuple[str, ...], call: Callable[..., tuple[int, str, str]]
) -> None:
    code, out, err = call(*words, "--json")
    assert code == USAGE
    assert json.loads(out)["error"]["code"] == "bad-command"
    assert err.startswith("UsageError[bad-command]: fireiron")


def test_completion(call: Callable[..., tuple[int, str, str]]) -> None:
    for shell in ("bash", "zsh", "fish"):
        code, out, _ = call("completion", shell)
        assert code == RIGHT
        assert "fireiron completion words" in out

    def offered(*words: str) -> list[str]:
        code, out, _ = call("completion", "words", *words)
        assert code == RIGHT
        return out.splitlines()

    assert offered("s") == ["show", "studio", "simulate"]
    assert offered("show", "hopper.g") == ["hopper.gemm"]
    assert "--plan" in offered("show", "hopper.gemm", "--")
    assert "--plan" not in offered("show", "simt.sgemm", "--")
    assert offered("show", "hopper.gemm", "--arch", "sm_9") == ["sm_90", "sm_90a"]
    assert offered("cache", "") == ["path", "clear"]
    assert offered("diff", "simt.listing2", "simt.sg") == ["simt.sgemm"]
    assert offered("nonsense", "x") == []


def test_bash_completes(tmp_path: Path, call: Callable[..., tuple[int, str, str]]) -> None:
    _, script, _ = call("completion", "bash")
    (tmp_path / "fireiron").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fireiron "$@"\n')
    (tmp_path / "fireiron").chmod(0o755)
    asks = 'COMP_WORDS=(fireiron show simt.sg); COMP_CWORD=2; _fireiron; echo "${COMPREPLY[@]}"'
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", f"{script}\n{asks}"], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("simt.sgemm\n", "")


def test_programs_of_a_presets_file_are_presets(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "rows.layernorm", "--m", "8", "--n", "100", "--dtype", "f16", "--warps", "2", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["right"]
    assert told["spec"].startswith("Program(8, 100)")
    assert main(["emit", "rows.group_norm"]) == 0
    assert 'extern "C" __global__' in capsys.readouterr().out
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert "rows.softmax" in listed
    assert "rows.row\n" not in listed


def test_programs_take_their_own_arguments_and_any_schedule(call: Callable[..., tuple[int, str, str]]) -> None:
    sizes = ("--h=6", "--w=6", "--r=3", "--s=3", "--stride=2", "--pad=1", "--arrays=bias,residual")
    code, out, _ = call("run", "conv.conv2d", *sizes, "--json")
    told = json.loads(out)
    assert (code, told["right"]) == (0, True)
    assert told["spec"].startswith("Program(4, 3, 3, 4,")
    assert "(5 GL)" in told["spec"]  # images, filters, bias, residual, result
    channels = ("--channel=16", "--c=16", "--k=16")
    code, out, _ = call("emit", "conv.conv2d", "--schedule=mma", "--dtype=f16", *channels, "--arch=sm_80")
    assert (code, "mma.sync" in out) == (0, True)
    assert call("run", "rows.embedding")[0] == 0  # an array of integers is a subscript; no fold, so no row
    assert "fix: name some of bias, residual, scale" in call("run", "conv.conv2d", "--arrays", "biases")[2]
    assert "simt takes no stages" in call("run", "conv.conv2d", "--schedule", "simt", "--stages", "3")[2]


def test_a_schedule_alone_in_its_file_takes_the_program_that_the_file_imports(
    call: Callable[..., tuple[int, str, str]],
) -> None:
    words = ("--shape=16x3x4x8x32x2x2x8", "--arch=sm_70", "--images=16", "--filters=32", "--depth=8")
    code, out, _ = call("run", "akg.conv", *words)
    assert (code, "all 3072 elements right" in out) == (0, True)
    assert "akg.conv" in call("list")[1]


def test_a_programs_shape_is_the_extents_of_its_dims(call: Any) -> None:
    code, out, _ = call("run", "conv.conv2d", "--shape", "1x6x7x16x8x3x2x16", "--dtype", "f16", "--schedule", "mma")
    assert code == 0
    assert "all 192 elements right" in out
    code, _, err = call("run", "conv.conv2d", "--shape", "6x7x16")
    assert code == 2
    assert "[bad-shape]: 6x7x16 has 3 extents, and conv.conv2d 8 dims\nfix: give NxHxWxCHANNELxKxRxSxC" in err
    assert "--window" in call("run", "conv.max_pool2d")[2]
