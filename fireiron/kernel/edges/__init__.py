"""Rules of the edge verifier (an edge orders two conflicting accesses); `kernel/passes/edges.py` walks the kernel."""
