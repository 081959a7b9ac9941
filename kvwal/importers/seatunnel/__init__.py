"""SeaTunnel's log for Hazelcast maps: its folders, its records, and the latest record of each key."""
