"""The tables and files that an application reads and writes: from the nodes of physical plans, and from the RDDs of stages."""
