"""Draw programs of steps: rows, reductions, pointwise programs, gathers, attention, convolutions and their gradients.

Some are presets with their parameters, some the chains that presets write, link by link, so that a link can be changed.
"""

from __future__ import annotations

from tests.fuzz.parts import ARCHES, Parts


class OfSteps(Parts):
    """Draw chains of programs of steps."""

    def rows(self) -> list[str]:
        """Draw a row preset of one of the programs that are there."""
        d = self.one
        m, n = d((1, 2, 5, 9)), self.extent(d((8, 32, 64, 256, 1024)))
        kind, other = d(("f16", "bf16", "f32")), d(("f16", "f32"))
        x, y = (f'tensor({m}, {n}, dtype="{kind}", name="{name}")' for name in "xy")
        gain, bias = (f'tensor({n}, dtype="{d((kind, other))}", name="{name}")' for name in ("gain", "bias"))
        mask, target = f'tensor({m}, {n}, dtype="u8", name="mask")', f'tensor({m}, dtype="i32", name="target")'
        given = d(
            (
                f"softmax({x}", f"log_softmax({x}", f"layernorm({x}, {gain}, {bias}", f"layernorm({x}",
                f"rms_norm({x}, {gain}", f"add_rms_norm({x}, {y}, {gain}", f"add_layernorm({x}, {y}, {gain}, {bias}",
                f"softmax_backward({x}, {y}",
                f"dropped_add_layernorm({x}, {y}, {gain}, {bias}, {mask}", f"rms_norm_backward({x}, {y}, {gain}",
                f"layernorm_backward({x}, {y}, {gain}", f"cross_entropy({x}, {target}, out='f32'",
                f"quantised_rms_norm({x}, {gain}, out=('i8', 'f32')",
            )
        )  # fmt: skip
        arch = f', arch="{d(ARCHES)}"' if self.chance(0.7) else ""
        more = "".join(
            f", {name}={d(values)}"
            for name, values in (
                ("warps", (1, 2, 3, 4, 8)),
                ("blocks", (1, 2, 3)),
                ("rows", (1, 2, 4)),
                ("stages", (1, 2, 3)),
            )
            if self.chance(0.2)
        )
        return [f"rows.row(rows.{given}{arch}){more})"]

    def program(self) -> list[str]:
        """Draw a program of several steps over rows, and links that name its dims."""
        d = self.one
        m, n = self.extent(d((2, 4, 8))), self.extent(d((8, 32, 64, 128)))
        kind = d(("f32", "f32", "f16", "bf16", "i32"))
        exact = ("sum(x)", "max(x)", "min(x)", "sum(relu(x))", "max(-x)", "sum(x * 2)", "sum(x * v)", "max(x + v)")
        folds = [d(exact) for _ in range(d((1, 1, 2)))]
        folded = ["fi." + text[:-1] + ', "n")' for text in folds]
        rest = d(
            ("x * {}", "x - {}", "maximum(x, {})", "{} + v", "{}", "where(equal(x, {}), x, v)", "relu(x + {}) * v")
        )
        bodies = [rest.format(folded[0])]
        bodies += [d((folded[-1], f"({folded[-1]} + 1).named('second')", "x + v", "x"))] if self.chance(0.3) else []
        if self.chance(0.2) and kind != "i32":
            bodies = [
                d(("softmax(x, 'n')", "log_softmax(x, 'n')", "x / (1 + fi.sum(abs(x), 'n'))", "mean(x * x, 'n')"))
            ]
        body = bodies[0] if len(bodies) == 1 else f"({', '.join(bodies)})"
        arrays = f'tensor({m}, {n}, dtype="{kind}", name="x"), tensor({n}, dtype="{kind}", name="v")'
        arch = f', arch="{d(ARCHES)}"' if self.chance(0.5) else ""
        spec = f'program(x="m n", v="n")(lambda x, v: {body})({arrays}{arch})'
        rows, lanes = d((1, 2, 4)), d(("Warp", "Warp", "Group(Thread, 8)", "Group(Thread, 16)", "Thread", "Warpgroup"))
        ways, chunk = d((2, 3, 4)), d((8, 16, 32, 64))
        row, cut = [".tile(m=1)", ".to(Block)"], f'.split("n", ways={ways}{d(("", "", ", multiple_of=4"))})'
        chain = d(
            (
                [f".tile(m={rows})", ".to(Block)", ".tile(m=1)", f".to({lanes})"],
                [*row, cut, f".parallel({d(('Warp', 'Warp', 'Thread'))})"],
                [*row, f".split(n={chunk})", cut, ".parallel(Warp)"],
                [*row, cut, ".parallel(Block, by_cluster())", '.split("n", ways=2)', ".parallel(Warp)"],
                [f".tile(m={rows * 8})", ".to(Block)", ".tile(m=1)", ".to(Thread)", f".split(n={d((1, 2, 4))})"],
                [f".tile(m={rows})", ".to(Block)", f".tile(m={rows}, n={chunk})", ".to(Warp)"],
            )
        )  # fmt: skip
        if self.chance(0.15):
            chain.insert(2, d((".persistent()", ".layout(ColMajor)", ".permute(lambda i: i ^ 1)")))
        if self.chance(0.1):
            chain.insert(2, f'.load("x", SH{self.given(d(("", "staged()", "cp_async()")))})')
        load = d(("vector()", "vector()", "vector(4)", "conform()", ""))
        chain += [f'.load("{name}", RF{self.given(load)})' for name in ("x", "v") if self.chance(0.7)]
        chain += (
            [f".epilog(memory=RF{d(('', '', ', store=vector()', ', store=conform()'))})"] if self.chance(0.6) else []
        )
        return [spec, *chain, ".done()"]

    def columns(self) -> list[str]:
        """Draw a reduction over any dims of up to four."""
        d = self.one
        dims = "abcd"[: d((1, 2, 2, 3, 4))]
        shape = [self.extent(d((2, 4, 8, 32, 96))) if len(dims) < 4 else d((1, 2, 3, 8)) for _ in dims]
        over = "".join(dim for dim in dims if self.chance(0.5)) or d(dims)
        over = over[1:] or over if over == dims and self.chance(0.8) else over  # what folds all has no dim
        names = f'"{over}"' if len(over) == 1 else repr(tuple(over))
        kind = d(("f32", "f32", "f16", "bf16", "i32", "i8"))
        body = d(("fi.sum(x, {})", "fi.max(x, {})", "fi.min(-x, {})", "fi.sum(x * x, {})", "fi.sum(relu(x), {})"))
        if len(over) == 1 and kind != "i8":
            body = d((body, body, "fi.argmax(x, {})", "fi.argmin(x, {})", "fi.prod(x, {})", "mean(x * x, {})"))
        out = ', out="i32"' if kind == "i8" else ""
        array = f'tensor({", ".join(map(str, shape))}, dtype="{kind}", name="x")'
        spec = f'program(x="{" ".join(dims)}")(lambda x: {body.format(names)})({array}{out}{self.of_arch(ARCHES)})'
        more = f", ways={d((1, 2, 3, 5))}" if self.chance(0.5) else ""
        return [f"reductions.reduction({spec}{more}{d(('', '', ', atomics=True'))})"]

    def plain(self) -> list[str]:
        """Draw a program without a fold, a gather, the k largest of rows, or a Move, by their presets."""
        d = self.one
        m, n = self.extent(d((1, 4, 16))), self.extent(d((8, 32, 64)))
        kind, out = d(("f32", "f16", "bf16", "i32")), d(("f32", "f16", "bf16"))
        arch, vectors = self.of_arch(ARCHES), d(("", "", ", vectors=1", ", vectors=3"))
        match d(("pointwise", "pointwise", "embedding", "top", "top", "scan", "scan", "move")):
            case "pointwise":
                body = d(("x + v", "relu(x) * 2", "(x + v, x - v)", "where(x < v, x, v)", "clamp(x, -1, v).named('y')"))
                arrays = f'tensor({m}, {n}, dtype="{kind}", name="x"), tensor({n}, dtype="{kind}", name="v")'
                spec = f'program(x="m n", v="n")(lambda x, v: {body})({arrays}{arch})'
                return [f"pointwise.pointwise({spec}{vectors})"]
            case "embedding":
                table = f'tensor({d((1, 7, 50))}, {n}, dtype="{out}", name="table")'
                spec = f'rows.embedding(tensor({m}, dtype="i32", name="ids"), {table}{arch})'
                return [f"pointwise.pointwise({spec}{vectors})"]
            case "scan":
                array = f'tensor({m}, {n}, dtype="{d((kind, out))}", name="x")'
                body = d(
                    ('fi.cumsum(x, "n")', 'fi.cumsum(x, "n", where=fi.index("n") % 3 > 0)', 'fi.cumsum(x, "n") * 2')
                )
                more = "".join(f", {name}={d((1, 2, 4))}" for name in ("warps", "rows") if self.chance(0.3))
                return [f'rows.row(program(x="m n")(lambda x: {body})({array}{arch}){more})']
            case "top":
                spec = f'rows.top(tensor({m}, {n}, dtype="{out}", name="x"), k={d((1, 2, 3, 8))}{arch})'
                more = "".join(f", {name}={d((1, 2, 4))}" for name in ("warps", "rows") if self.chance(0.3))
                return [f"rows.row({spec}{more})"]
            case _:
                sides = (f"Matrix({m}, {n}, '{kind}'{d(('', ', ColMajor'))})" for _ in range(2))
                return [f"pointwise.move(Move({', '.join(sides)}{arch}))"]

    def of_arch(self, arches: tuple[str, ...]) -> str:
        """Name an architecture, or leave it to the default."""
        return f', arch="{self.one(arches)}"' if self.chance(0.7) else ""

    # Attention.

    def heads(self, arches: tuple[str, ...], depth: int, width: int) -> str:
        """Draw the program of attention, with masks, score functions, shared keys, and logarithms beside the result."""
        d = self.one
        kind, heads = d(("f16", "bf16")), d(("1, 1", "1, 2", "2, 1"))
        queries, keys = self.extent(d((8, 16, 48, 64))), self.extent(d((8, 16, 32, 64)))
        shared = ", 2" if self.chance(0.15) else ""
        q = f'tensor({heads}{shared}, {queries}, {depth}, dtype="{kind}", name="q")'
        sizes = (("k", keys, depth), ("v", keys, width))
        arrays = ", ".join(
            (q, *(f'tensor({heads}, {n}, {of}, dtype="{kind}", name="{name}")' for name, n, of in sizes))
        )
        more = d(("", "", ", causal=True", ", mask=lambda i, j: j <= i + 3", ", score=lambda s: s * 2"))
        more += ", lse=True" if self.chance(0.15) else ""
        name = 'attention.on(q="b h g i d")' if shared else "attention"
        return f"attention.{name}({arrays}{more}{self.of_arch(arches)})"

    def gradient(self) -> list[str]:
        """Draw a gradient of attention by its presets."""
        d = self.one
        kind, heads, n, m = (
            d(("f16", "bf16")),
            d(("1, 1", "1, 2")),
            self.extent(d((8, 16, 32))),
            self.extent(d((8, 16))),
        )
        depth, width = d((16, 32)), d((16, 32))
        inner = (("q", n, depth), ("k", m, depth), ("v", m, width), ("dy", n, width))
        arrays = [f'tensor({heads}, {rows}, {of}, dtype="{kind}", name="{name}")' for name, rows, of in inner]
        arrays += [f'tensor({heads}, {n}, name="{name}")' for name in ("lse", "delta")]
        of = f"{d(('of_queries', 'of_keys'))}({', '.join(arrays)}{d(('', ', causal=True'))}"
        if self.chance(0.3):
            spec = f"attention_gradients.{of}{self.of_arch(ARCHES)})"
            return [f"attention_gradients.simt({spec}, rows={d((16, 32))}, chunk=4)"]
        more = f"warps={d((1, 2))}, chunk={d((16, 32))}, stages={d((1, 2))}, rows={d((16, 32))}"
        return [f"attention_gradients.mma(attention_gradients.{of}{self.of_arch(ARCHES[2:])}), {more})"]

    def attention(self) -> list[str]:
        """Draw attention by its presets."""
        d = self.one
        depth = d((16, 32, 64))
        width = d((depth, depth, 16, 32, 64))
        match d(("simt", "mma", "mma", "wgmma", "wgmma")):
            case "simt":
                spec = self.heads(ARCHES, d((4, 8, 16)), d((4, 8, 16)))
                return [f"attention.simt({spec}, rows={d((16, 32, 64))}, keys={d((4, 8))})"]
            case "mma":
                spec = self.heads(ARCHES[2:], depth, width)
                more = f"warps={d((1, 2, 4))}, keys={d((16, 32, 64))}, stages={d((1, 2, 2, 3))}, rows={d((16, 32))}"
                more += f", slack={d((0.0, 4.0, 12.0))}" if self.chance(0.5) else ""
                return [f"attention.mma({spec}, {more})"]
            case _:
                spec = self.heads(("sm_90", "sm_90a"), d((64, 64, 32, 128)), d((64, 64, 32, 128)))
                more = f"groups={d((1, 2, 3))}" + (f", keys={d((32, 64, 80))}" if self.chance(0.8) else "")
                more += f", stages={d((1, 2, 3))}" if self.chance(0.4) else ""
                for name in ("persistent", "bulk_store"):
                    more += f", {name}={d((True, False))}" if self.chance(0.5) else ""
                return [f"attention.wgmma({spec}, {more})"]

    def attention_links(self) -> list[str]:
        """Draw attention link by link, for mma.sync."""
        d = self.one
        copy, warps, step = d(("cp_async()", "", "staged()")), d((1, 2)), d((16, 16, 32))
        chain = [
            self.heads(ARCHES[2:], d((16, 32, 64)), d((16, 32, 64))),
            f".tile(b=1, h=1, i={16 * warps})",
            ".to(Block)",
            *([".persistent()"] if self.chance(0.2) else []),
            d((".epilog(memory=FR)", ".epilog(memory=FR)", ".epilog(memory=FR, store=conform())")),
            f'.load("q", SH{self.given(copy)})',
            f".split(j={d((16, 32))})",
            ".online()",
            *([f".pipeline({d((1, 2, 3))})"] if self.chance(0.7) else []),
            f'.load("k", SH{self.given(copy)})',
            f'.load("v", SH{self.given(copy)})',
            ".tile(i=16)",
            ".to(Warp)",
        ]
        scores = f's.split(d=16).unroll().load("q", FR, {d(("ldmatrix()", "conform()"))})'
        scores += f'.load("k", FR, {d(("ldmatrix()", "conform()"))}).tile(i=16, j=8).unroll().done()'
        values = f'o.split(j={step}).unroll().load("v", FR, {d(("ldmatrix()", "conform()"))})'
        values += (
            ".tile(i=16, e=8).unroll().done()"
            if step == 16
            else ".split(j=16).unroll().tile(i=16, e=8).unroll().done()"
        )
        return [*chain, f".each(s=lambda s: {scores}, o=lambda o: {values})"]

    # Convolutions.

    def images(self, arches: tuple[str, ...], kind: str, channels: int, filters: int) -> str:
        """Draw the program of a convolution, or of the gradient of one."""
        d = self.one
        n, h, w = d((1, 2, 3)), d((4, 5, 7, 9)), d((4, 6, 8, 11))
        r, s = d(((1, 1), (3, 3), (2, 3), (3, 1)))
        stride, pad, dilation = d((1, 1, 2, (2, 1), 3)), d((0, 1, 1, ((1, 0), (0, 2)))), d((1, 1, 1, 2))
        array = lambda name, *shape: f'tensor({", ".join(map(str, shape))}, dtype="{kind}", name="{name}")'  # noqa: E731
        arch, out = self.of_arch(arches), d(("", "", ', out="f32"')) if kind != "i8" else ', out="i32"'
        more = f", stride={stride}, pad={pad}" + (f", dilation={dilation}" if dilation > 1 else "")
        of = d(("conv2d", "conv2d", "conv2d", "conv1d", "conv3d", "conv2d_grouped", "transposed", "first"))
        match of:
            case "conv1d":
                given = f"{array('x', n, w, channels)}, {array('f', filters, s, channels)}"
                one = f", stride={d((1, 2))}, pad={d((0, 1))}, dilation={dilation}"
                return f"conv.conv1d({given}{one}{out}{arch})"
            case "conv3d":
                given = f"{array('x', 1, 3, h, w, channels)}, {array('f', filters, 2, r, s, channels)}"
                return f"conv.conv3d({given}, stride={d((1, 2))}, pad={d((0, 1))}{out}{arch})"
            case "conv2d_grouped":
                given = f"{array('x', n, h, w, 2, channels)}, {array('f', 2, filters, r, s, channels)}"
                return f"conv.conv2d_grouped({given}{more}{out}{arch})"
            case "first":  # arrays that lie channels first
                x = f'tensor({n}, {h}, {w}, {channels}, dtype="{kind}", strides=({h * w * channels}, {w}, 1, {h * w}))'
                return f"conv.conv2d({x}, {array('f', filters, r, s, channels)}{more}{out}{arch}, channels_first=True)"
            case "transposed":
                given = f"{array('y', n, h, w, channels)}, {array('f', channels, r, s, filters)}"
                return f"conv.conv2d_transposed({given}, stride={d((1, 1, 2))}, pad={d((0, 1))}{out}{arch})"
            case _:
                given = f"{array('x', n, h, w, channels)}, {array('f', filters, r, s, channels)}"
                given += f", {array('bias', filters)}, op=relu" if self.chance(0.3) and kind != "i8" else ""
                return f"conv.conv2d({given}{more}{out}{arch})"

    def convolution(self) -> list[str]:
        """Draw a convolution, or the gradient of its filters, by their presets."""
        d = self.one
        kind = d(("f16", "f16", "bf16", "tf32", "i8", "e4m3"))
        match d(("simt", "simt", "mma", "mma", "wgmma", "wgmma", "gradient", "akg", "packed")):
            case "simt":
                spec = self.images(ARCHES, d(("f32", "f32", "f16", "i8")), d((1, 3, 4, 8)), d((1, 5, 8, 12)))
                more = f", pixels={d((8, 16, 64))}, channels={d((4, 8, 32))}, depth={d((2, 4, 8))}"
                return [f"conv.simt({spec}{more if self.chance(0.6) else ''})"]
            case "mma":
                spec = self.images(ARCHES[2:], kind, d((8, 16, 24, 32)), d((8, 16, 40)))
                more = f", pixels={d((32, 64))}, channels={d((32, 64))}, depth={d((16, 32))}, warp=({d((16, 32))}, 32)"
                return [f"conv.mma({spec}{more if self.chance(0.8) else ''}, stages={d((1, 2, 3))})"]
            case "wgmma":
                spec = self.images(("sm_90", "sm_90a"), kind, d((8, 16, 24, 64)), d((16, 64, 72)))
                groups = d((1, 2))
                more = f", pixels={64 * groups}, groups={groups}, channels={d((32, 64))}, stages={d((1, 2, 3))}"
                more += f", cluster={d((1, 2))}, persistent={d((True, False))}"
                return [f"conv.wgmma({spec}{more if self.chance(0.8) else ''})"]
            case "packed":
                c, k, (r, s_) = d((1, 3, 4, 5)), d((8, 16, 24)), d(((3, 3), (2, 5), (7, 7)))
                kind = d(("f16", "bf16"))
                images = f'tensor({d((1, 2))}, 9, {d((8, 11)) * c}, dtype="{kind}", name="x")'
                filters = f'tensor({k}, {r}, {s_ * c}, dtype="{kind}", name="f")'
                more = f"channels={c}, stride={d((1, 2))}, pad={d((0, 1, 3))}"
                spec = f"conv.conv2d_packed({images}, {filters}, {more})"
                return [f"conv.packed({spec}, pixels={d((32, 64))}, channels=32, stages={d((1, 2))})"]
            case "akg":
                images = f'tensor({d((2, 16, 18))}, {d((3, 4))}, {d((3, 4))}, {d((8, 24))}, dtype="f16", name="x")'
                filters = f'tensor({d((8, 40))}, 2, 2, {d((8, 24))}, dtype="f16", name="f")'
                spec = f"conv.conv2d({images}, {filters}, pad={d((0, 1))}{self.of_arch(('sm_70', 'sm_75'))})"
                return [f"akg.conv({spec}, images={d((16, 32))}, filters={d((32, 64))}, depth={d((8, 16, 64))})"]
            case _:
                preset, arch = d((("filters_mma", ARCHES[2:]), ("filters_wgmma", ("sm_90", "sm_90a"))))
                p, q, (r, s), step = d((3, 5)), d((4, 6)), d(((1, 1), (2, 2), (1, 3))), d((1, 1, 2))
                h, w = (p - 1) * step + r, (q - 1) * step + s
                n = d((1, 2, 3))
                y = f'tensor({n}, {p}, {q}, {d((8, 16, 72))}, dtype="{kind}", name="y")'
                x = f'tensor({n}, {h}, {w}, {d((8, 24, 40))}, dtype="{kind}", name="x")'
                spec = f'conv_gradients.conv2d_filter_gradient({y}, {x}, ({r}, {s}), stride={step}, out="f32"'
                more = f", ways={d((1, 2, 3))}" if self.chance(0.6) else ""
                return [f"conv_gradients.{preset}({spec}{self.of_arch(arch)}){more})"]

    def convolution_links(self) -> list[str]:
        """Draw a convolution link by link, for mma.sync or for CUDA cores."""
        d = self.one
        copy = d(("", "staged()", "vector()"))
        by_cores = self.chance(0.5)
        arches = ARCHES if by_cores else ARCHES[2:]
        n, h, w, c, k = d((1, 2)), d((4, 5, 8)), d((4, 8, 9)), d((4, 8)) if by_cores else d((16, 24)), d((8, 16))
        kind = d(("f32", "f16")) if by_cores else "f16"
        x, f = (
            f'tensor({", ".join(map(str, shape))}, dtype="{kind}", name="{name}")'
            for name, shape in (("x", (n, h, w, c)), ("f", (k, 3, d((1, 3)), c)))
        )
        spec = f"conv.conv2d({x}, {f}, stride={d((1, 1, 2))}, pad={d((0, 1))}{self.of_arch(arches)})"
        swizzle = [f".swizzle(Swizzle({d((1, 2))}, 3, 3))"] if self.chance(0.3) else []
        if by_cores:
            p, q, of = d((1, 2)), d((2, 4)), d((4, 8))
            return [
                spec,
                f".tile(n=1, p={2 * p}, q={2 * q}, k={of})",
                ".to(Block)",
                ".epilog(memory=RF)",
                f".split(c={d((2, 4))})",
                *([f".pipeline({d((1, 2))})"] if self.chance(0.3) else []),
                f'.load("x", SH{self.given(copy)})',
                f'.load("f", SH{self.given(copy)})',
                f".tile(n=1, p={d((1, p))}, q={d((1, q))}, k={d((1, 2))})",
                self.to("Thread"),
                ".split(r=1)",
                *([".unroll()"] if self.chance(0.3) else []),
                ".split(s=1)",
                ".split(c=1)",
                *([".load('x', RF)", ".load('f', RF)"] if self.chance(0.5) else []),
                ".done()",
            ]
        copy = d((copy, "cp_async()", "cp_async()"))
        inner = f'y.split(16).unroll().load("A", FR, {d(("ldmatrix()", "conform()"))})'
        inner += f'.load("B", FR, {d(("ldmatrix()", "conform()"))}).tile(16, 8).unroll().done()'
        return [
            spec,
            ".tile(n=1, p=4, q=8, k=16)",
            ".to(Block)",
            *([".persistent()"] if self.chance(0.2) else []),
            d((".epilog(memory=FR)", ".epilog(memory=FR, store=through_shared(pad=8, reuse=True))")),
            ".split(r=1, s=1, c=16)",
            *([f".pipeline({d((1, 2, 3))})"] if self.chance(0.7) else []),
            f'.load("x", SH{self.given(copy)})',
            *swizzle,
            f'.load("f", SH{self.given(copy)})',
            *swizzle,
            f".tile(n=1, p={d((2, 4))}, q=8, k={d((8, 16))})",
            ".to(Warp)",
            f".each(product=lambda y: {inner})",
        ]

    def window(self) -> list[str]:
        """Draw a pooling."""
        d = self.one
        shape = f"{d((1, 2))}, {d((4, 7, 9))}, {d((4, 6, 11))}, {d((3, 8, 32))}"
        size, stride = d((1, 2, 3, (2, 3))), d((0, 1, 2))
        x = f'tensor({shape}, dtype="{d(("f32", "f16"))}", name="x")'
        of = d((f"max_pool2d({x}, {size}, {stride}, {d((0, 1))}", f"average_pool2d({x}, {size}, {stride}"))
        return [f"conv.simt(conv.{of}{self.of_arch(ARCHES)}))"]
