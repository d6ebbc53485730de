"""Layer 0: coded errors with carets, links back to the user's source, an indenting writer; independent of the IR."""
