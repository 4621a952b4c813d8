"""What a careful reader asks first: doubts, coverage, method, surroundings, and what may be told of them."""
