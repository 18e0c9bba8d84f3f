"""Which delete files, row groups and pages need no probe, by their bounds alone."""
