"""Folds: the state that a thread keeps, and a file for each carrier that makes one value of several threads' states."""
