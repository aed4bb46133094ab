"""One router, and what each request passes before its handler."""
