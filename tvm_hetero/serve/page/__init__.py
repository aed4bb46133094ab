"""The page for the person who runs the server."""
