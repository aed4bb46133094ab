"""What a Relay program is, whoever reads it: expressions, types, arrays; and how much is taken."""
