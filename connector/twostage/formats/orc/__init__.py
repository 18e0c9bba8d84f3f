"""ORC: tails, statistics, and stripes as Arrow arrays. Damaged bytes end in an error, never in a crash."""
