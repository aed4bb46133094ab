"""Models over the network, each query by its service-level objective.

core          queries, refusals, limits, options
scheduling    which query gets which share of the cores: pure functions (Accordion, and others)
text          templates, tokens, stop texts
models        what is served, by name and version; the dispatcher that gives each its turn
metrics       what is counted, and the forms in which it is read
http          one router and the door that all requests pass
oip, openai   the protocols that clients speak
admin, page   for who runs the server
server        a server from its first socket to its last answer

Needs the extra ``serve``: tornado, orjson, msgspec, prometheus_client.
"""
