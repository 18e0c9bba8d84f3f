"""Commands that a table's owner runs: compiling equality deletes, indexing, and cleaning up."""
