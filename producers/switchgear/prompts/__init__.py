"""What the model gets to see: the list of usable tools, and a notice about the others."""
