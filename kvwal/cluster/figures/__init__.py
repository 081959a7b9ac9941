"""Figures of nodes: what a node tells a client of itself, and latency from histograms."""
