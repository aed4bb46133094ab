"""Messages between nodes: channels, routes, inboxes, wake-ups."""
