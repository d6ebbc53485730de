"""Checks at a link: one rule, one function."""
