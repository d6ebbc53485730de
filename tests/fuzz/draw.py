"""Draw programs and chains as source text: all kinds of specs, links, strategies, element types, layouts, odd sizes.

A drawn chain is one Python expression of the public names. So it prints as it is, and shrinks by editing its tree. Most
chains follow a plan that can work; then some links are dropped, doubled, exchanged or changed, so that a part of them
says what nobody would write. A symbol's name ends in the value that it is given: `symbol("M_37")` is 37.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import attrs

from tests.fuzz.parts import ARCHES, DTYPES, LAYOUTS, MMA, STORED, WGMMA
from tests.fuzz.steps import OfSteps

AS_PLANNED = 0.5  # of chains that follow their plan to the letter

_CONVERTS = re.compile(r", dtype=['\"]\w+['\"]")  # of a load


class Drawer(OfSteps):
    """Draw whole chains."""

    def chain(self) -> str:
        """Draw a whole chain, as source text."""
        kinds: dict[Callable[[], list[str]], int] = {
            self.simt: 26, self.mma: 18, self.wgmma: 10, self.micro: 6, self.volta: 3, self.preset: 14, self.move: 10,
            self.elementwise: 5, self.products: 4, self.layers: 3, self.wild: 4, self.rows: 5, self.program: 8,
            self.attention: 2, self.attention_links: 2, self.gradient: 2, self.convolution: 6,
            self.convolution_links: 3, self.window: 2, self.columns: 4, self.plain: 4,
        }  # fmt: skip
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        links = kind()
        if not self.chance(AS_PLANNED):
            for _ in range(self.one((1, 1, 2, 3))):
                links = self.changed(links)
        return "".join(links)

    # Chains of products, by what computes at their end.

    def simt(self) -> list[str]:
        """Draw a product for CUDA cores: blocks, maybe warps, threads, registers."""
        dtype = self.one(("f32", "f32", "f32", "f64", "f16", "bf16", "i8", "i32", "u8"))
        thread = self.one(((1, 1), (2, 2), (4, 4), (2, 4), (4, 2), (1, 4), (8, 8), (3, 2)))
        grid = self.one(((4, 8), (8, 4), (8, 8), (2, 16), (4, 4), (16, 16), (8, 16)))
        m, n = thread[0] * grid[0], thread[1] * grid[1]
        k = self.one((4, 8, 16, 8, 6, 32))
        p = self.product(m, n, k, dtype, self.one(ARCHES))
        chain = [self.spec(p), *self.around(p), *self.block(p, m, n), *self.epilog(p, "RF", m, n), *self.chunks(p, k)]
        chain += [*self.to_shared(p, "A", m, k), *self.to_shared(p, "B", k, n)]
        if self.chance(0.4):
            wm, wn = self.one(((m, n), (m // 2 or 1, n), (m, n // 2 or 1), (m // 2 or 1, n // 2 or 1)))
            chain += [f".tile({wm}, {wn})", self.to("Warp"), *self.ordered()]
            m, n = wm, wn
        i, j = thread
        if self.chance(0.15):
            a, s, t = self.one((1, 2)), self.one((2, 4, 8)), self.one((1, 4, 16))
            rows = f"Layout(({a}, {max(1, i // a)}), ({t if self.chance(0.2) else 1}, {s}))"
            chain.append(f".tile({rows}, {self.one((str(j), f'Layout({j}, {self.one((1, 2, 4))})'))})")
        elif self.chance(0.25):
            a, b = self.one((1, 2, i)), self.one((1, 2, j))
            chain.append(f".tile(Strided(({a}, {max(a, a * m // i)}), ({b}, {max(b, b * n // j)})))")
        else:
            chain.append(f".tile({i}, {j})")
        chain += [self.to("Thread"), *self.ordered()]
        if self.chance(0.9):
            chain += [
                f".split({self.one((1, 4)) if dtype in ('i8', 'u8') else self.one((1,) * 9 + (2,))})",
                ".unroll()",
            ]
            chain += [f".pipeline({self.one((1, 2, 3))})"] if self.chance(0.25) else []
            chain += [self.load("A", "RF"), self.load("B", "RF")]
        return [*chain, ".tile(1, 1)", ".unroll()", ".done()"]

    def mma(self) -> list[str]:
        """Draw a product for tensor cores by mma.sync."""
        dtype = self.one(("f16", "f16", "bf16", "tf32", "i8", "u8", "f64", "e4m3", "e5m2", "i4", "b1"))
        arch, (am, an), depths = MMA[dtype]
        step = self.one(depths)
        warps = self.one(((1, 1), (2, 1), (1, 2), (2, 2)))
        wm, wn = am * self.one((1, 2, 4)), max(16, an) * self.one((1, 2, 4))
        m, n, k = wm * warps[0], wn * warps[1], step * self.one((1, 2, 4))
        newer = [a for a in ARCHES if int(a[3:]) >= int(arch[3:])]
        p = self.product(m, n, k, dtype, self.one(newer))
        chain = [self.spec(p), *self.around(p), *self.block(p, m, n), *self.epilog(p, "FR", m, n), *self.chunks(p, k)]
        chain += [*self.to_shared(p, "A", m, k), *self.to_shared(p, "B", k, n)]
        if self.chance(0.15):
            chain += [f".split({step})", f".parallel({self.one(('Warp', 'Group(Warp, 2)', 'Warpgroup'))})"]
        chain += [f".tile({wm}, {wn})", self.to("Warp"), *self.ordered(), f".split({step})", ".unroll()"]
        chain += [f".pipeline({self.one((1, 2, 3))})"] if self.chance(0.4) else []
        own = "conform()" if dtype == "f64" else None
        chain += [self.load("A", "FR", own), self.load("B", "FR", own)]
        if self.chance(0.1):
            chain += [f".tile(Strided(({am}, {wm // 2 or 1}), ({an}, {wn // 2 or 1})))", ".unroll()"]
        return [*chain, f".tile({am}, {an})", ".unroll()", ".done()"]

    def wgmma(self) -> list[str]:
        """Draw a product for Hopper's warpgroups."""
        dtype = self.one(tuple(WGMMA))
        step = WGMMA[dtype]
        nbytes = 32 // step
        groups = self.one((1, 2, 2, 3))
        span = self.one((128, 128, 64, 32))
        m, n, k = 64 * groups, 8 * self.one((1, 2, 3, 4, 8, 8, 16)), span // nbytes * self.one((1, 1, 2))
        layout = "TN" if step != 16 or self.chance(0.5) else self.one(LAYOUTS)
        p = self.product(m, n, k, dtype, "sm_90", layout, 16 // nbytes if self.chance(0.85) else 1)
        cluster = self.one(((1, 1), (1, 1), (2, 1), (1, 2)))
        chain = [self.spec(p), *(x for x in self.around(p) if "prolog" not in x or self.chance(0.2))]
        turns = self.chance(0.15)
        grid = [".persistent()"] if turns or self.chance(0.3) else self.grid_refinements()
        if cluster != (1, 1):
            batch = ", batch=1" if p.batch else ""
            chain += [
                f".tile({cluster[0] * m}, {cluster[1] * n}{batch})",
                ".to(Cluster)",
                *grid,
                f".tile({m}, {n})",
                ".to(Block)",
            ]
        else:
            chain += [self.block(p, m, n)[0], ".to(Block)", *grid]
        wide = self.one((0, 32, 64, 128))
        put = "stmatrix()" if (p.out or dtype) in ("f16", "bf16") else "conform()"
        bulk = f"through_shared({put}, tma({wide}), panel=(64, {n}), at=Warpgroup, ring={self.one((1, 2))})"
        chain += self.epilog(p, "FR", m, n, self.one(("", "", bulk)))
        if self.chance(0.15):
            chain += [
                f".split(ways=2, multiple_of={k})",
                f".parallel(Block{self.one(('', ', by_cluster()', ', in_order()'))})",
            ]
        chain += [f".split({k})", f".pipeline({self.one((2, 3, 4))}, inflight={self.one((0, 1))})"]
        chain += [".promote()"] if self.chance(0.1) else []
        chain += (
            [f".specialize({self.one(('', 'registers=(24, 240)', 'producers=1', 'prefetch=1'))})"]
            if self.chance(0.95)
            else []
        )
        chain += [
            f".load(A, SH, tma({span}))",
            f".load(B, SH, tma({span if self.chance(0.9) else self.one((0, 32, 64, 128))}))",
        ]
        own = m if turns else self.one((64, 64, 64, m))
        chain += [f".tile({own}, {n})", ".to(Warpgroup)", *([".staggered(2)"] if turns else [])]
        chain += [f".split({span // nbytes})", ".unroll()"] if k * nbytes > span else []
        return [
            *chain,
            f".split({step})",
            ".unroll()",
            *([f".tile(64, {n})", ".unroll()"] if own > 64 else []),
            ".done()",
        ]

    def micro(self) -> list[str]:
        """Draw a product that ends in a microkernel, or in the row of another memory."""
        p = self.product(
            self.one((4, 8, 16)),
            self.one((4, 8, 16)),
            self.one((4, 8)),
            self.one(("f32", "f64", "i32")),
            self.one(ARCHES),
        )
        m, n = self.one((2, 4, 8, 16)), self.one((2, 4, 8, 16))
        epilog = self.chance(0.6)
        p = p if epilog else attrs.evolve(p, out="")  # without one the microkernel's own source stores
        chain = [self.spec(p), *self.block(p, m, n)]
        chain += [*self.epilog(p, "RF", m, n), *self.chunks(p, 4)] if epilog else []
        loads = self.to_shared(p, "A", m, 4) + self.to_shared(p, "B", 4, n) if epilog else []
        chain += [_CONVERTS.sub("", link) for link in loads]  # the source multiplies elements of the operands' types
        chain += [f".tile({self.one((1, 1, 2))}, {self.one((1, 1, 2))})", self.to("Thread")]
        add = "" if epilog else "C[i * C_row + j * C_col] = 0; "
        each_k = "for (int k = 0; k < K; ++k)"
        term = f"{each_k} C[i * C_row + j * C_col] += A[i * A_row + k * A_col] * B[k * B_row + j * B_col];"
        source = f"for (int i = 0; i < M; ++i) for (int j = 0; j < N; ++j) {{ {add}{term} }}"
        meaning = "c + a @ b" if epilog else "a @ b"
        return [*chain, f'.done(microkernel("{source}", numpy=lambda a, b, c: {meaning}, name="dot"))']

    def volta(self) -> list[str]:
        """Draw a product for the first tensor cores."""
        m, n, k = self.one((16, 32, 64)), self.one((16, 32, 64)), self.one((16, 32))
        p = self.product(m, n, k, "f16", self.one(("sm_70", "sm_75", "sm_80")))
        chain = [self.spec(p), *self.block(p, m, n)]
        if self.chance(0.5):
            store = "conform()" if self.chance(0.5) else ""
            chain += [
                *self.epilog(p, "FR", m, n, store),
                f".split({k})",
                *self.to_shared(p, "A", m, k),
                *self.to_shared(p, "B", k, n),
            ]
            chain += [
                ".tile(16, 16)",
                ".to(Warp)",
                f".split({self.one((4, 8))})",
                ".unroll()",
                self.load("A", "FR", "conform()"),
                self.load("B", "FR", "conform()"),
            ]
            return [
                *chain,
                ".tile(Strided((4, 8), (4, 8)))",
                ".to(QuadPair)",
                ".layout(ColMajor)",
                ".split(4)",
                ".unroll()",
                ".done()",
            ]
        chain += [
            ".epilog(memory=FR, store=wmma())",
            f".split({k})",
            *self.to_shared(p, "A", m, k),
            *self.to_shared(p, "B", k, n),
        ]
        chain += [
            ".tile(16, 16)",
            ".to(Warp)",
            ".split(16)",
            ".unroll()",
            ".load(A, FR, wmma())",
            ".load(B, FR, wmma())",
        ]
        return [*chain, '.done("wmma")']

    # Other specs.

    def preset(self) -> list[str]:
        """Draw a preset with its parameters."""
        d = self.one
        tile = f"m={d((32, 64, 64, 128))}, n={d((32, 64, 64, 128))}"
        warp = f"warp={d(((32, 32), (32, 64), (64, 32), (16, 32)))}"
        split = f"ways={d((1, 1, 2))}, split_k={d((1, 1, 2, 3))}"
        name = d(
            (
                "listing1",
                "listing2",
                "listing4",
                "sgemm",
                "sgemm",
                "ampere",
                "ampere",
                "turing",
                "ada",
                "volta",
                "hopper",
                "hopper",
                "hopper",
                "scaled",
                "fused",
            )
        )
        size = (d((32, 64)), d((32, 64)), d((16, 32)))
        match name:
            case "listing1" | "listing2" | "listing4":
                p = self.product(64, 64, 8, d(("f32", "f32", "f64", "f16", "i32", "i8")), d(ARCHES))
                spec = self.spec(p) + "".join(self.around(p))
                return [f"simt.{name}({spec}{', m=64, n=64' if name == 'listing2' and self.chance(0.5) else ''})"]
            case "sgemm":
                p = self.product(64, 64, 8, d(("f32", "f32", "f64", "f16", "i32", "bf16")), d(ARCHES))
                spec = self.spec(p) + "".join(self.around(p))
                return [f"simt.sgemm({spec}, {tile}, {warp}, stages={d((1, 2, 3))}, ahead={d((1, 2))}, {split})"]
            case "ampere":
                p = self.product(*size, d(tuple(MMA)), d(ARCHES[2:]))
                spec = self.spec(p) + "".join(self.around(p))
                more = d(("", ", slots=1", ", ring=2", ", store=conform()", ", fragments=conform()"))
                return [f"ampere.gemm({spec}, {tile}, {warp}, stages={d((1, 2, 3, 4))}, {split}{more})"]
            case "turing":
                p = self.product(*size, d(("f16", "i8", "u8", "i4", "b1")), "sm_75")
                spec = self.spec(p) + "".join(self.around(p))
                return [f"turing.gemm({spec}, {tile}, {warp}, stages={d((1, 2, 3))}, {split})"]
            case "ada":
                p = self.product(*size, d(("e4m3", "e5m2", "f16")), d(("sm_89", "sm_90")))
                return [f"ada.gemm({self.spec(p)}{''.join(self.around(p))}, {tile}, {warp}, {split})"]
            case "volta":
                p = self.product(*size, "f16", d(("sm_70", "sm_75")))
                spec = self.spec(p) + "".join(self.around(p))
                return [f"volta.gemm({spec}, {tile}, {warp}, macro={d((16, 32))}, ways={d((1, 2))})"]
            case "scaled":
                m, n, k = d((40, 128)), d((24, 128)), d((128, 256))
                of = f'matmul({m}, {n}, {k}, "e4m3", layout="TN", arch="sm_90", out="{d(("f32", "bf16"))}")'
                left, right = (
                    f"Matrix({m}, {k // 128}, name='left_scales')",
                    f"Matrix({k // 128}, {n}, name='right_scales')",
                )
                of += f".prolog(A, dequantise('f32', {left})).prolog(B, dequantise('f32', {right}))"
                return [f"hopper.scaled_gemm({of}, hopper.Plan(64, 64, 1, promote=True))"]
            case "fused":
                m, n, k = d((40, 64, 70)), d((16, 48, 64)), d((16, 40, 64))
                kind = d(("add_gemm_gemm", "swiglu", "lstm_pattern", "lstm_cell", "mlp", "mlp_block"))
                k = d((2, 3)) if kind == "mlp" else k
                return [f'fused.{kind}({m}, {n}, {k}, path="{d(("simt", "ampere", "hopper", "auto"))}")']
            case _:
                return [self.hopper()]

    def hopper(self) -> str:
        """Draw a plan of Hopper's presets."""
        d = self.one
        p = self.product(64, d((32, 64)), 64, d(tuple(WGMMA)), "sm_90", "TN" if self.chance(0.7) else None)
        consumers = d((1, 2, 2, 3))
        plan = [f"{64 * consumers}, {8 * d((2, 3, 4, 6, 8, 8, 16))}, {consumers}"]
        for text, part in (
            ("pingpong=True", 0.2),
            ("swapped=True", 0.2),
            (f"cluster={d(((2, 1), (1, 2), (2, 2)))}", 0.25),
            ("panels=2", 0.2),
            (f"stages={d((2, 3, 4))}", 0.6),
            (f"group={d((1, 2, 8))}", 0.3),
            (f"ways={d((2, 3, 4))}", 0.2),
            ("stream=True", 0.15),
            ("through='cluster'", 0.15),
            ("dependent=True", 0.1),
            ("early=True", 0.1),
            (f"keep='{d(('left', 'right'))}'", 0.1),
            (f"prefetch={d((0, 2, 3))}", 0.2),
        ):
            plan += [text] if self.chance(part) else []
        name = d(("cooperative", "pingpong", "split_k", "stream_k", "skinny", "gemm", "gemm"))
        return f"hopper.{name}({self.spec(p)}{''.join(self.around(p))}, hopper.Plan({', '.join(plan)}))"

    def move(self) -> list[str]:
        """Draw a copy: other orders, element types, ways through other memories."""
        d = self.one
        rows, cols = self.extent(d((8, 16, 32, 64))), self.extent(d((8, 16, 32, 64)))
        kind = d(STORED)
        other = kind if self.chance(0.7) else d(STORED)
        batch = f", batch={d((2, 3))}" if self.chance(0.15) else ""
        pad = f", ld={max(rows, cols) + d((0, 3, 8))}" if self.chance(0.1) else ""
        src = f'Matrix({rows}, {cols}, "{kind}"{d(("", ", ColMajor"))}{batch}{pad})'
        dst = f'Matrix({rows}, {cols}, "{other}"{d(("", ", ColMajor"))}{batch})'
        m, n = d((4, 8, 16, 32)), d((4, 8, 16, 32))
        chain = [
            f'Move({src}, {dst}, arch="{d(ARCHES)}")',
            f".tile({m}, {n}{', batch=1' if batch and self.chance(0.9) else ''})",
            ".to(Block)",
            *self.grid_refinements(),
        ]
        if self.chance(0.3):
            chain += [f".load(SRC, SH{self.given(self.strategy('SH'))})", *self.buffer(m, n)]
        if self.chance(0.3):
            chain += [
                f".load(SRC, RF{self.given(d(('', 'vector()', 'conform()')))})",
                ".own(Thread)",
                d((".vectors()", ".tile(1, 1)")),
                ".unroll()",
            ]
            return [*chain, ".done()"]
        return [*chain, *self.through()]

    def elementwise(self) -> list[str]:
        """Draw an Init or a Pointwise."""
        d = self.one
        rows, cols = self.extent(d((8, 16, 32))), self.extent(d((8, 16, 32)))
        kind = d(("f32", "f16", "bf16", "i32", "i8", "f64"))
        tensor = lambda name, shape: f'Matrix({shape}, "{kind}"{d(("", ", ColMajor"))}, name="{name}")'  # noqa: E731
        if self.chance(0.25):
            spec = f'Init({tensor("y", f"{rows}, {cols}")}, {d((0, 1, -3, 2.5))}, arch="{d(ARCHES)}")'
        else:
            op = d(
                (
                    "x + v",
                    "x * 2 + v",
                    "relu(x) - v",
                    "maximum(x, v)",
                    "minimum(x, v) * x",
                    "clamp(x, -1, v)",
                    "where(equal(x, v), x, -v)",
                    "abs(x)",
                    "tanh(x) + v",
                    "x",
                )
            )
            broadcast = d((f"{rows}, {cols}", f"1, {cols}", f"{rows}, 1", f"1, {cols}"))
            x, v, y = tensor("x", f"{rows}, {cols}"), tensor("v", broadcast), tensor("y", f"{rows}, {cols}")
            spec = f'Pointwise(lambda x, v: {op}, {x}, {v}, {y}, arch="{d(ARCHES)}")'
        m, n = d((4, 8, 16)), d((4, 8, 16, 32))
        chain = [spec, f".tile({m}, {n})", ".to(Block)", *self.grid_refinements()]
        if self.chance(0.3):
            chain += [f".tile({m // 2}, {n // 2})", self.to("Warp"), *self.ordered()]
        chain += [f".tile({d((1, 1, 2))}, {d((1, 1, 2, 4))})", self.to("Thread"), *self.ordered()]
        return [*chain, *([".tile(1, 1)", d((".unroll()", ""))] if self.chance(0.8) else []), ".done()"]

    def products(self) -> list[str]:
        """Draw several products of one shape."""
        d = self.one
        m, n = self.extent(32), self.extent(32)
        k, k2 = self.extent(16), self.extent(16)
        kind = d(("f32", "f16", "bf16"))
        of = lambda rows, cols, name: f'Matrix({rows}, {cols}, "{kind}"{d(("", ", ColMajor"))}, name="{name}")'  # noqa: E731
        x, w, y = of(m, k, "X"), of(k, n, "W"), f'Matrix({m}, {n}, "{kind}", name="Y")'
        h, u = (x, of(k, n, "U")) if self.chance(0.5) else (of(m, k2, "H"), of(k2, n, "U"))
        names = ["X", "W", "U"] if h == x else ["X", "W", "H", "U"]
        op = d(("p + q", "relu(p) * q", "maximum(p, q)", "p - q"))
        spec = (
            f'products({y}, ({x}, {w}), ({h}, {u}), op=lambda p, q: {op}, arch="{d(ARCHES[2:])}")'
            if self.chance(0.6)
            else f'products({y}, [({x}, {w}), ({h}, {u})], arch="{d(ARCHES[2:])}")'
        )
        if kind == "f32" or self.chance(0.3):
            loads = [
                f'.load("{name}", SH{self.given(d(("", "staged()", "vector()", "cp_async()")))})' for name in names
            ]
            inner = [f'.load("{name}", RF)' for name in names]
            return [
                spec,
                ".tile(16, 16)",
                ".to(Block)",
                ".epilog(memory=RF)",
                ".split(8)",
                d(("", ".pipeline(2)")),
                *loads,
                ".tile(2, 2)",
                self.to("Thread"),
                ".split(1)",
                ".unroll()",
                *inner,
                ".tile(1, 1)",
                ".unroll()",
                ".done()",
            ]
        loads = [f'.load("{name}", SH{self.given(d(("", "staged()", "cp_async()")))})' for name in names]
        inner = [f'.load("{name}", FR{self.given(d(("ldmatrix()", "conform()")))})' for name in names]
        return [
            spec,
            ".tile(32, 32)",
            ".to(Block)",
            ".epilog(memory=FR)",
            ".split(16)",
            d(("", ".pipeline(2)", ".pipeline(3)")),
            *loads,
            ".tile(16, 16)",
            ".to(Warp)",
            ".split(16)",
            ".unroll()",
            *inner,
            ".tile(16, 8)",
            ".unroll()",
            ".done()",
        ]

    def layers(self) -> list[str]:
        """Draw layers that follow each other."""
        d = self.one
        m, k, n = self.extent(32), d((16, 32)), d((16, 32))
        op = d(("relu", "lambda acc: acc", "add(1)"))
        w = f'(Matrix({k}, {n}, "f16", name="W"{d(("", ", order=ColMajor"))}), {op})'
        v = f'(Matrix({n}, {k}, "f16", name="V"), relu)' if self.chance(0.5) else ""
        y = f'Matrix({m}, {k if v else n}, "f16", name="Y")'
        spec = f'layers({y}, Matrix({m}, {k}, "f16", name="X"), {w}{", " + v if v else ""}, arch="{d(ARCHES[2:])}")'
        load = d((".load(A, SH)", ".load(A, SH, staged())", ".load(A, SH, cp_async())", ".load(A, FR)"))
        inner = (
            "layer.epilog().split(16)"
            + d(("", ".pipeline(2)"))
            + ".load(B, SH"
            + d(("", ", cp_async()", ", staged()"))
            + ")"
        )
        inner += (
            f".tile(16, {d((8, 16))}).to(Warp).split(16).unroll()"
            + (".load(A, FR, ldmatrix())" if "SH" in load else "")
            + ".load(B, FR, "
            + d(("ldmatrix()", "conform()"))
            + ").tile(16, 8).unroll().done()"
        )
        return [
            spec,
            f".tile({d((16, 32))})",
            ".to(Block)",
            d(("", ".persistent()")),
            load,
            f".each(lambda layer: {inner})",
        ]

    def wild(self) -> list[str]:
        """Draw links one after another, whatever they make of each other."""
        p = self.product(16, 16, 8, self.one(DTYPES), self.one(ARCHES))
        return [self.spec(p), *(self.any_link() for _ in range(self.rng.randrange(1, 14))), ".done()"]

    # Chains that nobody would write.

    def any_link(self) -> str:
        """Draw any link, without regard to what stands before it."""
        d, n = self.one, self.one((1, 2, 3, 4, 8, 16, 32))
        level = d(("Cluster", "Block", "Warpgroup", "Group(Warp, 2)", "Warp", "QuadPair", "Thread", "Kernel"))
        strided = f"Strided(({d((1, 2, 4))}, {n}), ({d((1, 2, 4))}, {n}))"
        tiles = (f".tile({n}, {d((1, 2, 4, 8, 16))})", f".tile({strided})", f".to({level})", f".to({level}, units={n})")
        of_tiles = (".unroll()", f".layout({self.order()})", ".permute(lambda i: i ^ 1)", ".to(Block, resident=2)")
        persistent = (".persistent()", ".dependent()", ".staggered(2)")
        splits = (
            f".split({n})",
            f".split(ways={n})",
            f".pipeline({n})",
            ".specialize()",
            ".promote()",
            f".unroll({n})",
        )
        loads = (self.load("A", "SH"), self.load("B", "SH"), self.load(d("AB"), "RF"), self.load(d("AB"), "FR"))
        buffers = (f".pad({n})", f".swizzle(Swizzle(1, {d((0, 1, 2))}, 2))", ".storage_layout(ColMajor)", ".no_sync()")
        epilogs = (".epilog(memory=RF)", ".epilog(relu, memory=FR)", ".prolog(A, relu)", ".then(relu)", ".swap()")
        others = (f".load(C, {d(('SH', 'RF'))})", ".reuse_buffer()", ".own(Thread)", ".vectors()", ".done()")
        of_splits = (f".parallel({level})", f".split({n})")
        return d((*tiles, *of_tiles, *persistent, *splits, *of_splits, *loads, *buffers, *epilogs, *others))

    def changed(self, links: list[str]) -> list[str]:
        """Drop, double, exchange, insert or change a link."""
        if len(links) < 2:
            return [self.renumbered(links[0])]
        i = self.rng.randrange(1, len(links))
        found = list(links)
        # A microkernel that sets C is not one for chunks of K, and its source multiplies elements of the operands'
        # types: it says so to nobody.
        source, sets = ".done(microkernel(" in links[-1], "c: a @ b," in links[-1]

        def fits(link: str) -> bool:
            return not (sets and link.startswith(".split")) and not (source and _CONVERTS.search(link))

        other = next(link for link in iter(self.any_link, "") if fits(link))
        match self.one(("drop", "double", "exchange", "insert", "replace", "number", "number", "number")):
            case "drop":
                del found[i]
            case "double":
                found.insert(i, found[i])
            case "exchange":
                j = max(1, i - 1)
                found[i], found[j] = found[j], found[i]
            case "insert":
                found.insert(i, other)
            case "replace":
                found[i] = other
            case _:
                j = self.rng.randrange(len(found))
                found[j] = self.renumbered(found[j])
        return found

    def renumbered(self, link: str) -> str:
        """Change one number of a link, outside quotes: a microkernel's source says what its NumPy function does."""
        plain = re.sub(r"\"[^\"]*\"|'[^']*'", lambda text: "_" * len(text[0]), link)
        numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", plain))
        if not numbers:
            return link
        at = self.one(numbers)
        n = int(at[0])
        return f"{link[: at.start()]}{self.one((1, 2, n + 1, abs(n - 1), n * 2, n // 2, n * 3, 0))}{link[at.end() :]}"


def drawn(seed: str) -> str:
    """Draw the chain of a seed, as source text."""
    return Drawer(random.Random(seed)).chain()
