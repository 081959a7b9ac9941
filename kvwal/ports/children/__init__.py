"""What a child process gets of this one: the Python, the folders it imports from, and the standard streams."""
