"""What is written for people, and (in `site`) what makes a site of it."""
