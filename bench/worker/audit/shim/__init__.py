"""A folder for PYTHONPATH: Python imports the `sitecustomize` in it when it starts, before any script runs."""
