"""The queue: items that are taken in the order in which they were put, on the log of a business."""
