"""From text to tokens and back, as chats and completions need it.

folder          what a decoder's folder says of texts
tokenizer       tokens of a text, and texts of tokens
chat_template   a chat as one text
detokenizer     texts out of tokens as they come, never half a character
stops           what may become a stop text waits
"""
