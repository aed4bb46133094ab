"""What every part of the server knows: queries, refusals, limits, options."""
