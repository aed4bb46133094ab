"""What of this machine is used, what of it is not, and what to change."""
