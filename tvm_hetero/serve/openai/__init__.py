"""OpenAI's API for decoders."""
