"""What must hold at every step, each recounted apart from the code that it watches."""
