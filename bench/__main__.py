"""Choose a benchmark: `python -m bench gemm`, `overhead` or `build`."""

from __future__ import annotations

import argparse
import sys


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    gemm = verbs.add_parser("gemm", help="time a preset against torch, interleaved in one process")
    gemm.add_argument("preset", nargs="?", default="simt.sgemm")
    gemm.add_argument("--shape", nargs="+", default=["4096x4096x4096"], metavar="MxNxK")
    gemm.add_argument("--dtype", default="f32", help="element type of A and B: f16, tf32, e4m3, i8, ...")
    gemm.add_argument("--layout", default="NN", choices=("NN", "NT", "TN", "TT"))
    gemm.add_argument("--rounds", type=int, default=21)
    verbs.add_parser("overhead", help="host time of a call over a bare cuda.core launch")
    verbs.add_parser("build", help="time of chains, lowering, printing, compiling; needs no GPU")
    chosen = parser.parse_args(arguments)
    if chosen.verb == "gemm":
        from bench.gemm import run

        return run(chosen.preset, chosen.shape, chosen.dtype, chosen.layout, chosen.rounds)
    if chosen.verb == "overhead":
        from bench.overhead import run as overhead

        return overhead()
    from bench.build import run as build

    return build()


if __name__ == "__main__":
    sys.exit(main())
