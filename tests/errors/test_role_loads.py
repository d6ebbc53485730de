def test_role_loads(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-loads",
        "specialize()",
        """\
DecompositionError[role-loads]: specialize() finds no loads to shared memory right below its split
  --> test_role_loads.py:17:10
17 |         .specialize()
   |          ^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: load A and B to SH right below the split""",
    )
