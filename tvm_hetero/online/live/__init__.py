"""A policy at work on a running executor: what it does is switched to, what it sees is measured.

stage_times    what was watched of requests, as an observation of a configuration's stages
pipeline       configurations of an executor that runs: switch to one, watch some requests
own_threads    what a thread of this process takes of the cores, which is no interference
adapter        the thread in which a policy drives a pipeline, and what it tells meanwhile
"""
