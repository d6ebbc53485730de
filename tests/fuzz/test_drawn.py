"""Drawn chains: refused with a code, or right bit by bit; and the drawer, the judge and the shrinker themselves."""

from __future__ import annotations

import random
import secrets

import pytest

from fireiron import matmul
from tests.fuzz.__main__ import fuzz, reported
from tests.fuzz.draw import Drawer, drawn
from tests.fuzz.judge import judge
from tests.fuzz.mended import MENDED
from tests.fuzz.shrink import shrunk, snippet

CHAINS = 120
SECONDS = 60


def test_chains_of_a_fresh_seed() -> None:
    seed = secrets.token_hex(4)
    print(f"python -m tests.fuzz --seed {seed} --chains {CHAINS}")
    score = fuzz(seed, CHAINS, SECONDS, compiled=100)
    found = [one for alike in score.findings.values() for one in alike]
    assert not found, "\n\n".join(reported(*one, seconds=5) for one in found)
    assert score.verdicts["right"] >= score.chains // 8, str(score)


@pytest.mark.parametrize("source", MENDED)
def test_what_was_mended_is_refused_or_right(source: str) -> None:
    verdict = judge(source)
    kinds = ("refused",) if MENDED[source] else ("right", "bounded")  # bounded where ops round
    assert verdict.code == MENDED[source], str(verdict)
    assert verdict.kind in kinds, str(verdict)


def test_a_seed_draws_the_same_chain_again() -> None:
    assert drawn("a/1") == drawn("a/1")
    assert len({drawn(f"a/{i}") for i in range(50)}) == 50


def broken(source: str) -> str:
    return judge(source).code


RIGHT = "matmul(24, 16, 8).tile(8, 16).to(Block).tile(1, 1).to(Thread).done({})"
DOT = "microkernel('C[0] = 0;', numpy=lambda a, b, c: {}, name='dot')"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("matmul(16, 16, 0)", "bad-extent"),
        ("matmul(16, 16, 8).tile(8, 8).to(Block).unroll(2)", "call-arguments"),
        (RIGHT.format(DOT.format("a @ b")), ""),
        (RIGHT.format(DOT.format("a @ b + 1")), "wrong"),
        (RIGHT.format(DOT.format("a[:, :-1] @ b[:-1]")), "wrong"),
    ],
)
def test_the_judge_tells_right_from_wrong(source: str, code: str) -> None:
    verdict = judge(source)
    assert verdict.code == code, str(verdict)
    assert verdict.kind == {"": "right", "wrong": "finding"}.get(code, "refused")


def test_the_judge_names_the_place_of_a_raw_exception() -> None:
    verdict = judge(lambda: matmul(16, 16, 8)._check(None))  # type: ignore[arg-type]
    assert (verdict.kind, verdict.code) == ("finding", "raised TypeError in state._check")
    assert judge("matmul(16, 16, 8).then(lambda x: 1 // 0)").code == "ZeroDivisionError"  # the chain's own


def test_a_failing_chain_shrinks_to_what_fails() -> None:
    whole = (
        "matmul(20, 24, 16, 'f64', layout='TN', out='f32', alpha=2).then(relu).tile(16, 16).to(Block).layout(ColMajor)"
        ".epilog(add(Vector(24, name='bias')), memory=RF).split(8).pipeline(2).load(A, SH).pad(4).load(B, SH, staged())"
        f".tile(1, 1).to(Thread).done({DOT.format('c + a @ b + 1')})"
    )
    assert broken(whole) == "wrong"
    small = shrunk(whole, lambda text: broken(text) == "wrong", seconds=60)
    assert broken(small) == "wrong"
    assert small.count(").") <= 6, small
    assert "alpha" not in small
    assert "pad" not in small
    written: dict[str, object] = {}
    exec(snippet(small).replace("print(", "found = ("), written)
    assert written["found"].code == "wrong"  # type: ignore[attr-defined]


def test_a_microkernels_source_keeps_its_numbers() -> None:
    link = 'done(microkernel("for (int i = 0; i < M; ++i) C[i] = 0;", name="dot2"))'
    drawer = Drawer(random.Random(0))
    assert {drawer.renumbered(link) for _ in range(50)} == {link}
    assert len({drawer.renumbered("tile(4, 4)") for _ in range(50)}) > 1
