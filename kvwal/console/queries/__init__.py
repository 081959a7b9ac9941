"""SQL of people who ask the console: each statement runs in a process of its own kind, with limits of time, memory and rows."""
