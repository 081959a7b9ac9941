"""Change feeds: the changes of a business in the order in which they were made, from logs and archive, from any position on."""
