"""The commands `kvwal import seatunnel`, `flume` and `nifi`: logs of other products, put into a store."""
