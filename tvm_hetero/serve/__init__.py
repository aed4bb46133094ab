"""Models over the network, each query by its service-level objective.

core          queries, deadlines, refusals, limits, options
scheduling    which query gets which share of the cores: pure functions (Accordion, and others)
text          templates, tokens, stop texts
models        what is served, by name and version; the dispatcher that gives each its turn
metrics       what is counted, and the forms in which it is read
http          one router and the door that all requests pass
oip, openai   the protocols that clients speak
admin, page   for who runs the server
application   the table of all routes
server        a server from its first socket to its last answer
lifecycle     a server as a process: what signals do; logs: what it writes
load_test     the other side: a server is asked, and what came of it is told

A *place* is what `scheduling` gives to queries: here each is a core (`models.pool_dispatcher`). A
query's *deadline* is its client's: then it is ended; *due* is by when its model's objective (*SLO*)
wants it: later it is answered, too. An *item* is an element of a query's batch.

Needs the extra ``serve``: tornado, orjson, msgspec, prometheus_client.
"""
