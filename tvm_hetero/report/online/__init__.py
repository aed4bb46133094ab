"""Pictures and words about pipelines that are tuned while they run."""
