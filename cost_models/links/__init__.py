"""Links between devices: measured transfers and hand-overs."""
