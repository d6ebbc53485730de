def test_role_copies(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-copies",
        "load(A, SH, cp_async())",
        """\
DecompositionError[role-copies]: cp.async.16B cannot fill a ring that another role empties: no barrier counts its bytes
  --> test_role_copies.py:19:10
19 |         .load(A, SH, cp_async())
   |          ^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: load by tma(), or drop specialize()""",
    )
