"""The store: options, engine, businesses, background maintenance, and its synchronous interface."""
