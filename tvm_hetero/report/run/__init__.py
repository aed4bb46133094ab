"""Pictures and words about a run: traces, bottlenecks, predicted beside measured."""
