"""The Python side of a model instance: one process that answers frames of one server thread."""
