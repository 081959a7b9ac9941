"""Readers of the logs of other products, for `kvwal import`: SeaTunnel, Flume and NiFi. They need no Java, and change no file."""
