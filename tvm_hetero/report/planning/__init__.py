"""Words about plans for decoders and services."""
