"""The plan that the compiler makes and the executor runs: steps on workers, tensors in slots."""
