def test_role_of_parallel(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "parallel-pipeline",
        "specialize()",
        """\
DecompositionError[parallel-pipeline]: specialize() refines a loop, and Warpgroups take the chunks of this split all at once
  --> test_role_of_parallel.py:18:10
18 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog FR > split 128 to Warpgroup
fix: split again below, and refine that loop""",  # noqa: E501
    )
