"""What is sound, what is not, and what can be saved: the modules behind `kvwal log verify`, `log repair` and `doctor`."""
