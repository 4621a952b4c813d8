"""Scripts that somebody might train with: none knows of a probe."""
