"""Each decision of the cluster, connected to the running Hazelcast member."""
