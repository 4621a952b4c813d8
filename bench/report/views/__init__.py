"""The views of a page, one a module: what is gathered, in which order, and said around it."""
