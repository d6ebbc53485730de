def test_cluster_size(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "cluster-blocks",
        "to(Block)",
        """\
DecompositionError[cluster-blocks]: a cluster of 16 blocks is larger than the 8 that every GPU takes
  --> test_cluster_size.py:17:10
17 |         .to(Block)
   |          ^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel
fix: use clusters of at most 8 blocks""",
    )
