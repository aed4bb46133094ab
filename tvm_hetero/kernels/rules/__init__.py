"""Schedules: which rules there are for CPUs, that of everything else, and that for GPUs."""
