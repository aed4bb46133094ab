"""MetaSchedule on our kernels: spaces, trials, what was found."""
