"""The levels of ``reveal``, a module each: what is contributed, opened, concluded, published and told."""
