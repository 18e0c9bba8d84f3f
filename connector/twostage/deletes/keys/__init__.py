"""Keys of equality deletes: comparable form, hash tables, direct tables, prefilters, memory."""
