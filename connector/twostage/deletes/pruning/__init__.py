"""Which data files, row groups and pages hold no deleted key, or nothing else."""
