"""Who is in the cluster, and who must be there before its memory may be filled.

`record` is what each member's root remembers of the others, `roster` what living members tell each other through Hazelcast,
`gathering` decides from both, `electorate` and `voters` who may serve; `returning` compares what a member wrote alone.
"""
