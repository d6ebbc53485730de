"""The tree of a chain: what links ask of those above, and that lowering reads nothing else of links below."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, get_args

import fireiron
from fireiron import RF, SH, A, B, Block, Cluster, Warp, Warpgroup, matmul, tma
from fireiron.kernel.lower.tree import Tree, tree
from fireiron.language.decompositions import Decomposition
from fireiron.schedules import hopper
from fireiron.schedules._plan import Plan

LOWER = Path(fireiron.__file__).parent / "kernel" / "lower"


def listed(chain: Any) -> Tree:
    return tree(chain.links)


def down(at: Tree, links: int) -> Tree:
    for _ in range(links):
        assert at.below is not None
        at = at.below
    return at


def test_each_link_stands_once_and_the_last_has_nothing_below() -> None:
    chain = matmul(64, 64, 32).tile(32, 32).to(Block).split(8).load(A, SH).load(B, SH).tile(8, 8).to(Warp)
    root = listed(chain)
    assert [down(root, i).link for i in range(len(chain.links))] == list(chain.links)
    last = down(root, len(chain.links))
    assert (last.link, last.below) == (None, None)


def test_what_links_ask_stands_above_them() -> None:
    chain = (
        matmul(256, 256, 128, "f16", layout="TN", arch="sm_90")
        .tile(256, 128).to(Cluster).tile(128, 128).to(Block).epilog(memory=RF)
        .split(64).pipeline(2).specialize().load(A, SH, tma()).load(B, SH, tma()).tile(64, 128).to(Warpgroup)
    )  # fmt: skip
    cluster, block, epilog, split, a, b, unit = chain.links
    root = listed(chain)
    assert root.asked.tile is cluster
    assert down(root, 1).asked.tile is block  # of the cluster's blocks
    assert root.asked.split is root.asked.filled is split
    assert down(root, 4).asked.loads == (a, b)  # right below the split
    assert down(root, 4).behind.link is unit
    assert down(root, 3).asked.loads == ()  # the split stands between
    assert down(root, 4).asked.split is None
    assert [x.link for x in (down(root, 2), down(root, 7))] == [epilog, None]
    assert down(root, 4).loads_where(lambda x: x is b).asked.loads == (b,)


def test_a_second_load_of_an_operand_belongs_to_the_trip() -> None:
    chain = matmul(64, 64, 32).tile(32, 32).to(Block).epilog(memory=RF).split(8).load(A, SH).load(B, SH)
    chain = chain.tile(4, 4).to(fireiron.Thread).load(A, RF)
    twice = tree((*chain.links[3:5], chain.links[6]))
    assert [x.role for x in twice.asked.loads] == ["A", "B"]


def test_the_end_of_a_chain_and_units_in_turn_are_asked() -> None:
    plan = Plan(64, 64, 2, pingpong=True, stages=2)
    made = hopper.pingpong(matmul(256, 256, 128, "bf16", layout="TN", arch="sm_90"), plan)
    asked = listed(made).asked
    assert asked.done is made.links[-1]
    assert asked.staggered is not None
    assert asked.staggered.staggered == 2


def test_no_rule_reads_links_below_its_own() -> None:
    """Only the walk takes a tree apart: other files read what is asked, and hand the tree on."""
    read = [
        f"{path.stem}: rest.{node.attr}"
        for path in sorted(LOWER.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("below", "link")
        and isinstance(node.value, ast.Name)
        and node.value.id == "rest"
    ]
    assert read == []
    assert not hasattr(Tree, "__iter__")
    assert not hasattr(Tree, "__getitem__")


def test_the_page_says_of_each_link_what_kind_of_node_it_is() -> None:
    page = (Path(fireiron.__file__).parent.parent / "notebooks" / "architecture.md").read_text(encoding="utf-8")
    rows = [
        line.split(" | ")[:2]
        for line in page.splitlines()
        if line.startswith(("| map |", "| loop |", "| place |", "| do |"))
    ]
    links = [name.strip("` ") for _, names in rows for name in names.split(",")]
    assert len(rows) == 4
    assert sorted(links) == sorted(kind.__name__ for kind in get_args(Decomposition))
