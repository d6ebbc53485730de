"""Kinds of chains: the links that each kind may have, and the modules whose functions make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from fireiron.language.programs import Layer, Layers, Products
from fireiron.language.specs import Init, MatMul, Move, Pointwise, Spec
from fireiron.language.steps import Program, Step

if TYPE_CHECKING:
    from fireiron.language.residual import Residual


@attrs.frozen
class Kind:
    """Describe one kind of chain.

    Args:
        spec: the spec that the chain decomposes. Example: MatMul, for `FoldChain[MatMul]`.
        word: the spec's name in errors.
        links: names of the decompositions that this kind may have.
        refinements: names of the refinements that this kind has and others lack.
        own: for links that `front/links.py` does not make: the module of `front` that makes or checks the link.
            Example: {"epilog": "matmul"}.
    """

    spec: type[Any]
    word: str
    links: frozenset[str]
    refinements: frozenset[str] = frozenset()
    own: Mapping[str, str] = attrs.field(factory=dict[str, str])


def _kind(spec: type[Any], word: str, links: str, refinements: str = "", **own: str) -> Kind:
    by_link = {link: module for module, listed in own.items() for link in listed.split()}
    return Kind(spec, word, frozenset(links.split()), frozenset(refinements.split()), by_link)


MOVE = _kind(Move, "Moves", "tile vectors load own done", "pipeline")
# By the spec, and by the kind of the residual that a chain starts with: a step of a program starts as a MatMul.
KINDS: Mapping[tuple[type[Spec], str], Kind] = {
    (MatMul, "MatMul"): _kind(
        MatMul, "MatMuls", "tile split load prolog epilog then swap done", "promote",
        matmul="prolog epilog then swap done",
    ),
    (Products, "MatMul"): _kind(Products, "products", "tile split load epilog done", products="epilog done"),
    (Layers, "Layers"): _kind(Layers, "layers", "tile load each", layers="tile load each"),
    (Layers, "MatMul"): _kind(Layer, "a layer", "tile split load epilog done", layer="epilog done"),
    (Program, "Program"): _kind(
        Program, "programs", "tile split load allocate epilog each done", "online skew order pipeline",
        program="tile split load allocate epilog each", elementwise="done",
    ),
    (Program, "MatMul"): _kind(Step, "a step", "tile split load done"),
    (Init, "Init"): _kind(Init, "Init", "tile done", elementwise="done"),
    (Pointwise, "Pointwise"): _kind(Pointwise, "Pointwise", "tile done", elementwise="done"),
}  # fmt: skip
ALL = (MOVE, *KINDS.values())


def kind_of(spec: Spec, origin: Residual) -> Kind:
    """Return the kind of a chain.

    Args:
        spec: the spec of the whole schedule.
        origin: the spec that this chain starts with: another one for nested chains.
    """
    return MOVE if origin.kind == "Move" else KINDS[type(spec), origin.kind]
