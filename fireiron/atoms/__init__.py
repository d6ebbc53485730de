"""Instructions as rows of tables, one file a family."""
