"""Delete files of every format: their columns, batch by batch."""
