"""What is done to a log behind the writer's back, in a process of its own: checkpoint, archive, rewrite, gc.

`jobs` says what is asked and answered, `work` does it in the child (`__main__`), `remote` is the parent's end.
"""
