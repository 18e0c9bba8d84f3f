"""Delete keys: their comparable form, their tables, and what makes probing cheap or unnecessary."""
