"""Lowering: each link of a chain becomes statements."""
