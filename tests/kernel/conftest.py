"""Chains that tests refine in the middle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from fireiron import RF, SH, A, B, Block, Thread, Warp

sys.path.insert(0, str(Path(__file__).parent))


@attrs.frozen
class Chains:
    """Give a block 32x32 elements: 128 threads in warps of 16x16."""

    @staticmethod
    def outer(spec: Any, k: int = 8, *ops: Any, **epilog: Any) -> Any:
        return spec.tile(32, 32).to(Block).epilog(*ops, memory=RF, **epilog).split(k)

    @staticmethod
    def inner(chain: Any, **load: Any) -> Any:
        return (
            chain.tile(16, 16).to(Warp).tile(4, 2).to(Thread)
            .split(1).unroll().load(A, RF, **load).load(B, RF, **load).tile(1, 1).unroll().done()
        )  # fmt: skip

    def plain(self, spec: Any, *ops: Any, k: int = 8, **epilog: Any) -> Any:
        return self.inner(self.outer(spec, k, *ops, **epilog).load(A, SH).load(B, SH))


@pytest.fixture
def chains() -> Chains:
    return Chains()
