def test_staggered_loads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "staggered-units",
        "staggered(2)",
        """\
DecompositionError[staggered-units]: staggered(2) lets units compute different tiles at a time, and the loads above belong to all of them
  --> test_staggered_loads.py:22:10
22 |         .staggered(2)
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > load B to SH
fix: give the loads to a role of their own: split(k).pipeline(n).specialize() above""",  # noqa: E501
    )
