"""The follower: a service that records the event logs of folders for as long as it runs, beside others of its kind."""
