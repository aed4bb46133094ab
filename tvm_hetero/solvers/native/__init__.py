"""Search and decoding in C++ (src/search), called with arrays."""
