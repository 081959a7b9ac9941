"""What the questions about the pipeline on Spark share: sessions, merges by hand, archives, a relay that counts."""
