"""Which delete files, row groups and pages need no probe, from their bounds alone."""
