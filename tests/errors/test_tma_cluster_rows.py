def test_tma_cluster_rows(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-box",
        "load(B, SH, tma())",
        """\
DecompositionError[bulk-box]: 2 blocks of a cluster cannot share 8 rows of B: each takes a multiple of 8
  --> test_tma_cluster_rows.py:22:10
22 |         .load(B, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 256x8 to Cluster > tile 128x8 to Block > epilog > split 64 > load B to SH > tile 64x8 > tile 64x8 to Thread
fix: use tiles whose rows divide so, or smaller clusters""",  # noqa: E501
    )
