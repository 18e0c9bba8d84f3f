"""Commands that a table's owner runs: compiling equality deletes, cleaning what they left."""
