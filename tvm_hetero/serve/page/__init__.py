"""The page for the person who runs the server, and what scrapers read.

assets     the page's own files, and what a browser is told about them; static/ has them
snapshot   what the page shows, as one document
viewers    the document once, and once a second for whoever looks
plans      pictures of plans
scrape     /metrics
"""
