"""What each pass over a kernel's statements promises, and a verifier of each promise; `promises.py` has the table."""
