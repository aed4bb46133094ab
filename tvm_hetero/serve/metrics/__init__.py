"""What is counted, and the forms in which it is read.

histogram, recent     times of all queries since the start, and of those of the last minute
by_version            rows of the newest versions of each model
ledger                what each query adds, told by the observers of queries
token_ledger          what each token of a decoder adds
sampler, core_times   what is looked at by the clock: CPU seconds, states of models, cores
own_names             the families under our names; triton_names, vllm_names: under theirs
server_metrics        all of one server, in a registry of its own
exposition            a registry as text for a scraper
"""
