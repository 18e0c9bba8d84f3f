"""The anti-join of rows with equality deletes, built from the delete files' keys or, reversed, from the rows."""
