def test_tma_without_role(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "bulk-role",
        "load(A, SH, tma())",
        """\
DecompositionError[bulk-role]: an mbarrier counts the bytes of tma.load.2d.128B as they land, and no role of this block waits for one
  --> test_tma_without_role.py:19:10
19 |         .load(A, SH, tma())
   |          ^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog > split 64 > load A to SH > tile 128x64 > tile 128x64 to Thread
fix: give the loads a role of their own: split(k).pipeline(n).specialize() right above them""",  # noqa: E501
    )
