def test_role_registers(refused: Callable[..., Any]) -> None:
    refused(
        wrong,
        "role-registers",
        "specialize(registers=(40, 240))",
        """\
DecompositionError[role-registers]: 128 threads of 40 registers and 256 of 240 take 66560, above the 64512 that a launch of 384 threads gets of an SM's 65536
  --> test_role_registers.py:19:10
19 |         .specialize(registers=(40, 240))
   |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
at:  MatMul 512x512x512 @ Kernel > tile 128x128 to Block > epilog
fix: give the threads that compute at most 232 registers""",  # noqa: E501
    )
