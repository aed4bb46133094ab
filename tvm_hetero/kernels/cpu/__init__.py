"""What a CPU is to a kernel: target, vector unit, compiler flags, tile registers."""
