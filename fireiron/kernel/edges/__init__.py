"""Rules of the edge verifier, one in each file; `kernel/passes/edges.py` walks the kernel."""
