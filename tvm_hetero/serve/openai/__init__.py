"""OpenAI's API: completions and chats of decoders, embeddings of encoders, models.

schemas, fields   what a request may say; what is refused because it would change the meaning
settings          from there to what the decoder is asked for
answering         the sequences of one request, and pieces of text of each choice as they come
choices           from tokens to pieces: halves of characters, stop texts, log-probabilities
completions, chat, models, tokens, embeddings    the routes
handler, streams, errors                         the body, events, and errors of all of them
"""
