"""Keys of choices and records: programs that differ in anything that is computed have different keys."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from fireiron import (
    RF,
    A,
    B,
    Block,
    ColMajor,
    FireironError,
    MatMul,
    MatMulChain,
    Matrix,
    Vector,
    add,
    best,
    dequantise,
    gelu,
    gemm,
    matmul,
    products,
    relu,
    row_max,
    row_sum,
    save,
    scale,
    symbol,
)
from fireiron.algebra.expr import Expr
from fireiron.front import best as choosing
from fireiron.front.best import choose
from fireiron.front.digest import digest
from fireiron.language.meaning import text
from fireiron.tune.lookup import Index
from fireiron.tune.machine import Machine
from fireiron.tune.problem import Problem, problem
from fireiron.tune.record import Record
from fireiron.tune.space import point

M, N, K = 64, 32, 16


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    choosing.forget()
    yield
    choosing.forget()


# What a program may differ in: each name with values that mean different things, the usual one first.
AXES: dict[str, tuple[Any, ...]] = {
    "m": (64, 128, symbol("M"), symbol("M", multiple_of=8), symbol("M", maximum=4096)),
    "n": (32, 64),
    "k": (16, 32),
    "dtype": ("f16", "bf16", "f32"),
    "out": ("f32", "f16"),
    "acc": ("f32", "f16"),
    "layout": ("NN", "NT", "TN", "TT"),
    "c": ("row", "column"),
    "many": (None, ("batch", 2), ("batch", 3), ("groups", 3), ("batch", 3, "apart")),
    "lda": (0, 8, 16),
    "ldb": (0, 8),
    "ldc": (0, 8),
    "alpha": (1.0, 2.0, 0.1234567, 0.1234568, "alpha", "factor"),
    "beta": (0.0, 1.0, "beta"),
    "prolog_a": (None, relu, gelu, scale(2), scale(3), scale("s")),
    "prolog_b": (None, relu, "column", "rows"),
    "ops": ((), (relu,), (gelu,), (scale(2),), (scale(2.5),), ("bias",), ("column",), ("bias", relu), ("half",)),
    "save": (None, "f32", "f16", "column-major", "sum", "max", "after"),
    "swap": (False, True),
}


def drawn(chosen: dict[str, Any]) -> MatMulChain:
    """Make the program of one value for each axis."""
    kind, layout, many = chosen["dtype"], chosen["layout"], chosen["many"]
    m, n, k = chosen["m"], chosen["n"], chosen["k"]
    batch = many[1] if many and many[0] == "batch" else None
    groups = many[1] if many and many[0] == "groups" else None

    def matrix(rows: Any, cols: Any, dtype: str, turned: bool, extra: int, matrices: Any, name: str) -> Any:
        inner, outer = (rows, cols) if turned else (cols, rows)
        step = (inner + extra) * outer + 64 if many and len(many) > 2 and name == "A" else None
        order = {"order": ColMajor} if turned else {}
        return Matrix(rows, cols, dtype, name=name, ld=inner + extra, batch=matrices, batch_stride=step, **order)

    a = matrix(m, k, kind, layout[1] == "T", chosen["lda"], batch, "A")
    b = matrix(k, n, kind, layout[0] == "T", chosen["ldb"], batch if groups is None else groups, "B")
    c = matrix(m, n, chosen["out"], chosen["c"] == "column", chosen["ldc"], batch, "C")
    ends = None if groups is None else Vector(groups, "i32", name="offsets")
    spec = MatMul(a, b, c, alpha=chosen["alpha"], beta=chosen["beta"], acc=chosen["acc"], groups=ends)
    if chosen["prolog_a"] is not None:
        spec = spec.prolog(A, chosen["prolog_a"])
    if chosen["prolog_b"] is not None:
        operands = {"column": Vector(k, kind, name="p", along=ColMajor), "rows": Vector(n, kind, name="p")}
        spec = spec.prolog(
            B, scale(operands[chosen["prolog_b"]]) if isinstance(chosen["prolog_b"], str) else chosen["prolog_b"]
        )
    named: dict[str, Any] = {
        "bias": add(Vector(n, name="bias")),
        "half": add(Vector(n, "f16", name="bias")),
        "column": add(Vector(m, name="bias", along=ColMajor)),
    }
    ops = [named[op] if isinstance(op, str) else op for op in chosen["ops"]]
    like = {"batch": batch} if batch is not None else {}
    saved: dict[str, Callable[[], Any]] = {
        "f32": lambda: save(Matrix(m, n, "f32", name="S", **like)),
        "f16": lambda: save(Matrix(m, n, "f16", name="S", **like)),
        "column-major": lambda: save(Matrix(m, n, "f32", ColMajor, name="S", **like)),
        "sum": lambda: row_sum(Vector(m, name="S", along=ColMajor)),
        "max": lambda: row_max(Vector(m, name="S", along=ColMajor)),
        "after": lambda: save(Matrix(m, n, "f32", name="S", **like)),
    }
    if chosen["save"] is not None:
        made = saved[chosen["save"]]()
        ops = [*ops, scale(7), made] if chosen["save"] == "after" else [made, *ops, scale(7)]
    if ops:
        spec = spec.then(*ops)
    return spec.swap() if chosen["swap"] else spec


def keys(spec: MatMulChain) -> dict[str, object]:
    return {
        "choice": choosing.choice_key(spec, None),
        "digest": spec.meaning.digest,
        "problem": problem(spec),
        "record": str(sorted(problem(spec).to_json().items())),
    }


def programs(count: int, seed: int) -> list[tuple[dict[str, int], MatMulChain]]:
    """Draw programs that can be written, each a choice of places on the axes."""
    rng = random.Random(seed)
    found: list[tuple[dict[str, int], MatMulChain]] = []
    while len(found) < count:
        # Most axes keep their usual value, so that pairs which differ in one of them are met.
        places = {name: rng.randrange(len(v)) if rng.random() < 0.25 else 0 for name, v in AXES.items()}
        try:
            found.append((places, drawn({name: AXES[name][i] for name, i in places.items()})))
        except FireironError:
            continue
    return found


def test_programs_that_differ_have_different_keys() -> None:
    made = programs(250, seed=23)
    known: dict[str, dict[object, dict[str, int]]] = {}
    for places, spec in made:
        for what, key in keys(spec).items():
            other = known.setdefault(what, {}).setdefault(key, places)
            differ = {n: (AXES[n][other[n]], AXES[n][places[n]]) for n in AXES if other[n] != places[n]}
            sizes = what in ("problem", "record") and set(differ) == {"m"}
            if sizes and all(isinstance(size, Expr) for size in differ["m"]):
                continue  # the record of one symbol serves another
            assert not differ, f"one {what} for two programs: {differ}"


@pytest.mark.parametrize("axis", AXES)
def test_each_axis_alone_is_seen(axis: str) -> None:
    usual = {name: values[0] for name, values in AXES.items()}
    several: dict[str, list[object]] = {}
    made = 0
    for value in AXES[axis]:
        try:
            spec = drawn({**usual, axis: value})
        except FireironError:
            continue
        made += 1
        for what, key in keys(spec).items():
            several.setdefault(what, []).append(key)
    assert made > 1
    for what, found in several.items():
        symbols = 2 if axis == "m" and what in ("problem", "record") else 0
        assert len(set(found)) == made - symbols, f"{axis} is not part of the {what}"


def test_equal_programs_share_their_keys() -> None:
    for (places, one), (_, other) in zip(programs(40, seed=5), programs(40, seed=5), strict=True):
        assert keys(one) == keys(other), places


def test_a_digest_is_the_same_in_every_process() -> None:
    code = (
        "from fireiron import *\nfrom fireiron.tune.problem import problem\n"
        "spec = matmul(64, 64, 32).prolog(A, relu).then(add(Vector(64, name='bias')), relu)\n"
        "print(spec.meaning.digest, problem(spec))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    spec = matmul(64, 64, 32).prolog(A, relu).then(add(Vector(64, name="bias")), relu)
    assert said.stdout.split(maxsplit=1)[0] == spec.meaning.digest
    assert said.stdout.split(maxsplit=1)[1].strip() == str(problem(spec))


def test_an_op_counts_by_what_it_gives_now() -> None:
    factor = [2.0]
    spec = matmul(64, 64, 32).then(lambda acc: acc * factor[0])
    before = keys(spec)
    factor[0] = 3.0
    assert all(value != before[what] for what, value in keys(spec).items())


def test_names_are_part_of_a_choice_and_not_of_a_problem() -> None:
    named = MatMul(Matrix(M, K, name="X"), Matrix(K, N, name="Y"), Matrix(M, N, name="Z"))
    assert problem(named) == problem(matmul(M, N, K))
    assert choosing.choice_key(named, None) != choosing.choice_key(matmul(M, N, K), None)


def test_numbers_count_bit_by_bit() -> None:
    zeros = [matmul(M, N, K, alpha=alpha) for alpha in (0.0, -0.0)]
    assert zeros[0].meaning != zeros[1].meaning
    assert len({spec.meaning.digest for spec in zeros}) == 2
    tiled = [matmul(M, N, K).tile(32, 32).to(Block).epilog(memory=RF, init=init) for init in (0.0, -0.0)]
    assert tiled[0].links != tiled[1].links
    assert text((1, True, 1.0)) != text((1.0, 1, True))


def test_every_symbol_is_part_of_a_schedules_digest() -> None:
    """An operand's leading dimension may be a size: what it is a multiple of decides the width of loads."""

    def of(multiple: int) -> str:
        line = symbol("line", multiple_of=multiple)
        x, w, r = (Matrix(64, 64, name=name) for name in "XWR")
        beside = attrs.evolve(r, strides=(line, 1))
        spec = products(Matrix(64, 64, name="Y"), (x, w), op=add(beside))
        return digest(spec.program, spec.links, "")

    assert of(1) != of(8)
    assert of(8) == of(8)


def test_a_choice_for_a_fused_product_is_not_taken_for_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MODEL_LOOKS", 0)
    a, b = -np.ones((64, 32), np.float32), np.ones((32, 64), np.float32)
    fused = best(matmul(64, 64, 32).prolog(A, relu), "sm_89")
    assert (fused.simulate(a, b).out == 0).all()
    assert (gemm(a, b) == -32).all()
    choosing.forget()
    assert (gemm(a, b) == -32).all()
    after = best(matmul(64, 64, 32).prolog(A, relu), "sm_89")
    assert (after.simulate(a, b).out == 0).all()


LEGAL: dict[str, Any] = {"m": 64, "n": 64, "k": 8, "warp": (32, 64), "thread": (8, 8), "stages": 2}


def recorded(spec: MatMulChain, **changes: Any) -> Record:
    wanted = Record(problem(spec), "simt.sgemm", point(LEGAL), "NVIDIA H200", "sm_90a", us=10.0, samples=5)
    return attrs.evolve(wanted, **changes)


def test_records_of_other_work_do_not_mix() -> None:
    specs = [
        matmul(512, 512, 512),
        matmul(512, 512, 512).then(relu),
        matmul(512, 512, 512).prolog(A, relu),
        matmul(512, 512, 512, groups=4),
        MatMul(Matrix(512, 512, ld=520), Matrix(512, 512), Matrix(512, 512)),
    ]
    index = Index([recorded(spec, us=float(i + 1)) for i, spec in enumerate(specs)])
    for i, spec in enumerate(specs):
        found = index.find(problem(spec), "NVIDIA H200", "sm_90a")
        assert [f.record.us for f in found] == [i + 1.0], spec
    assert Index([recorded(specs[2])]).find(problem(specs[0]), "NVIDIA H200", "sm_90a") == []
    assert len({recorded(spec).key for spec in specs}) == len(specs)


def test_problems_of_one_kind_borrow_from_each_other() -> None:
    one, larger = (matmul(n, 512, 512).then(add(Vector(512, name="bias")), relu) for n in (512, 1024))
    found = Index([recorded(larger)]).find(problem(one), "NVIDIA H200", "sm_90a")
    assert [f.distance for f in found] == [1.0]
    assert problem(one).kind == problem(larger).kind
    assert problem(one).kind.startswith("ops #")
    other = matmul(512, 512, 512).then(add(Vector(512, name="bias")), gelu)
    assert problem(other).kind != problem(one).kind


def test_a_plain_record_is_told_to_be_one_where_it_serves_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "_machine", lambda: Machine("NVIDIA H200", "sm_90a"))
    monkeypatch.setattr(choosing, "_index", lambda: Index([recorded(matmul(512, 512, 512))]))
    fused = choose(matmul(512, 512, 512).then(relu))
    assert fused.why == "recorded for this problem, of the product without its ops"
    assert fused.candidate.point.keywords == LEGAL
    assert choose(matmul(512, 512, 512)).why == "recorded for this problem"
    assert choose(matmul(512, 512, 512).prolog(A, relu)).record is None


def test_plain_products_keep_the_problems_of_shipped_records() -> None:
    from fireiron.tune.records import read, shipped

    known = [record for path in shipped() for record in read(path).records]
    assert len(known) > 20
    for record in known:
        found = record.problem
        assert (found.kind, found.meaning, record.doubt) == ("", "", "")
        product: Any = None if found.product == "mul" else found.product
        spec = matmul(
            found.m, found.n, found.k, found.a, out=found.c, acc=found.acc, layout=found.layout[:2],
            batch=found.batch if found.batch > 1 else None,
            product=product,
        )  # fmt: skip
        assert problem(spec) == found, found
        assert Index([record]).find(problem(spec), record.device, record.arch)[0].distance == 0


def test_given_functions_count_by_what_they_hold() -> None:
    spec = matmul(M, N, K)
    told = [problem(spec, {"ops": ops}).given for ops in ((relu,), (scale(2),), (scale(3),), (scale(2),))]
    assert told[1] == told[3]
    assert len(set(told)) == 3
    assert "0x" not in "".join(told)
    assert problem(spec, {"ops": ("relu",)}).given == "ops=('relu',)"


def test_a_problem_reads_as_it_was_written() -> None:
    fused = problem(matmul(M, N, K).then(relu))
    assert Problem.from_json(fused.to_json()) == fused
    scaled = matmul(M, N, 256, "i8").prolog(A, dequantise("f16", Matrix(M, 2, "f16", name="s")))
    assert problem(scaled).kind.startswith("prolog #")
    assert problem(scaled) != problem(matmul(M, N, 256, "i8"))
