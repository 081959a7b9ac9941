"""Scheduling of the maintenance of one log: which job begins, what fails, and how writers are slowed while it lags."""
