"""Requests to a member for what its logs hold: from clients, and from other members."""
