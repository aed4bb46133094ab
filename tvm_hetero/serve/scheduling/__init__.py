"""Which query gets how many places, and when: Accordion and what it is compared with.

Pure functions and small state machines: no clock, no threads, no files, no TVM. The live
dispatcher, the simulator and the tests call the same code. In the order in which a query meets it:

    query          queries, priorities, and the decisions that a policy takes
    profile        what a model takes on so many places, from samples and predictions
    course         when the items of a running query enter and end, and what a new share changes
    pool           who owns which place
    calendar       how many places are free when, by what is running and reserved
    scheduler      the interface of policies, and the book-keeping that all of them share
    policies/      one file each, and the registry of their names
    arrivals       streams of queries, drawn or read
    replay         one policy on one stream, discrete events
    outcome        figures of a replay

What is after the paper and what is our own: docs/accordion.md.
"""
