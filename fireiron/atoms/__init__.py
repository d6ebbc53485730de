"""Instructions as rows of tables, one file for each family."""
