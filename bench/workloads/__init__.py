"""A folder is what is computed; a file in it is one way to do it."""
