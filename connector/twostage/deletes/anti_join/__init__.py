"""Which rows equality deletes remove: by a table of the keys, or of the remaining rows."""
