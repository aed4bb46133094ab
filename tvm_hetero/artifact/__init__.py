"""What is written to disk and read back: an executable's folder."""
