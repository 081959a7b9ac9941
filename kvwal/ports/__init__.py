"""The only doors to files (`disk`), time and chance (`clock`), and threads and processes (`tasks`).

Everything in the log goes through them, so that a test can stand behind each: a disk that forgets what was not synced, a
clock that steps back, a scheduler with a seed.
"""
