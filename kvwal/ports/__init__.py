"""Ports: the only modules that use files (`disk`), time and randomness (`clock`), threads (`tasks`) and processes (`processes`).

The log uses the operating system only through ports, so that tests can replace each of them: with a disk that loses unsynced
data, a clock that steps back, or a scheduler with a seed.
"""
