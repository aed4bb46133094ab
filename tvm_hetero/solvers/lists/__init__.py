"""List scheduling: HEFT, PEFT, CPOP, greedy, one device."""
