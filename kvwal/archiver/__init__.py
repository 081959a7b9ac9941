"""The archiver: a process that checkpoints, archives and compacts logs, and so never holds up their writer.

`jobs` defines the jobs and answers, `work` does the jobs in the child (`__main__`), `remote` is the parent's end of the pipe.
"""
