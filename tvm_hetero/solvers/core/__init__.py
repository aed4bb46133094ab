"""What every solver stands on: options, scaling, feasibility, verified calls."""
