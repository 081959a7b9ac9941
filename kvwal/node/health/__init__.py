"""Health of a node for operators: its status, its metrics, and the HTTP server that publishes both."""
