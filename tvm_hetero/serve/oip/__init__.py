"""The Open Inference Protocol, with Triton's extensions.

messages, numbers, npy, datatypes   bytes as documents and arrays
requests, parameters                what is asked, in what form, by when
infer, answers                      a query from its door to its answer
health, metadata, model_stats       what the server and its models say of themselves
"""
