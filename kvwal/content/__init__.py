"""The bytes of contents: claim files beside a log, their claims, and their copies in the archive."""
