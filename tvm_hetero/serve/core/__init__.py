"""What every part of the server knows.

query       what is asked of a model, and its answer
deadline    how a client tells one, and what ends at it
refusal     why something is not done, and what a client is told
limits      on what a stranger may make the server do
options     how a server is run
shares      who has which core, for whoever looks
events      what happened to the server, for who runs it
"""
