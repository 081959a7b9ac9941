"""The pages of the console: HTML that a server makes, and that is read without JavaScript."""
