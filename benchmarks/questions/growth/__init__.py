"""Questions about growth: what one operation costs as one thing grows."""
