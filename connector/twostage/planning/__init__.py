"""From a pinned table and a predicate to scan tasks: which files, which parts, in which groups."""
