"""Folds: the state in a thread's registers, and a file for each way to combine the states of several threads."""
