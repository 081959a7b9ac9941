"""Figures of the nodes and logs of the location, made once for all who look, and examinations of it."""
