"""The store: options, engine, businesses, background maintenance, and its synchronous and asynchronous interface."""
