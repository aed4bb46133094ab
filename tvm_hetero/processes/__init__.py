"""Child processes that measure and compile: started, asked, watched and ended."""
