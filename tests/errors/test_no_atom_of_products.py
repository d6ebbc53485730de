"""done() of a product with ldmatrix, which computes no product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fireiron import Block, Thread, matmul


def wrong() -> Any:
    return matmul(16, 16, 16).tile(16, 16).to(Block).tile(1, 1).to(Thread).split(1).done("ldmatrix")


def test_no_atom_of_products(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "no-atom",
        'done("ldmatrix")',
        """\
DecompositionError[no-atom]: ldmatrix does not execute MatMul(1, 1, 1)(GL, GL, GL)(Thread): it computes no product
  --> test_no_atom_of_products.py:12:85
12 |     return matmul(16, 16, 16).tile(16, 16).to(Block).tile(1, 1).to(Thread).split(1).done("ldmatrix")
   |                                                                                     ^^^^^^^^^^^^^^^^
at:  MatMul 16x16x16 @ Kernel > tile 16x16 to Block > tile 1x1 to Thread > split 1
fix: name an instruction of products, or none""",
    )
