"""From placement and order to times and loads."""
