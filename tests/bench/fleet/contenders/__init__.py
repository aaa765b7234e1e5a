"""The contenders, one file each. A library's author can correct its entry in its file."""
