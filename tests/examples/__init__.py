"""Each example runs, and what it says of itself is so."""
