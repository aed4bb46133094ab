"""The door that all requests pass, in the order in which a request meets it.

door_server, door_stream     who may have a connection, and what may not be done with it
lingering, raw_answers       closing so that a last word is read; words before there is a request
routes, delegate             the table of routes; between tornado's connection and a handler
known_heads, fast_lane       heads that came before; small requests with one, beside tornado
handler, answer_writer       what every request passes; how its answer is written
door_checks                  host, key and length, before the body comes
errors                       exceptions as statuses
context                      what handlers work on
openapi                      what the server answers, as one document
"""
