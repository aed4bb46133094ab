"""Encoders from Hugging Face folders: a run takes whole inputs and keeps nothing.

    families      what each family is: names of its weights, words of its config
    config        what ``config.json`` says, in the same words for all
    stored        weights, taken by name; what is left over is refused
    graph         parts that all have: attention, feed-forward network, norms
    inputs        shapes, as the config or the user says
    text, vision, clip, whisper, wav2vec2   what stands in front of the layers and behind them
    importer      `encoder_from_huggingface`

As with decoders nothing is downloaded, and nothing is unpickled.
"""
