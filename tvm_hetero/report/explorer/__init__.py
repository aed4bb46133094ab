"""A plan that can be changed in the page that shows it: its judge, and how it is drawn."""
