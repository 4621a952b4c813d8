"""What a case, a panel and a section come to: medians with their spread, axes, rates, and numbers as text."""
