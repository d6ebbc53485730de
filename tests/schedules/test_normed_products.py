"""Products of rows that are normed on their way in: right in sizes that nothing divides, and the rows read once."""

from __future__ import annotations

from typing import Any

import pytest

from fireiron import Matrix, Vector, best
from fireiron.atoms.flights import flying
from fireiron.front.cli import main
from fireiron.kernel.ir.statements import Call, walk
from fireiron.schedules import normed_products
from fireiron.verify.verification import Data, verify


def right(schedule: Any) -> None:
    def launch(data: Data) -> None:
        schedule.simulate(*data.inputs, out=data.out, **data.numbers)

    verdict = verify(schedule, launch, {})
    assert verdict.passed, str(verdict)


def program(name: str, m: int, n: int, k: int, dtype: str = "f16", **options: Any) -> Any:
    vectors = [Vector(k, dtype, name=v) for v in ("gain", "bias")[: 1 + name.startswith("layer")]]
    return getattr(normed_products, name)(Matrix(m, k, dtype), *vectors, Matrix(n, k, dtype), **options)


@pytest.mark.parametrize(("m", "n", "k", "dtype"), [(70, 136, 96, "f16"), (20, 72, 328, "bf16")])
@pytest.mark.parametrize("name", ["rms_norm_matmul", "layernorm_matmul"])
def test_products_of_normed_rows(name: str, m: int, n: int, k: int, dtype: str) -> None:
    right(normed_products.mma(program(name, m, n, k, dtype)))


def test_best_and_the_command_line_find_it() -> None:
    schedule = best(program("rms_norm_matmul", 64, 64, 96))
    assert schedule == normed_products.mma(program("rms_norm_matmul", 64, 64, 96))
    assert main(["emit", "normed_products.rms_norm_matmul"]) == 0
    assert main(["emit", "normed_products.layernorm_matmul", "--n", "64"]) == 0


def test_rows_are_read_once() -> None:
    """One load of x, ahead of the loops; the second loop reads what lies in shared memory."""
    kernel = normed_products.mma(program("layernorm_matmul", 64, 128, 256)).lowered()
    copies = [
        s for s in walk(kernel.body)
        if isinstance(s, Call) and flying(s.atom.completion) == "copies" and s.views[0].buffer.name == "x"
    ]  # fmt: skip
    assert len(copies) == 1


@pytest.mark.parametrize(("arch", "rows"), [("sm_80", 32), ("sm_90a", 64)])
def test_shared_memory_decides_how_many_rows(arch: str, rows: int) -> None:
    schedule = normed_products.mma(program("layernorm_matmul", 4096, 4096, 1024, "bf16", arch=arch))
    assert f".tile {rows}x128 to Block" in str(schedule)
    assert not schedule.compile(arch).resources.spills
