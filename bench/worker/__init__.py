"""The torch room: started by name in its own process, imported by nobody above."""
