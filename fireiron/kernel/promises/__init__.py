"""The promise of each pass over a kernel's statements, and its verifier; `promises.py` has the table."""
