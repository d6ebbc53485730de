"""Links that most specs share: tiles of rows and columns, splits of K, loads and their Moves."""
# pyright: reportPrivateUsage=false
# These functions are methods of chains, in a file of their own.

from __future__ import annotations

from fireiron.algebra.dtypes import dtype as find_dtype
from fireiron.algebra.layout import Layout
from fireiron.base.errors import DecompositionError
from fireiron.base.link import here
from fireiron.check import links as rules
from fireiron.check.parallel import chunk_of
from fireiron.front.chain import Chain, MoveChain, Strategy
from fireiron.front.moves import conform, vector
from fireiron.front.roles import Role, in_registers
from fireiron.front.state import State, link_of
from fireiron.language.decompositions import Chunks, Decomposition, Extent, Load, Split, Strided
from fireiron.language.levels import Memory
from fireiron.language.pointwise import cast_to
from fireiron.language.programs import Products
from fireiron.language.residual import Residual, move_of
from fireiron.language.specs import BATCH, MatMul
from fireiron.language.steps import Step
from fireiron.language.tensor import Tensor

Sizes = tuple[tuple[str, Extent], ...]


@link_of
def tile(chain: State, *sizes: int | Strided | Layout, batch: int | None = None, **named: int | Layout) -> Sizes:
    """Return the extents of a tile, given by rows and columns or by names of dims.

    Raises:
        DecompositionError: `tile-arguments`.
    """
    for name in named:
        together = [d for d, letter in chain._letters.items() if letter == chain._letters.get(name)]
        if len(together) > 1:
            raise chain._wrong(
                "tile-arguments",
                f"{', '.join(together)} are {chain._letters[name]} of {chain.residual.short} together",
                "tile(16, 8): rows and columns",
            )
    dims = {chain._letters.get(name, name): size for name, size in named.items()}
    known = chain.residual.extents
    dims = {dim.upper() if dim not in known and dim.upper() in known else dim: size for dim, size in dims.items()}
    summed = chain.residual.kind == "MatMul"
    folded = next((name for name, dim in zip(named, dims, strict=True) if summed and dim == "K"), None)
    if folded is not None or (sizes and dims):
        said = f"{folded} is folded" if folded else "a tile has rows and columns, or named dims"
        fix = f"split({folded}=...)" if folded else "tile(16, 8), or tile(m=16, n=8)"
        raise chain._wrong("tile-arguments", f"{said}: {chain.residual.short}", fix)
    leading: Sizes = ()
    if batch is not None:
        leading = tuple((dim, batch) for dim in known if dim.startswith(BATCH)) or ((BATCH, batch),)
    return (*leading, *(dims.items() if dims else _rows_and_columns(chain, sizes)))


def _rows_and_columns(chain: State, sizes: tuple[int | Strided | Layout, ...]) -> Sizes:
    dims = ["M", "N"] if chain.residual.kind == "MatMul" else list(chain.residual.extents)[-2:]
    rows, columns = dims[0], dims[-1]
    match sizes:
        case (Strided(first, second),):
            return ((rows, Chunks(*first)), (columns, Chunks(*second)))
        case (int() | Layout() as m, int() | Layout() as n):
            return ((rows, m), (columns, n))
        case _:
            raise chain._wrong(
                "tile-arguments",
                f"tile({', '.join(map(str, sizes))}) is no tile of {chain.residual.short}",
                "tile(rows, cols), or tile(Strided((chunk, stride), (chunk, stride)))",
            )


@link_of
def split(
    chain: State, k: int | str | None = None, /, *, ways: int | None = None, multiple_of: int = 1, **named: int
) -> Split:
    """Cut K into chunks.

    Raises:
        DecompositionError: `split-arguments`, `split-above-epilog`, `split-extent`; `wrong-spec` for a number of chunks
            of a step, and of several products whose K differ.
    """
    residual, spec = chain.residual, chain._kind.spec
    if spec is Products:
        chain._check(rules.split_of_sums, residual)
    names = [*named, *([k] if isinstance(k, str) else [])]
    several = len(names) > 1 or (bool(named) and k is not None)
    if several or any(chain._letters.get(name, name.upper()) != "K" for name in names):
        raise _one_dim(chain)
    size = named[names[0]] if named else k if isinstance(k, int) else None
    if spec is not MatMul:
        if ways is not None and spec is not Products:
            raise chain._wrong("wrong-spec", f"{residual.short} is split by the extent of a chunk alone", "split(16)")
        if ways is not None and residual.depths:
            said = f"products of {residual.short} differ in K, and a number of chunks needs one K"
            raise chain._wrong("wrong-spec", said, "split(16)")
        if size is None and ways is None:
            raise _one_dim(chain)
    if size is not None:
        chain._check(rules.split_size, residual, size, chain.links)
    return Split(chain._check(chunk_of, residual, size, ways, multiple_of), ways=ways, link=here())


def _one_dim(chain: State) -> DecompositionError:
    folded = next((name for name, letter in chain._letters.items() if letter == "K"), "k")
    return chain._wrong(
        "split-arguments",
        f"a split of {chain.residual.short} cuts {folded}, the dim that the step folds",
        f"split({folded}=16)",
    )


def load(chain: State, operand: Role | Tensor | str, memory: Memory, strategy: Strategy | None, dtype: object) -> Load:
    """Move an operand to another memory.

    Raises:
        DecompositionError: see `Chain.load`.
    """
    residual = chain.residual
    if chain._kind.spec is Step:  # a step's operands are views of the program's tensors
        given = operand if isinstance(operand, str) else operand.name
        operand = next((o.role for o in residual.operands[:2] if o.tensor.name == given), operand)
    found = chain._operand(operand)
    chain._check(rules.load, residual, found, memory)
    kind = found.dtype if dtype is None else chain._check(find_dtype, dtype)
    usual = conform() if memory.registers else vector()
    finished = moved(chain, move_of(residual, found.role, memory, kind), strategy or usual)
    ops = found.ops if in_registers(finished) else None
    if ops is None:
        return Load(found.role, memory, finished, dtype=None if dtype is None else kind, link=here())
    # Threads hold the elements on their way, and apply what was to be done with them.
    ops = ops if dtype is None else cast_to(ops, kind)
    finished = moved(chain, move_of(residual, found.role, memory, ops.dtype), strategy or usual)
    return Load(found.role, memory, finished, dtype=ops.dtype, ops=ops, link=here())


def stored(chain: State, move: Residual, strategy: Strategy | None, words: str = "store") -> tuple[Decomposition, ...]:
    """Run a store's strategy, conform() by default, and return the links that it makes."""
    return moved(chain, move, strategy or conform(), words)


def moved(chain: State, move: Residual, strategy: Strategy, words: str = "") -> tuple[Decomposition, ...]:
    """Run a strategy on a Move inside a chain, and return the links that it makes; it must close the Move.

    Raises:
        DecompositionError: `unfinished-move`.
    """
    part: MoveChain = chain._nested(move, words, Chain)
    name = getattr(strategy, "__name__", str(strategy))
    return chain._ended(
        strategy,
        part,
        ("strategy", "unfinished-move"),
        f"strategy {name} leaves {{}}: a Move must be decomposed to atoms",
        "end the strategy's chain by .done()",
        uncalled=(f"{name} is a function that makes a strategy", f"call it: {name}()"),
    )
