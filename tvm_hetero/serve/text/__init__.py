"""From text to tokens and back, as chats and completions need it."""
