"""The circuits live in the terminal."""
