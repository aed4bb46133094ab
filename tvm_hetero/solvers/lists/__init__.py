"""List scheduling: HEFT, PEFT, CPOP, one device; greedy as their baseline."""
