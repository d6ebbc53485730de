"""What the walk of edges proves, a file an idea; `kernel/passes/edges.py` walks."""
