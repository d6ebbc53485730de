"""Parts of drawn chains, as source text: specs, ops, strategies, how blocks count tiles and K is cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

import attrs

X = TypeVar("X")

FLOATS = ("f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2")
INTEGERS = ("i8", "u8", "i32", "i4", "u4", "b1")
DTYPES = (*FLOATS, *INTEGERS)
STORED = ("f16", "bf16", "f32", "f64", "i8", "u8", "i32", "e4m3", "e5m2")
LAYOUTS = ("NN", "NT", "TN", "TT")
ARCHES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
F32_OR_F16 = ("'f32'", "'f32'", "'f16'")
# What a tensor core of each kind multiplies, and what computes it from which architecture on.
MMA = {
    "f16": ("sm_75", (16, 8), (8, 16)), "bf16": ("sm_80", (16, 8), (8, 16)), "tf32": ("sm_80", (16, 8), (4, 8)),
    "i8": ("sm_80", (16, 8), (16, 32)), "u8": ("sm_80", (16, 8), (16, 32)), "f64": ("sm_80", (8, 8), (4,)),
    "e4m3": ("sm_89", (16, 8), (16, 32)), "e5m2": ("sm_89", (16, 8), (16, 32)), "i4": ("sm_80", (16, 8), (32, 64)),
    "u4": ("sm_80", (16, 8), (64,)), "b1": ("sm_80", (16, 8), (128, 256)),
}  # fmt: skip
WGMMA = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "i8": 32, "u8": 32}


@attrs.frozen
class Product:
    """Say what is drawn of a product, for links that name its extents.

    Args:
        M, N, K: the extents' values.
        texts: the same as text, where one may be a symbol.
        dtype: of A and B.
        out: of C.
        layout: as `matmul` takes it.
        arch: as `matmul` takes it.
        batch: `batch` or `groups` as `matmul` takes them, or nothing.
    """

    M: int
    N: int
    K: int
    texts: tuple[str, str, str]
    dtype: str
    out: str
    layout: str
    arch: str
    batch: str = ""

    @property
    def number(self) -> int:
        """Give the architecture's number."""
        return int(self.arch[3:])

    @property
    def nbytes(self) -> float:
        """Give the bytes of an element of A."""
        return {"f64": 8, "f32": 4, "tf32": 4, "i32": 4, "f16": 2, "bf16": 2, "i4": 0.5, "u4": 0.5, "b1": 0.125}.get(
            self.dtype, 1
        )


class Parts:
    """Draw parts of chains from a stream of random numbers."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def one(self, options: Sequence[X]) -> X:
        """Choose one of several."""
        return self.rng.choice(options)

    def chance(self, p: float) -> bool:
        """Say yes in a part of all cases."""
        return self.rng.random() < p

    def extent(self, tile: int) -> int:
        """Draw an extent: whole tiles, or not."""
        whole = tile * self.one((1, 1, 2, 3))
        return whole if self.chance(0.35) else max(1, whole + self.one((-1, 1, -3, 2, 4, 8, -tile // 2, 5)))

    def product(
        self, m: int, n: int, k: int, dtype: str, arch: str, layout: str | None = None, unit: int = 1
    ) -> Product:
        """Draw a product whose blocks compute m x n in chunks of k; all extents are multiples of a unit."""
        packed = {"i4": 2, "u4": 2, "b1": 8}.get(dtype, 0)
        values = [-(-self.extent(tile) // u) * u for tile, u in ((m, unit), (n, unit), (k, packed or unit))]
        texts = [
            f'symbol("{name}_{v}")' if self.chance(0.06) else str(v) for name, v in zip("MNK", values, strict=True)
        ]
        chosen = layout or ("TN" if packed and self.chance(0.9) else self.one(LAYOUTS))
        out = self.one(STORED) if self.chance(0.3) else ""
        batch = (
            f"batch={self.one((1, 2, 3))}"
            if self.chance(0.06)
            else f"groups={self.one((1, 2, 3))}"
            if self.chance(0.03)
            else ""
        )
        return Product(*values, (texts[0], texts[1], texts[2]), dtype, out, chosen, arch, batch)

    def spec(self, p: Product) -> str:
        """Write the product."""
        words = [*p.texts, f'"{p.dtype}"', f'layout="{p.layout}"', f'arch="{p.arch}"']
        words += [f'out="{p.out}"'] if p.out else []
        other = "f16" if p.dtype == "f16" else self.one(("f32", "f64", "i32"))
        words += [f'acc="{other}"'] if self.chance(0.2 if p.dtype == "f16" else 0.03) else []
        words += [p.batch] if p.batch else []
        words += [f"alpha={self.one((2, 0.5, -1, chr(34) + 'a' + chr(34)))}"] if self.chance(0.06) else []
        words += [f"beta={self.one((1, 2, chr(34) + 'b' + chr(34)))}"] if self.chance(0.06) else []
        return f"matmul({', '.join(words)})"

    def around(self, p: Product) -> list[str]:
        """Draw what is said of the spec before links cut it."""
        return [
            *([".swap()"] if self.chance(0.06) else []),
            *([f".prolog({self.one('AB')}, {self.prologue(p)})"] if self.chance(0.1) else []),
            *([self.then(p)] if self.chance(0.12) else []),
        ]

    def prologue(self, p: Product) -> str:
        """Draw an op on an operand's elements."""
        m, n, k = p.M, p.N, p.K
        return self.one(
            (
                *(
                    "relu",
                    "scale(2)",
                    "add(1)",
                    "clamp_to(-1, 2)",
                    "gelu",
                    "saturate('f32')",
                    "lambda x: cast(x, 'f16')",
                ),
                f"scale(Vector({n}, name='by'))",
                f"scale(Matrix({m}, 1, name='by'))",
                f"scale(Matrix({m}, {k}, name='by'))",
                f"dequantise('f16', Matrix({k}, {n}, name='scales'))",
                f"dequantise('bf16', Matrix(1, {n}, 'bf16', name='scales'))",
            )
        )

    def ops(self, p: Product) -> list[str]:
        """Draw ops of an epilog."""
        m, n, _ = p.texts
        vector = f"Vector({n}, {self.one(F32_OR_F16)}, name='bias')"
        matrix = f"Matrix({m}, {n}, {self.one(F32_OR_F16)}{self.one(('', ', ColMajor'))}, name='residual')"
        exact = ("relu", "add(1)", "scale(2)", "scale(0.5)", "clamp_to(-4, 5)", "lambda x: maximum(x, -x)")
        exact = (*exact, f"add({vector})", f"add({vector})", f"add({matrix})", f"scale(Matrix({m}, 1, name='column'))")
        kinds = [*exact, "gelu", "sigmoid", "silu", "tanh"] if self.chance(0.2) else list(exact)
        chosen = [self.one(kinds) for _ in range(self.one((1, 1, 2, 3)))]
        if self.chance(0.15):
            saved = f"save(Matrix({m}, {n}, '{self.one(STORED)}'{self.one(('', ', ColMajor'))}, name='saved')"
            saved += self.one((")", ")", ", of=relu)", ", of=scale(2))"))
            chosen.insert(self.rng.randrange(len(chosen) + 1), saved)
        if self.chance(0.06):
            chosen.insert(
                self.rng.randrange(len(chosen) + 1),
                f'{self.one(("row_sum", "row_max"))}(Matrix({p.texts[0]}, {self.one((1, 2, 3))}, name="folded"))',
            )
        return list(dict.fromkeys(chosen))

    def then(self, p: Product) -> str:
        """Draw ops that follow the product."""
        return f".then({', '.join(self.ops(p))})"

    def block(self, p: Product, m: int, n: int) -> list[str]:
        """Draw the tiles of blocks."""
        batch = ", batch=1" if bool(p.batch) != self.chance(0.02) else ""
        return [f".tile({m}, {n}{batch})", ".to(Block)", *self.grid_refinements()]

    def grid_refinements(self) -> list[str]:
        """Draw how blocks count their tiles."""
        found = [f".layout({self.order()})"] if self.chance(0.2) else []
        if self.chance(0.12):
            found.append(
                self.one(
                    (
                        ".persistent()",
                        ".persistent()",
                        ".persistent(Grouped(2))",
                        ".persistent(ColMajor)",
                        ".persistent(Hilbert(2))",
                        ".persistent(share=stream_k(3))",
                    )
                )
            )
        found += [".dependent()"] if self.chance(0.02) else []
        return found

    def order(self) -> str:
        """Draw an order of tiles."""
        return self.one(("RowMajor", "ColMajor", "Grouped(2)", "Grouped(3)", "Hilbert(2)", "Hilbert(4)"))

    def to(self, level: str) -> str:
        """Draw who takes tiles."""
        more = f", units={self.one((1, 2, 3, 16))}" if self.chance(0.04) else ""
        return f".to({level}{more})"

    def ordered(self) -> list[str]:
        """Draw how units count their tiles."""
        found = [".layout(ColMajor)"] if self.chance(0.12) else []
        return [*found, *([".permute(lambda i: i ^ 1)"] if self.chance(0.03) else [])]

    def epilog(self, p: Product, memory: str, m: int, n: int, store: str | None = None) -> list[str]:
        """Draw where sums are held, what is made of them, and how they are stored."""
        words = self.ops(p) if self.chance(0.25) else []
        words.append(f"memory={memory}")
        put = self.store(m, n) if store is None and self.chance(0.35) else store or ""
        words += [f"store={put}"] if put else []
        words += [f'dtype="{self.one(("f32", "f16", "f64", "i32"))}"'] if self.chance(0.06) else []
        words += [f"init={self.one((1, -2, 3))}"] if self.chance(0.05) else []
        return [f".epilog({', '.join(words)})"]

    def store(self, m: int, n: int) -> str:
        """Draw how a result leaves."""
        d = self.one
        panel = f", panel=({d((m, m // 2 or 1, 16))}, {d((n, n // 2 or 1, 8))})" if self.chance(0.4) else ""
        more = (
            panel
            + d(("", "", ", pad=4", ", pad=8"))
            + d(("", "", ", reuse=True"))
            + d(("", "", "", ", order=ColMajor"))
            + d(("", "", ", ring=2"))
            + d(("", "", ", at=Warp"))
        )
        put = d(("conform(), vector()", "conform(), vector()", "stmatrix(), vector()", "conform(), tma(0)"))
        elements = "lambda move: move.own(Thread).tile(1, 1).unroll().done()"
        return d(("conform()", "conform(4)", elements, *(f"through_shared({put}{more})",) * 4))

    def chunks(self, p: Product, k: int) -> list[str]:
        """Draw how K is cut: by blocks, by a loop, by warps."""
        found: list[str] = []
        if self.chance(0.12):
            reduce = self.one(("", ", by_atomics()", ", in_order()", ", by_cluster()", ", by_cluster(2)", ", by_tma()"))
            found += [f".split(ways={self.one((2, 2, 3))}, multiple_of={k})", f".parallel(Block{reduce})"]
        if self.chance(0.06):
            return [*found, f".split({k})", f".parallel({self.one(('Warp', 'Warpgroup', 'Group(Warp, 2)'))})"]
        found.append(f".split({k})")
        if self.chance(0.45):
            found.append(
                f".pipeline({self.one((1, 2, 2, 3, 4))}{self.one(('', '', '', ', drain=True', ', inflight=1'))})"
            )
        found += [self.one((".unroll()", ".unroll(2)"))] if self.chance(0.12) else []
        found += [f".specialize({self.one(('', 'producers=1', 'prefetch=2'))})"] if self.chance(0.07) else []
        found += [".promote()"] if self.chance(0.06) else []
        return found

    def to_shared(self, p: Product, role: str, rows: int, cols: int) -> list[str]:
        """Draw a load to shared memory."""
        if self.chance(0.05):
            return []
        dtype = f', dtype="{self.one(("f32", "f16", "bf16"))}"' if self.chance(0.03) else ""
        strategy = self.strategy("SH")
        if (strategy.startswith("tma") and not self.chance(0.1)) or (strategy.startswith("cp_async") and p.number < 80):
            strategy = self.one(("", "staged()"))
        return [f".load({role}, SH{self.given(strategy)}{dtype})", *self.buffer(rows, cols)]

    def load(self, role: str, memory: str, strategy: str | None = None) -> str:
        """Draw a load to registers."""
        return f".load({role}, {memory}{self.given(self.strategy(memory) if strategy is None else strategy)})"

    @staticmethod
    def given(strategy: str) -> str:
        """Write a strategy as an argument, or nothing."""
        return f", {strategy}" if strategy else ""

    def strategy(self, memory: str) -> str:
        """Draw how a load is done."""
        if memory == "SH":
            own = "lambda move: move" + "".join(self.through())
            return self.one(
                (
                    "",
                    "",
                    "vector()",
                    "vector(4)",
                    "staged()",
                    "staged()",
                    "cp_async()",
                    "cp_async()",
                    "cp_async(4)",
                    "tma(0)",
                    "tma()",
                    "tma(64)",
                    own,
                )
            )
        if memory == "FR":
            return self.one(("ldmatrix()", "ldmatrix()", "conform()", "", "movmatrix()"))
        tile = self.one(("1, 1", "2, 1", "1, 2", "4, 1", "Strided((1, 2), (1, 1))", "Strided((1, 1), (1, 2))"))
        return self.one(
            ("", "", "", "conform()", "conform(4)", "staged()", f"lambda move: move.tile({tile}).unroll().done()")
        )

    def through(self) -> list[str]:
        """Draw the links of a Move down to threads."""
        found: list[str] = []
        if self.chance(0.3):
            found += [f".tile({self.one((4, 8))}, {self.one((4, 8, 16))})", self.to("Warp"), *self.ordered()]
        if self.chance(0.4):
            return [
                *found,
                f".vectors({self.one(('', '', '4', '8', '16'))})",
                ".to(Thread)",
                ".unroll()",
                self.one((".done()", ".done()", '.done("cp.async")')),
            ]
        tile = self.one(("1, 1", "1, 1", "1, 2", "2, 1", "1, 4", "Strided((1, 4), (1, 4))", "Strided((1, 2), (1, 1))"))
        found += [f".tile({tile})", self.to("Thread"), *self.ordered()]
        return [
            *found,
            *([".tile(1, 1)", ".unroll()"] if self.chance(0.3) else [self.one((".unroll()", ""))]),
            ".done()",
        ]

    def buffer(self, rows: int, cols: int) -> list[str]:
        """Draw how a buffer is laid out."""
        found: list[str] = []
        if self.chance(0.06):
            strides = self.one(((1, rows + 1), (1, rows), (cols, 1), (cols + 4, 1)))
            found.append(f".storage_layout(Layout(({rows}, {cols}), {strides}))")
        else:
            found += [f".storage_layout({self.one(('RowMajor', 'ColMajor'))})"] if self.chance(0.25) else []
            found += [f".pad({self.one((1, 2, 4, 8))})"] if self.chance(0.2) else []
        if self.chance(0.2):
            bits, base = self.one((1, 1, 2, 3)), self.one((0, 1, 2, 3))
            if 1 << (bits + base) <= min(rows, cols) or self.chance(0.1):
                found.append(f".swizzle(Swizzle({bits}, {base}, {bits + self.one((0, 0, 1, 2))}))")
        found += [".reuse_buffer()"] if self.chance(0.04) else []
        return [*found, *([".no_sync()"] if self.chance(0.03) else [])]
