"""Ports: what log and store use of the operating system: files (`disk`), time and chance (`clock`), threads (`tasks`), processes.

The log uses the operating system only through ports, so that tests can replace each of them: with a disk that loses unsynced
data, a clock that steps back, or a scheduler with a seed.
"""
