"""Delete keys: their comparable form, the tables that hold them, what makes probing them cheap or needless."""
