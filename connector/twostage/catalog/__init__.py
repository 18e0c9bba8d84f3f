"""From a name or a path to a pinned table: catalogs, their properties, folders of metadata."""
