"""The C++ executor from Python: requests, futures, streams, traces, and which variant runs."""
