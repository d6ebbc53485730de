def test_cluster_arch_check(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "arch",
        "to(Cluster)",
        """\
CheckError[arch]: clusters of blocks need sm_90, not sm_80
  --> test_cluster_arch_check.py:14:10
14 |         .to(Cluster)
   |          ^^^^^^^^^^^
at:  MatMul 256x256x64 @ Kernel > tile 256x128 to Cluster
fix: drop the tile to Cluster: tile to Block first""",
    )
