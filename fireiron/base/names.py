"""Names that users give to tensors, sizes, scalars and functions; kernels use the same names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fireiron.base.contract import shown
from fireiron.base.errors import SpecError
from fireiron.base.link import here

MOST_CHARACTERS = 64

# Source: ISO C++17, table of keywords and alternative tokens.
_CPP = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class compl const
    const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private
    protected public register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
    while xor xor_eq
"""
# Source: CUDA programming guide, built-in variables; `block` and `thread` are what kernels call their indices.
_CUDA = "threadIdx blockIdx blockDim gridDim clusterIdx warpSize block thread min max NULL"
_MEANT = frozenset((_CPP + _CUDA).split())
# Types that kernels declare, or take from CUDA's vector types.
_TYPES = frozenset(("half", "bf16", "tf32", "e4m3", "e5m2", "TensorMap", "uint2", "uint4"))
# Keywords of a schedule's verbs, beside which a call gives sizes and scalars by name.
_VERBS = frozenset(("self", "arch", "out", "stream", "blocks", "track", "launched", "overflow"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check_name(what: str, name: str, keyword: bool = False) -> None:
    """Refuse a name that has a meaning in CUDA C++, or that is no identifier.

    Args:
        what: the named thing, for the message. Example: "a tensor".
        name: the name to check.
        keyword: whether a call gives its value by this keyword.

    Raises:
        SpecError: `bad-name`.

    Example:
        >>> check_name("a tensor", "weights")
        >>> check_name("M", "int")
        Traceback (most recent call last):
        fireiron.base.errors.SpecError: SpecError[bad-name]: M cannot be called 'int': CUDA C++ has a meaning for it
        ...
    """
    why = _why_not(name, keyword)
    if not why:
        return
    raise SpecError(
        "bad-name",
        f"{what} cannot be called {shown(name)}: {why}",
        fix=f"rename it, for example {_near(name)}",
        link=here(),
    )


def fits(name: str, keyword: bool = False) -> bool:
    """Say whether kernels can use a name unchanged.

    Example:
        >>> fits("bias"), fits("int")
        (True, False)
    """
    return not _why_not(name, keyword)


def _why_not(name: str, keyword: bool) -> str:
    if name in _MEANT:
        return "CUDA C++ has a meaning for it"
    if name in _TYPES:
        return "kernels have a type of that name"
    if _NAME.fullmatch(name) is None:
        return "it is no identifier of ASCII letters, digits and underscores"
    if "__" in name:
        return "CUDA C++ keeps names with two underscores to itself"
    if keyword and name in _VERBS:
        return "calls have a keyword of that name"
    if len(name) > MOST_CHARACTERS:
        return f"it has {len(name)} characters, more than {MOST_CHARACTERS}"
    return ""


def _near(name: str) -> str:
    """Suggest a name."""
    word = re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")[: MOST_CHARACTERS - 2]
    word = f"x{word}" if not word or word[0].isdigit() else word
    return f"{word}_" if word == name else word


def named(what: str, keyword: bool = False, empty: bool = False) -> Callable[[Any, Any, str], None]:
    """Make a validator for a record's field that holds a name.

    Args:
        what: the named thing, for the message. Example: "a tensor".
        keyword: whether a call gives its value by this keyword.
        empty: whether the name may be empty.
    """

    def validate(record: Any, field: Any, name: str) -> None:
        if name or not empty:
            check_name(what, name, keyword)

    return validate
